"""Names of tables and columns as people write them, and what the database calls them."""

from collections.abc import Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Dialect, Relation
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.names import Part, parts
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableRefused


def parsed(name: str) -> tuple[Part, ...]:
    """The parts of ``schema.table`` or ``table``. Raises TableRefused for anything else."""
    return _parts(name, "table or schema.table", 2)


def _parts(name: str, expected: str, most: int) -> tuple[Part, ...]:
    try:
        found = parts(name)
    except ValueError as error:
        raise TableRefused(f"{name}: expected {expected}, found {error}") from error
    if len(found) > most:
        raise TableRefused(
            f"{name}: expected {expected}; a part that holds dots goes in double quotes"
        )
    return found


def candidates(dialect: Dialect, part: Part) -> Sequence[str]:
    """What *part* may be called, the likeliest first."""
    folded = dialect.fold(part.text)
    return [part.text] if part.quoted or folded == part.text else [part.text, folded]


def find(connection: sa.Connection, dialect: Dialect, name: str) -> Relation:
    """What *name* is the name of: exactly, or else as the database folds it.

    Raises StoreError where there is nothing, TableRefused where it may be one thing or another.
    """
    *schema, table = parsed(name)
    schemas = candidates(dialect, schema[0]) if schema else None
    names = candidates(dialect, table)
    found = dialect.relations(connection, schemas, names)
    if not found:
        raise StoreError(
            Failure(
                FailureClass.MALFORMED,
                f"{dialect.place(connection)}: there is no table {name}; correct rows.table, or "
                "the database's URL",
                whole_source=True,
            )
        )

    def strangeness(relation: Relation) -> int:
        exact = (relation.name == names[0], schemas is None or relation.schema == schemas[0])
        return exact.count(False)

    best = min(map(strangeness, found))
    chosen = [relation for relation in found if strangeness(relation) == best]
    if len(chosen) > 1:
        several = " and ".join(f'"{r.schema}"."{r.name}"' for r in chosen)
        raise TableRefused(f"{name} may be {several}; write the one that is meant, in quotes")
    return chosen[0]


def column(dialect: Dialect, columns: Sequence[Column], name: str, table: str) -> Column:
    """The column called *name*, in double quotes or without. Raises TableRefused."""
    (part,) = _parts(name, "the name of a column", 1)
    by_name = {column.name: column for column in columns}
    if part.text in by_name:
        return by_name[part.text]
    if dialect.folds:
        by_name = {column.name.lower(): column for column in columns}
        called = part.text.lower()
    else:
        called = candidates(dialect, part)[-1]
    if called in by_name:
        return by_name[called]
    raise TableRefused(f"{table} has no column {name}; its columns are: {listed(columns)}")


def listed(columns: Sequence[Column]) -> str:
    """The names of *columns*, for people."""
    return ", ".join(column.name for column in columns)
