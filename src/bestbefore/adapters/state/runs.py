"""Runs and their counts, as functions on an open transaction.

Counts are stored and only ever changed in the transaction that changes the operations they
count, so that `planned = waiting + pending + completed + dead` at any moment.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import counters, planned
from bestbefore.adapters.state.database import Database, micros, moment
from bestbefore.adapters.state.schema import (
    events,
    generations,
    operations,
    policies,
    runs,
    tallies,
)
from bestbefore.domain.counts import Count
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState, State, run_may
from bestbefore.ports.ledger import LedgerError, NotInLedger

PROTECTED, UPLOADS, REFERENCED = "protected", "uploads", "referenced"
"""Kinds of tallies that every run is shown with."""

_SELECT = sa.select(runs, policies.c.name, policies.c.version, policies.c.about_rows).join(policies)
_ONE = _SELECT.where(runs.c.id == sa.bindparam("row"))
_TALLIED = sa.select(tallies.c.run_id, tallies.c.kind, tallies.c.name, tallies.c.n).where(
    tallies.c.run_id.in_(sa.bindparam("rows", expanding=True)),
    tallies.c.kind.in_((PROTECTED, UPLOADS, REFERENCED, *planned.KINDS)),
)
_POLICY_OF = sa.select(runs.c.policy_id).where(runs.c.id == sa.bindparam("row"))


def load(
    connection: sa.Connection, *where: sa.ColumnElement[bool], limit: int | None = None
) -> list[Run]:
    """The runs that satisfy *where*, newest slot first, at most *limit* of them."""
    found = connection.execute(
        _SELECT.where(*where).order_by(runs.c.slot.desc(), runs.c.id.desc()).limit(limit)
    ).fetchall()
    return _with_tallies(connection, found)


def one(connection: sa.Connection, row: int) -> Run:
    """The run with the ledger's key *row*."""
    return _with_tallies(connection, connection.execute(_ONE, {"row": row}).fetchall())[0]


def named(connection: sa.Connection, run_id: str) -> Run:
    """The run people call *run_id*; raises NotInLedger where there is none."""
    found = load(connection, runs.c.run_id == run_id)
    if not found:
        raise NotInLedger(f"run {run_id}: there is no such run; `bestbefore runs list` shows them")
    return found[0]


def policy_of(connection: sa.Connection, row: int) -> int:
    """The policy version (its row) of a run."""
    policy: int = connection.execute(_POLICY_OF, {"row": row}).scalar_one()
    return policy


def bump(connection: sa.Connection, row: int, **by: int) -> None:
    """Add to stored counts of a run."""
    changes = {name: runs.c[name] + n for name, n in by.items() if n}
    if changes:
        connection.execute(sa.update(runs).where(runs.c.id == row).values(changes))


def total(numbers: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """The sum of *numbers*, as a number that JSON knows: PostgreSQL's own is a decimal."""
    return sa.cast(sa.func.sum(numbers), sa.BigInteger)


def tally(
    database: Database,
    connection: sa.Connection,
    row: int,
    kind: str,
    counts: Mapping[str, tuple[int, int]],
) -> None:
    """Add (number, bytes) by name to one kind of a run's tallies."""
    changes = [
        {"run_id": row, "kind": kind, "name": name, "n": n, "bytes": size}
        for name, (n, size) in sorted(counts.items())
        if n
    ]
    if not changes:
        return
    insert = database.insert(tallies)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["run_id", "kind", "name"],
            set_={
                "n": tallies.c.n + insert.excluded.n,
                "bytes": tallies.c.bytes + insert.excluded.bytes,
            },
        ),
        changes,
    )


def generations_seen(connection: sa.Connection, row: int) -> frozenset[str]:
    """Every generation that the run's scan has seen."""
    return frozenset(
        connection.scalars(sa.select(generations.c.name).where(generations.c.run_id == row))
    )


def step(connection: sa.Connection, run: Run, after: RunState, **values: Any) -> None:
    """Move *run* to another state; raises LedgerError where the design has no such step."""
    if not run_may(run.state, after):
        raise LedgerError(f"run {run.run_id} is {run.state}; it cannot become {after}")
    connection.execute(sa.update(runs).where(runs.c.id == run.row).values(state=after, **values))


def drain_if_done(connection: sa.Connection, row: int, now: datetime) -> None:
    """Drain an open run whose scan has ended and that has nothing left to do."""
    connection.execute(
        sa.update(runs)
        .where(
            runs.c.id == row,
            runs.c.state == RunState.OPEN,
            runs.c.complete.is_(True),
            runs.c.waiting == 0,
            runs.c.pending == runs.c.held,
        )
        .values(state=RunState.DRAINED, drained_at=micros(now))
    )


