"""Move a ledger from SQLite to PostgreSQL, all of it or nothing.

A kill at any instruction leaves one ledger that works and one that refuses:

1. The copy is one transaction. Before its end the target is empty.
2. It ends as *incoming*, which nobody may open. If that is all that was done, the next try throws
   it away and copies again.
3. The source is marked as moved, which nobody may open any more. If that is all that was done, the
   next try only does the last step.
4. The target is opened.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state.database import (
    INCOMING,
    MOVED,
    NEWEST,
    Database,
    found_version,
    micros,
    why_not,
)
from bestbefore.adapters.state.schema import metadata, operations, pauses, runs
from bestbefore.ports.ledger import LedgerError

_CHUNK = 1_000


def move(source: Database, target: Database, by: str, now: datetime) -> Mapping[str, int]:
    """Move everything in *source* to *target*; returns the number of rows by table.

    Raises LedgerError where *target* holds anything, or where somebody works on *source*.
    """
    with source.read() as here:
        moved = found_version(here) == f"{MOVED}{target.name}"
    if not moved:
        source.prepare()
        _prepare(target)
        with source.write() as here:
            _refuse_what_goes_on(source, here, now)
            with target.write() as there:
                _empty(target, there, _incoming(here))
                for table in metadata.sorted_tables:
                    _copy(here, there, table)
                _set_version(there, _incoming(here))
            # Who has the source open goes on with it, but obeys a pause; who opens it is refused.
            _pause(source, here, f"its contents {MOVED}{target.name}", by, now)
            _set_version(here, f"{MOVED}{target.name}")
    with target.write() as there:
        if not (found_version(there) or "").startswith((INCOMING, NEWEST)):
            raise LedgerError(
                f"state database {source.name} {MOVED}{target.name}, which holds no ledger now; "
                "restore a backup of either"
            )
        _set_version(there, NEWEST)
        return {table.name: _count(there, table) for table in metadata.sorted_tables}


def _prepare(target: Database) -> None:
    """Give *target* its tables, unless an earlier try left it incoming."""
    with target.read() as there:
        incoming = (found_version(there) or "").startswith(INCOMING)
    if not incoming:
        target.prepare()


def _refuse_what_goes_on(source: Database, here: sa.Connection, now: datetime) -> None:
    leased = here.execute(
        sa.select(sa.func.count()).where(
            operations.c.state == "pending",
            operations.c.token.is_not(None),
            operations.c.due_at > micros(now),
        )
    ).scalar_one()
    planned = here.execute(
        sa.select(sa.func.count()).where(
            runs.c.planner_token.is_not(None), runs.c.planner_until > micros(now)
        )
    ).scalar_one()
    if leased or planned:
        raise LedgerError(
            f"state database {source.name}: {leased:,} commands are in the hands of workers and "
            f"{planned:,} runs are being planned; stop every process that uses it (SIGTERM), wait "
            "for the leases of those that were killed, and repeat"
        )


def _empty(target: Database, there: sa.Connection, incoming: str) -> None:
    """Refuse a target that holds something, but for what an earlier try of this move left."""
    found = found_version(there)
    if found == incoming:
        for table in reversed(metadata.sorted_tables):
            there.execute(sa.delete(table))
    elif found != NEWEST:
        raise LedgerError(f"state database {target.name}: {why_not(str(found))}")
    filled = [table.name for table in metadata.sorted_tables if _count(there, table)]
    if filled:
        raise LedgerError(
            f"state database {target.name}: expected an empty one, found rows in "
            f"{', '.join(filled)}; name another database or schema"
        )


def _copy(here: sa.Connection, there: sa.Connection, table: sa.Table) -> None:
    rows = here.execute(sa.select(table)).yield_per(_CHUNK).mappings()
    for chunk in rows.partitions():
        there.execute(sa.insert(table), [dict(row) for row in chunk])
    expected, found = _count(here, table), _count(there, table)
    if expected != found:
        raise LedgerError(f"{table.name}: {expected:,} rows became {found:,}; nothing was moved")
    if (column := table.autoincrement_column) is not None and found:
        # Rows with a key of their own leave the sequence where it was, at the first one.
        name = there.dialect.identifier_preparer.format_table(table)
        sequence = sa.func.pg_get_serial_sequence(name, column.name)
        there.execute(
            sa.select(sa.func.setval(sequence, sa.select(sa.func.max(column)).scalar_subquery()))
        )


def _pause(database: Database, here: sa.Connection, reason: str, by: str, now: datetime) -> None:
    values = {"reason": reason, "until": None, "by": by, "at": micros(now)}
    here.execute(
        database.insert(pauses)
        .values(policy="", **values)
        .on_conflict_do_update(index_elements=["policy"], set_=values)
    )


def _incoming(here: sa.Connection) -> str:
    """The version of a target while *here* is being moved into it; no other ledger has it."""
    born = here.execute(
        sa.select(runs.c.run_id, runs.c.created_at).order_by(runs.c.id).limit(1)
    ).one_or_none()
    return f"{INCOMING} {hashlib.sha256(repr(born).encode()).hexdigest()[:16]}"


def _set_version(connection: sa.Connection, version: str) -> None:
    connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": version})


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
