"""Scratch places beside what a configuration names: the wiring of `bestbefore gate`."""

from bestbefore.adapters.state.scratch import beside
from bestbefore.app import brokers
from bestbefore.app.settings import DatabaseSettings, Settings
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.scratch import ScratchQueue, ScratchState, ScratchTable


def scratch_state(settings: Settings) -> ScratchState:
    """An empty ledger beside the configured one."""
    return beside(settings.state.url)


def scratch_queue(settings: Settings) -> ScratchQueue | None:
    """A queue beside the configured one; None where the state database is the queue, or where the
    adapter, one of another package, can make none."""
    if not settings.queue.is_elsewhere:
        return None
    return brokers.scratch(settings)


def scratch_table(database: DatabaseSettings) -> ScratchTable:
    """A small table in *database*; raises LedgerError without its driver."""
    # Imported here: the driver is an extra.
    try:
        from bestbefore.adapters.rows.scratch.small import SmallTable

        return SmallTable(database.url, database.name)
    except ImportError as error:
        raise LedgerError(
            f"databases.{database.name} needs {error.name}: "
            f'pip install "bestbefore[{database.extra}]"'
        ) from error
