"""A small table of our own, the same in every database: a number, a time, a note."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.scratch import partitioned
from bestbefore.adapters.rows.scratch.referring import ReferringTable, explained
from bestbefore.adapters.sql_server import product
from bestbefore.domain.rows import RowSource, TimestampKind
from bestbefore.ports.scratch import ScratchRow

NAME = "bestbefore_gate"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_PAGE = 1_000

_TABLE = sa.Table(
    NAME,
    sa.MetaData(),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    # Milliseconds: the one way to write a time that every database compares alike.
    sa.Column("written_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("note", sa.String(200), nullable=False),
    mysql_engine="InnoDB",
)


class SmallTable:
    """`bestbefore.ports.scratch.ScratchTable`, in the default schema of the database at *url*
    that the configuration calls *called*."""

    name = NAME

    def __init__(self, url: str, called: str) -> None:
        self._database = Database(url)
        self._called = called
        self.cascade = ReferringTable(self._database, called, _TABLE, "CASCADE")
        self.set_null = ReferringTable(self._database, called, _TABLE, "SET NULL")

    def source(self) -> RowSource:
        """See the port."""
        return RowSource(
            self._called,
            NAME,
            "written_at",
            timestamp_kind=TimestampKind.EPOCH_MS,
            batch_size=10,
            trusts_foreign_keys=True,  # all that refer to it are ours
        )

    def exists(self) -> bool:
        """See the port."""
        with self._explained(), self._database.reading() as connection:
            there = sa.inspect(connection).has_table(NAME)
            return there or bool(partitioned.left(connection, _TABLE))

    def create(self) -> None:
        """See the port."""
        with self._explained(), self._database.writing() as connection:
            _TABLE.create(connection)

    @property
    def has_partitions(self) -> bool:
        """See the port."""
        return self._database.url.get_backend_name() == "postgresql"

    def partition(self, ends: Sequence[datetime]) -> None:
        """See the port."""
        with self._explained(), self._database.writing() as connection:
            partitioned.made_again(connection, _TABLE, [_written(end) for end in ends])

    def partitions(self) -> Sequence[str]:
        """See the port."""
        with self._explained(), self._database.reading() as connection:
            return partitioned.left(connection, _TABLE)

    def insert(self, rows: Sequence[ScratchRow]) -> None:
        """See the port."""
        with self._explained(), self._database.writing() as connection:
            for start in range(0, len(rows), _PAGE):
                values = [_values(row) for row in rows[start : start + _PAGE]]
                connection.execute(sa.insert(_TABLE), values)

    def update(self, row: ScratchRow) -> None:
        """See the port."""
        statement = sa.update(_TABLE).where(_TABLE.c.id == row.id).values(_values(row))
        with self._explained(), self._database.writing() as connection:
            connection.execute(statement)

    def rows(self) -> Sequence[ScratchRow]:
        """See the port."""
        with self._explained(), self._database.reading() as connection:
            found = connection.execute(sa.select(_TABLE).order_by(_TABLE.c.id))
            return [_row(row) for row in found]

    def row(self, number: int) -> ScratchRow | None:
        """See the port."""
        with self._explained(), self._database.reading() as connection:
            found = connection.execute(sa.select(_TABLE).where(_TABLE.c.id == number)).first()
            return None if found is None else _row(found)

    def delete(self, numbers: Sequence[int]) -> None:
        """See the port."""
        with self._explained(), self._database.writing() as connection:
            connection.execute(sa.delete(_TABLE).where(_TABLE.c.id.in_(numbers)))

    @property
    def locks_rows(self) -> bool:
        """See the port."""
        return self._database.url.get_backend_name() != "sqlite"

    @contextmanager
    def locked(self, number: int) -> Iterator[None]:
        """See the port."""
        same = sa.update(_TABLE).where(_TABLE.c.id == number).values(note=_TABLE.c.note)
        with self._explained(), self._database.writing() as connection:
            connection.execute(same)
            yield

    def remove(self) -> None:
        """See the port."""
        self.cascade.remove()
        self.set_null.remove()
        with self._explained(), self._database.writing() as connection:
            if self.has_partitions:
                partitioned.removed(connection, _TABLE)
            else:
                _TABLE.drop(connection, checkfirst=True)

    def close(self) -> None:
        """See the port."""
        self._database.dispose()

    def server(self) -> str:
        """See the port."""
        with self._explained(), self._database.reading() as connection:
            return product(connection)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self._called, NAME):
            yield


def _values(row: ScratchRow) -> dict[str, object]:
    return {
        "id": row.id,
        "written_at": _written(row.written_at),
        "note": row.note,
    }


def _written(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND


def _row(row: sa.Row[tuple[int, int, str]]) -> ScratchRow:
    return ScratchRow(row.id, _EPOCH + row.written_at * _MILLISECOND, row.note)
