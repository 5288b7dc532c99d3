"""Tables whose rows refer to those of the gate's small table, one for each thing that a DELETE does
to them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.ports.objects import StoreError
from bestbefore.ports.scratch import ScratchReference


class ReferringTable:
    """`bestbefore.ports.scratch.ReferringTable` of *parent*, beside it in *database*, which the
    configuration calls *called*. *on_delete* is as in SQL."""

    def __init__(self, database: Database, called: str, parent: sa.Table, on_delete: str) -> None:
        self.name = f"{parent.name}_{on_delete.lower().replace(' ', '_')}"
        self._database = database
        self._called = called
        self._table = sa.Table(
            self.name,
            sa.MetaData(),
            sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column(
                "refers_to",
                sa.BigInteger,
                sa.ForeignKey(parent.c.id, ondelete=on_delete),
                index=True,
            ),
            # As in the parent, so that a plan can say how many of these rows are young.
            sa.Column("written_at", sa.BigInteger, nullable=False),
            mysql_engine="InnoDB",
        )

    def exists(self) -> bool:
        """See the port."""
        with explained(self._called, self.name), self._database.reading() as connection:
            return sa.inspect(connection).has_table(self.name)

    def create(self) -> None:
        """See the port."""
        with explained(self._called, self.name), self._database.writing() as connection:
            self._table.create(connection)

    def insert(self, rows: Sequence[ScratchReference], written_at: datetime) -> None:
        """See the port."""
        at = int(written_at.timestamp() * 1_000)
        values = [{**row._asdict(), "written_at": at} for row in rows]
        with explained(self._called, self.name), self._database.writing() as connection:
            connection.execute(sa.insert(self._table), values)

    def rows(self) -> Sequence[ScratchReference]:
        """See the port."""
        table = self._table
        wanted = sa.select(table.c.id, table.c.refers_to).order_by(table.c.id)
        with explained(self._called, self.name), self._database.reading() as connection:
            return [ScratchReference(*row) for row in connection.execute(wanted)]

    def remove(self) -> None:
        """See the port."""
        with explained(self._called, self.name), self._database.writing() as connection:
            self._table.drop(connection, checkfirst=True)


@contextmanager
def explained(called: str, table: str) -> Iterator[None]:
    """Raise StoreError, which names the scratch *table* and its database, for what the driver
    raises."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        target = f"databases.{called}, scratch table {table}"
        raise StoreError(failure_of(error, target)) from error
