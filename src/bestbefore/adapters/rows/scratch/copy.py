"""A copy of a table in a place of its own, and the rows that it is filled with."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows import names
from bestbefore.adapters.rows.dialect import Dialect
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.references import references
from bestbefore.adapters.rows.scratch.foreground import Foreground, statements_for
from bestbefore.adapters.rows.scratch.place import SEED, Place
from bestbefore.adapters.rows.scratch.places import place_for
from bestbefore.adapters.rows.scratch.recipes import recipe, shape_of
from bestbefore.adapters.rows.scratch.synthetic import Recipe
from bestbefore.adapters.rows.table import reflect
from bestbefore.domain.rows import RowSource, TableArchive
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableFacts
from bestbefore.ports.tuning import Cost, ScratchRefused

_AT_A_TIME = 5_000
_INDEXES = 2
"""What indexes, a log and the room between rows make of the bytes of a table, roughly."""


class Real(NamedTuple):
    """What is known of the real table: names only. ``archive`` is the schema and name of the table
    that its rows go to, if there is one, and ``referring`` are those whose rows refer to it."""

    schema: str
    table: str
    archive: tuple[str, str] | None
    referring: Sequence[str]


class TableCopy:
    """`bestbefore.ports.tuning.Scratch` of *real*, in *place*, filled with *rows*."""

    def __init__(self, place: Place, real: Real, rows: Recipe, source: RowSource) -> None:
        self.left_out: list[str] = []
        self._place, self._rows, self._real = place, rows, real
        self._table = real.table
        self._archive = real.archive and place.archive(real.archive[1])
        self.source = self._about_the_copy(source)
        self.url = place.url.render_as_string(hide_password=False)
        self.cutoff = rows.cutoff
        self.old_rows = rows.old_rows
        self.writer = Foreground(place, self._table, rows)
        self._names = [*(column.name for column in rows.columns), rows.timestamp]
        self._engine = place.engine()

    @property
    def cost(self) -> Cost:
        once = self._rows.rows * self._rows.bytes_of_a_row() * _INDEXES
        return Cost(2 * once, once)

    def make(self, between: Callable[[], None]) -> None:
        self._place.create()
        self._place.clone(self._real.schema, self._real.table, self._table)
        if self._real.archive and self._archive:
            self._place.clone(*self._real.archive, self._archive)
        self._place.seed(self._table, self._names)
        try:
            self._sow(between)
            self.fill()
        except StoreError as error:
            raise ScratchRefused(
                f"made-up rows do not fit {self._real.table}: {error.failure.error}; what its "
                "columns and simple checks ask for is met, anything else is not known"
            ) from error
        self._see_what_where_does()

    def fill(self) -> None:
        copy = self._place.named(self._place.space, self._table)
        seed = self._place.named(self._place.space, SEED)
        columns = ", ".join(map(self._place.named, self._names))
        with self._told():
            with self._engine.begin() as connection:
                if self._archive:
                    self._place.empty(connection, self._archive)
                self._place.empty(connection, self._table)
                connection.exec_driver_sql(
                    f"INSERT INTO {copy} ({columns}) SELECT {columns} FROM {seed}"  # noqa: S608
                )
            self._place.settle(self._engine, self._table)

    def old_left(self) -> int:
        return self._count(None)

    def drop(self) -> None:
        self._engine.dispose()
        self._place.drop()

    def _sow(self, between: Callable[[], None]) -> None:
        """Make the rows up."""
        seed = statements_for(self._place, SEED, self._rows)
        numbers = iter(range(self._rows.rows))
        with self._told(), self._engine.connect() as connection:
            while some := [seed.bound(self._rows.row(n)) for n in islice(numbers, _AT_A_TIME)]:
                with connection.begin():
                    connection.execute(seed.insert, some)
                between()

    def _count(self, where: str | None) -> int:
        there = sa.table(self._table, sa.column(self._rows.timestamp), schema=self._place.space)
        cutoff = sa.bindparam("cutoff", self._rows.written(self._rows.cutoff), sa.types.NullType())
        rows = sa.select(sa.func.count()).select_from(there)
        rows = rows.where(there.c[self._rows.timestamp] < cutoff)
        if where is not None:
            rows = rows.where(sa.text(f"({where})".replace(":", r"\:")))
        with self._told(), self._engine.begin() as connection:
            return connection.execute(rows).scalar_one()

    def _about_the_copy(self, source: RowSource) -> RowSource:
        """*source*, about the copy and about nothing that is real."""
        archive = TableArchive(self._called(self._archive)) if self._archive else None
        if source.archive is not None and archive is None:
            self.left_out.append("archive: rows are deleted, and not written to files before")
        if self._real.referring:
            others = ", ".join(self._real.referring)
            self.left_out.append(
                f"dependents: rows of {others} refer to the table, none to the copy"
            )
        return replace(
            source,
            table=self._called(self._table),
            key=tuple(map(_quoted, self._rows.key)),
            timestamp=_quoted(self._rows.timestamp),
            timestamp_kind=self._rows.kind,
            archive=archive,
            dependents=(),
            governed=(),
        )

    def _called(self, table: str) -> str:
        """What a policy calls *table* of the place."""
        return ".".join(_quoted(part) for part in (self._place.space, table) if part is not None)

    def _see_what_where_does(self) -> None:
        """Go without the policy's ``where`` unless every old row meets it."""
        where = self.source.where
        if where is None:
            return
        try:
            # Nothing of it may look at other tables, which are real.
            fits = not re.search(r"\bselect\b", where, re.IGNORECASE) and (
                self._count(where) == self.old_rows
            )
        except StoreError:
            fits = False
        if not fits:
            self.source = replace(self.source, where=None)
            self.left_out.append("where: made-up rows do not meet it, so it is not asked")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(failure_of(error, self._real.table)) from error


def _quoted(name: str) -> str:
    """*name* as a policy writes it when it is meant exactly so."""
    return '"' + name.replace('"', '""') + '"'


def copy_of(
    url: str, source: RowSource, facts: TableFacts, cutoff: datetime, now: datetime, rows: int
) -> TableCopy:
    """A copy, not made yet, of the table of *source*. Of that one it reads the definition only.

    Raises ScratchRefused, TableRefused and StoreError.
    """
    place, database = place_for(url), Database(url)
    try:
        with database.reading() as connection:
            target = reflect(connection, source)
            shape = shape_of(connection, target)
            archive = _archive(connection, target.dialect, source)
            inward = references(connection, target.table)
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(failure_of(error, source.table)) from error
    finally:
        database.dispose()
    made_up = recipe(
        shape,
        key=[column.key for column in target.key],
        timestamp=target.times.column.key,
        kind=facts.kind,
        zone=source.timestamp_zone,
        where=source.where,
        cutoff=cutoff,
        now=now,
        rows=rows,
        offset=place.offset,
    )
    others = sorted({str(reference.table) for reference in inward} - {str(target.table)})
    real = Real(str(target.table.schema), target.table.name, archive, others)
    return TableCopy(place, real, made_up, source)


def _archive(
    connection: sa.Connection, dialect: Dialect, source: RowSource
) -> tuple[str, str] | None:
    """The table that rows of *source* go to: its schema and name."""
    if not isinstance(source.archive, TableArchive):
        return None
    there = names.find(connection, dialect, source.archive.table)
    return there.schema, there.name
