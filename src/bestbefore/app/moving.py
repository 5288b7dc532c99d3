"""`state move`: take the ledger to another database."""

from pathlib import Path

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.move import move
from bestbefore.app.settings import Settings, Unfit, state_url
from bestbefore.app.settings.model import POSTGRESQL, SQLITE
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError
from bestbefore.read.documents import Document


def moved_state(settings: Settings, to: str, by: str, clock: Clock) -> Document:
    """Move the ledger of *settings* to the URL *to*: what went where.

    Raises LedgerError, having changed nothing, where it cannot be moved, or not now.
    """
    if not settings.state.url.startswith(SQLITE):
        raise LedgerError(
            f"{settings.path}: state.url is no SQLite file, and only such a ledger can be moved"
        )
    if not settings.state.file.exists():
        raise LedgerError(
            f"{settings.path}: there is no ledger at {settings.state.file} yet; write the new URL "
            "under [state], and the first plan creates it there"
        )
    source, target = Database(settings.state.url), Database(_target(to))
    try:
        rows = move(source, target, by, clock.now())
    finally:
        source.dispose()
        target.dispose()
    return {"moved_from": source.name, "moved_to": target.name, "rows": dict(rows)}


def _target(to: str) -> str:
    try:
        url = state_url(to, Path.cwd())
    except Unfit as fault:
        raise LedgerError(f"--to: {fault.message}; {fault.remedy}") from fault
    if not url.startswith(POSTGRESQL):
        raise LedgerError(f"--to: expected {POSTGRESQL}…; a ledger moves from SQLite to PostgreSQL")
    return url
