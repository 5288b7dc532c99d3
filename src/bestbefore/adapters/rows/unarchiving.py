"""Rows on their way back from a table that they were archived to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.archive_table import ArchiveTable
from bestbefore.adapters.rows.archiving import alteration
from bestbefore.adapters.rows.filling import filled
from bestbefore.adapters.rows.keys import Key, chosen, deleted
from bestbefore.adapters.rows.savepoints import tried
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.rows import RowBatch
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import Returned, TableRefused

_OCCUPIED = "another row has the key of one that was archived, and was left alone"


@dataclass(frozen=True, slots=True)
class Unarchiving:
    """The rows of one batch, in *archive*, and the table that they are from."""

    connection: sa.Connection
    target: Target
    archive: ArchiveTable
    operation_id: bytes
    batch: RowBatch

    def run(self, archived: int, *, dry_run: bool) -> Returned:
        """Move them. Raises StoreError where they are not those that were *archived*, TableRefused
        where they cannot be told from others, and what the database raises."""
        found = self._find(lock=not dry_run)
        if self.archive.stamp is None and len(found) not in (0, archived):
            raise StoreError(_others(self.archive.table, len(found), archived))
        free = [key for key, occupied in found if not occupied]
        occupied = len(found) - len(free)
        missing = max(0, archived - len(found))
        if dry_run:
            why = _OCCUPIED if occupied else None
            return Returned(len(free), left=occupied, missing=missing, why=why)
        end = tried(self.connection, str(self.target.table), free, self._move)
        why = end.why or (_OCCUPIED if occupied else None)
        return Returned(end.done, left=occupied + end.left, missing=missing, why=why)

    def _find(self, *, lock: bool) -> list[tuple[Key, bool]]:
        """The keys of the rows in the archive, and whether something has them in the table."""
        key = self._there(self.target.key)
        same = (here == there for here, there in zip(self.target.key, key, strict=True))
        taken = sa.select(sa.literal(1)).select_from(self.target.table).where(*same)
        occupied = taken.correlate(self.archive.table).exists()
        rows = sa.select(*key, sa.case((occupied, 1), else_=0)).where(self._theirs())
        if lock:
            rows = rows.with_for_update(of=self.archive.table)
        found = self.connection.execute(rows)
        return [(tuple(row[:-1]), bool(row[-1])) for row in found]

    def _theirs(self) -> sa.ColumnElement[bool]:
        """What holds for the rows of this batch in the archive."""
        if self.archive.stamp is not None:
            return self.archive.stamp == sa.literal(self.operation_id.hex(), sa.Text)
        along = self._there(self.target.along)
        return self.target.between(self.batch.first, self.batch.last, along)

    def _move(self, keys: Sequence[Key]) -> None:
        here = [column for column, _ in self.archive.pairs]
        there = sa.select(*(column for _, column in self.archive.pairs))
        moved = 0
        key = self._there(self.target.key)
        for condition in chosen(self.connection, key, keys):
            came = filled(self.connection, self.target.table, here, there.where(condition))
            self._refuse_altered(condition, came)
            if came != deleted(self.connection, self.archive.table, condition):
                raise StoreError(_lossy(self.target.table))
            moved += came
        if moved != len(keys):
            raise StoreError(_lossy(self.target.table))

    def _refuse_altered(self, condition: sa.ColumnElement[bool], came: int) -> None:
        """Raise Altered unless the *came* rows that *condition* chooses in the archive are in the
        table as they are there."""
        archived = {here.name: self.archive.columns[here.name] for here, _ in self.archive.pairs}
        types = {name: column.type for name, column in archived.items()}
        if not (why := alteration.doubtful(self.connection, self.target.columns, types)):
            return
        keys = zip(self.target.key, self._there(self.target.key), strict=True)
        same = [here == there for here, there in keys]
        same += [
            alteration.unaltered(self.connection, here, there, archived[here.name])
            for here, there in self.archive.pairs
            if here.name in why
        ]
        rows = sa.select(sa.func.count()).select_from(self.archive.table, self.target.table)
        if self.connection.execute(rows.where(condition, *same)).scalar_one() != came:
            alteration.refuse(why)

    def _there(self, columns: Sequence[sa.Column[Any]]) -> list[sa.Column[Any]]:
        """*columns* of the table, as they are in the archive. Raises TableRefused."""
        there = {here.name: other for here, other in self.archive.pairs}
        if lacking := [column.name for column in columns if column.name not in there]:
            raise TableRefused(
                f"{self.archive.table} has no column {lacking[0]}, so that the rows of a batch "
                "cannot be found in it; restore them by hand"
            )
        return [there[column.name] for column in columns]


def _others(archive: sa.Table, found: int, archived: int) -> Failure:
    return Failure(
        FailureClass.MALFORMED,
        f"{archive}: {found:,} rows are between the ends of this batch, and {archived:,} were "
        "archived, so they cannot be told from others; restore them by hand, and give the archive "
        "a column bestbefore_operation_id CHAR(64) for those to come",
    )


def _lossy(table: sa.Table) -> Failure:
    return Failure(
        FailureClass.MALFORMED,
        f"{table}: not all rows came back as they left the archive, so none did; look at the "
        "triggers and the row security of both tables",
    )
