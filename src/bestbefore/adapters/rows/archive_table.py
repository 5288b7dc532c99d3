"""Rows that go to another table of the same database, in the transaction that deletes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from bestbefore.adapters.rows import names
from bestbefore.adapters.rows.dialect import Column, Dialect, Relation
from bestbefore.adapters.rows.errors import refusal_of
from bestbefore.adapters.rows.filling import filled
from bestbefore.adapters.rows.keys import Key, chosen
from bestbefore.adapters.rows.parity import OPERATION, copied, created, differences
from bestbefore.adapters.rows.references import Allowance, Reference, table_of
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.rows import FileArchive, RowSource, TableArchive
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableRefused


@dataclass(frozen=True, slots=True)
class ArchiveTable:
    """Where the rows of a table go.

    ``pairs`` are the columns that they take along, as they are called here and there. ``stamp`` is
    the column that tells by which operation a row came, if the archive has it. ``columns`` are all
    that it has, by the names that they have here.
    """

    table: sa.Table
    pairs: tuple[tuple[sa.Column[Any], sa.Column[Any]], ...]
    stamp: sa.Column[Any] | None
    columns: Mapping[str, Column]

    def take(
        self,
        connection: sa.Connection,
        identity: Sequence[sa.Column[Any]],
        keys: Sequence[Key],
        operation_id: bytes,
    ) -> None:
        """Put the rows whose *identity* is one of *keys* here, every one of them.

        Raises StoreError where they are not all here then, and what the database raises for
        reasons that are not about these rows.
        """
        came = 0
        try:
            for condition in chosen(connection, identity, keys):
                came += self.fill(connection, condition, operation_id)
        except sa.exc.DBAPIError as error:
            if (refusal := refusal_of(error, str(self.table))) is None:
                raise
            raise StoreError(refusal) from error
        if came != len(keys):
            raise StoreError(_mismatch(self.table, came, len(keys)))

    def fill(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool], operation_id: bytes
    ) -> int:
        """Insert the rows for which *condition* holds; returns how many came here."""
        values: list[sa.ColumnElement[Any]] = [here for here, _ in self.pairs]
        columns = [there for _, there in self.pairs]
        if self.stamp is not None:
            columns.append(self.stamp)
            values.append(sa.literal(operation_id.hex(), sa.Text))
        return filled(connection, self.table, columns, sa.select(*values).where(condition))


def archive_of(
    connection: sa.Connection,
    dialect: Dialect,
    source: RowSource,
    table: sa.Table,
    columns: Sequence[Column],
    key: Sequence[str],
) -> ArchiveTable | None:
    """The table that the rows of *table* go to, None where they go to none.

    Raises TableRefused, with statements that would help, where it cannot take them.
    """
    if isinstance(source.archive, FileArchive) and source.ledger_only:
        raise TableRefused(
            "rows go to files only where a batch leaves its record beside the data, as nothing "
            'else tells what a file holds after a crash; write completion = "target"'
        )
    if not isinstance(source.archive, TableArchive):
        return None
    name = source.archive.table
    try:
        relation = names.find(connection, dialect, name)
    except StoreError as error:
        wanted = created(connection.dialect, _named(dialect, name), columns, key)
        raise TableRefused(f"there is no table {name} to archive to: {wanted}") from error
    _refuse_place(name, relation, table)
    found = dialect.columns(connection, relation.schema, relation.name)
    archive = table_of(connection, dialect, relation.schema, relation.name, found)
    there = _by_name_here(dialect, columns, found)
    if problems := list(differences(connection.dialect, archive, columns, there)):
        said = "; ".join(f"{problem.said} ({problem.remedy})" for problem in problems)
        raise TableRefused(f"{name} cannot take the rows of {source.table}: {said}")
    stamp = there.get(OPERATION)
    return ArchiveTable(
        archive,
        tuple((table.c[here], archive.c[other]) for here, other in copied(columns, there)),
        None if stamp is None else archive.c[stamp.name],
        there,
    )


def refuse_unarchived(
    source: RowSource,
    table: sa.Table,
    inward: Sequence[Reference],
    allowed: Allowance,
) -> None:
    """Raise TableRefused where rows of other tables would be deleted with those that are archived,
    and the policy does not name these tables."""
    if source.archive is None or source.dependents is not None:
        return
    if lost := sorted(map(str, unarchived(table, inward, allowed))):
        raise TableRefused(
            f"rows of {', '.join(lost)} refer to those of {source.table} and would be deleted with "
            "them without being archived; list those that may be lost as rows.dependents, or write "
            'dependents = "none": then what they refer to stays'
        )


def unarchived(table: sa.Table, inward: Sequence[Reference], allowed: Allowance) -> set[sa.Table]:
    """Tables whose rows are deleted with the rows of *table* that they refer to, by its
    `references`, *inward*. Nothing archives them."""
    return {
        reference.table
        for reference in inward
        if not reference.changes and reference.table is not table and allowed.allows(reference)
    }


def _refuse_place(name: str, relation: Relation, table: sa.Table) -> None:
    if relation.what:
        raise TableRefused(f"{name}, to archive to, is not a base table but {relation.what}")
    if (relation.schema, relation.name) == (table.schema, table.name):
        raise TableRefused(f"{name} is the policy's own table and cannot be its archive")


def _by_name_here(
    dialect: Dialect, here: Sequence[Column], there: Sequence[Column]
) -> Mapping[str, Column]:
    """The columns *there* by what they are called *here*, as far as they are here."""
    called = {column.name.lower() if dialect.folds else column.name: column.name for column in here}

    def name(column: Column) -> str:
        spelt = column.name.lower() if dialect.folds else column.name
        return called.get(spelt, spelt)

    return {name(column): column for column in there}


def _named(dialect: Dialect, name: str) -> sa.Table:
    """A table that is not there, to write its name."""
    *schema, table = (names.candidates(dialect, part)[-1] for part in names.parsed(name))
    return sa.Table(quoted_name(table, None), sa.MetaData(), schema=schema[0] if schema else None)


def _mismatch(archive: sa.Table, came: int, meant: int) -> Failure:
    return Failure(
        FailureClass.MALFORMED,
        f"{archive}: of {meant:,} rows to archive {came:,} came there, so nothing was deleted; "
        "look at its triggers and its row security",
    )
