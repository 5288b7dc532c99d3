"""Messages that execute nothing, put where a worker would keep them."""

from datetime import UTC, datetime

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.strays import SqlStrays
from bestbefore.ports.strays import Stray, operation_in
from support.cli import Cli


def absorb(cli: Cli, *bodies: bytes) -> None:
    """Meet messages in a queue."""
    database = Database(cli.state or f"sqlite:///{cli.folder / 'bestbefore.db'}")
    met = [operation_in(body) for body in bodies]
    database.prepare()
    SqlStrays(database).absorb([one for one in met if isinstance(one, Stray)], datetime.now(UTC))
    database.dispose()
