"""Where a copy lives, apart from everything else."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Access
from bestbefore.adapters.rows.dialects import dialect_named
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.ports.objects import StoreError

PREFIX = "bestbefore_tune_"

SEED = "bestbefore_seed"
"""What the rows are taken from whenever the copy is filled again."""

ARCHIVE = "bestbefore_archive"

_LOCK_SECONDS, _STATEMENT_SECONDS = 30, 600


class Place(ABC):
    """A place of one database, of which ``url`` is where its copy is, and ``space`` the schema.

    ``offset`` is what has to stand behind an instant in UTC.
    """

    offset = ""
    space: str | None

    def __init__(self, url: sa.URL, name: str) -> None:
        self.url = url
        self.space = self.name = name

    @abstractmethod
    def create(self) -> None:
        """Create the place, empty. Raises ScratchRefused."""

    @abstractmethod
    def clone(self, schema: str, table: str, called: str) -> None:
        """Put an empty copy of *table* there that is *called* so."""

    @abstractmethod
    def seed(self, table: str, columns: Sequence[str]) -> None:
        """Put an empty table called `SEED` there, for these *columns* of the copy, *table*."""

    def archive(self, table: str) -> str:  # noqa: ARG002  (not every place has a choice)
        """What the copy of an archive called *table* is called."""
        return ARCHIVE

    @abstractmethod
    def drop(self) -> None:
        """Remove the place and all that is in it."""

    @abstractmethod
    def empty(self, connection: sa.Connection, table: str) -> None:
        """Take all rows out of the copy."""

    @abstractmethod
    def settle(self, engine: sa.Engine, table: str) -> None:
        """Have the database know what is in the copy."""

    def engine(self) -> sa.Engine:
        """Connections for whoever fills the copy, or writes to it as an application does."""
        dialect = dialect_named(self.url.get_backend_name())
        return dialect.engine(self.url, Access(False, _LOCK_SECONDS, _STATEMENT_SECONDS))

    def named(self, *parts: str | None) -> str:
        """A name for SQL."""
        quote = self.url.get_dialect()().identifier_preparer.quote_identifier
        return ".".join(quote(part) for part in parts if part is not None)

    def run(self, *statements: str) -> None:
        """Run statements that create or remove things. Raises StoreError."""
        with self.connected() as connection, connection.begin():
            for statement in statements:
                connection.exec_driver_sql(statement)

    @contextmanager
    def connected(self) -> Iterator[sa.Connection]:
        """A connection for a moment; what goes wrong there is a StoreError."""
        engine = self.engine()
        try:
            with engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(failure_of(error, self.name)) from error
        finally:
            engine.dispose()