def reopen(connection: sa.Connection, row: int) -> None:
    """Open a drained run again, as something in it was redriven or is held no more."""
    connection.execute(
        sa.update(runs)
        .where(runs.c.id == row, runs.c.state == RunState.DRAINED)
        .values(state=RunState.OPEN)
    )


def cancel(
    database: Database,
    connection: sa.Connection,
    run: Run,
    reason: str,
    by: str,
    now: datetime,
) -> None:
    """Cancel *run* and every operation of it that nobody has in hand."""
    step(connection, run, RunState.CANCELLED, reason=reason, planner_token=None)
    in_policy = sa.select(runs.c.policy_id).where(runs.c.id == run.row).scalar_subquery()
    idle = {
        State.WAITING: operations.c.state == sa.literal_column("'waiting'"),
        # By policy, as that is how the pending ones are indexed.
        State.PENDING: sa.and_(
            operations.c.state == sa.literal_column("'pending'"),
            operations.c.policy_id == in_policy,
            sa.or_(operations.c.token.is_(None), operations.c.due_at <= micros(now)),
        ),
    }
    held = connection.execute(
        sa.select(sa.func.count()).select_from(operations).where(
            operations.c.run_id == run.row, idle[State.PENDING], operations.c.held.is_(True)
        )
    ).scalar_one() if run.held else 0  # fmt: skip
    ended = {
        state: connection.execute(
            sa.update(operations)
            .where(operations.c.run_id == run.row, which)
            .values(
                state=State.COMPLETED,
                outcome=Outcome.CANCELLED,
                completed_at=micros(now),
                completed_by=by,
                token=None,
                due_at=None,
                sent_at=None,
                held=sa.false(),
            )
        ).rowcount
        for state, which in idle.items()
    }
    connection.execute(
        sa.update(operations)
        .where(
            operations.c.run_id == run.row,
            operations.c.policy_id == in_policy,
            operations.c.state == sa.literal_column("'pending'"),
        )
        .values(cancelled=True)
    )
    total = sum(ended.values())
    bump(
        connection,
        run.row,
        waiting=-ended[State.WAITING],
        pending=-ended[State.PENDING],
        completed=total,
        held=-held,
    )
    tally(database, connection, run.row, "outcome", {Outcome.CANCELLED: (total, 0)})
    counters.add(
        database,
        connection,
        policy_of(connection, run.row),
        {(Count.COMPLETED, Outcome.CANCELLED): (total, 0)},
    )
    note(connection, "cancel", reason, by, now, policy=run.policy, run_id=run.run_id)


def note(
    connection: sa.Connection,
    action: str,
    detail: str,
    by: str,
    now: datetime,
    *,
    policy: str | None = None,
    run_id: str | None = None,
    operation_id: bytes | None = None,
) -> None:
    """Write down what a person, or a run in a person's place, decided."""
    connection.execute(
        sa.insert(events).values(
            at=micros(now),
            by=by,
            action=action,
            policy=policy,
            run_id=run_id,
            operation_id=operation_id,
            detail=detail,
        )
    )


def _with_tallies(connection: sa.Connection, found: Sequence[Any]) -> list[Run]:
    """Rows of `_SELECT` as runs, with what is counted of them by name."""
    tallied: dict[int, dict[str, dict[str, int]]] = {}
    for row in connection.execute(_TALLIED, {"rows": [row.id for row in found]}):
        tallied.setdefault(row.run_id, {}).setdefault(row.kind, {})[row.name] = row.n
    return [_run(row, tallied.get(row.id, {})) for row in found]


def _run(row: Any, tallied: Mapping[str, Mapping[str, int]]) -> Run:
    return Run(
        row=row.id,
        run_id=row.run_id,
        policy=row.name,
        policy_version=row.version,
        slot=moment(row.slot),
        first_slot=moment(row.first_slot),
        cutoff=moment(row.cutoff),
        state=RunState(row.state),
        trigger=Trigger(row.trigger),
        early=row.early,
        complete=row.complete,
        target=row.target,
        reason=row.reason,
        created_at=moment(row.created_at),
        created_by=row.created_by,
        scanned=row.scanned,
        in_scope=row.in_scope,
        protected=tallied.get(PROTECTED, {}),
        already_pending=row.already_pending,
        already_completed=row.already_completed,
        already_dead=row.already_dead,
        reappeared=row.reappeared,
        refused=row.refused,
        planned=row.planned,
        waiting=row.waiting,
        pending=row.pending,
        completed=row.completed,
        dead=row.dead,
        pruned=row.pruned,
        uploads=tallied.get(UPLOADS, {}),
        held=row.held,
        about_rows=row.about_rows,
        rows=row.rows,
        dependents=planned.summed(tallied, row.own_table),
        referenced=tallied.get(REFERENCED, {}),
        table=row.own_table,
        most_dependents=row.most_dependents,
    )
