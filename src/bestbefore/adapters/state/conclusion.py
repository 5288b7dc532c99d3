"""The end of a scan: what only the whole listing can decide, in one transaction."""

import json
from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state import batch_changes, counters, followers, staying
from bestbefore.adapters.state import incidents as incident_rows
from bestbefore.adapters.state import policies as policy_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import CHUNK, Database, chunks, micros, moment
from bestbefore.adapters.state.schema import generations, newest, operations, runs
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.known import MOST_REAPPEARANCES
from bestbefore.domain.outcome import REMOVED, REPLANNED
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.prefixes import PrefixCounts
from bestbefore.domain.run import Run
from bestbefore.domain.selection import GENERATION, KEEP_LAST, Generation, Verdict
from bestbefore.domain.selection import newest as newest_generations
from bestbefore.domain.states import RunState, State
from bestbefore.domain.versions import Versions
from bestbefore.ports.ledger import Claim, PlanTakenOver


def conclude(
    database: Database,
    connection: sa.Connection,
    claim: Claim,
    keep_generations: int,
    decide: Callable[[Run], str | None],
    now: datetime,
    pointer: Pointer | None,
) -> Run:
    """See `bestbefore.ports.ledger.PlanLedger.conclude`."""
    held = connection.execute(
        sa.update(runs)
        .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
        .values(complete=True, planner_token=None, cursors="[]")
    )
    if held.rowcount != 1:
        raise PlanTakenOver("another planner holds this run; nothing was written")
    uploads = _uploads(connection, claim.run)
    _keep_generations(database, connection, claim.run, keep_generations)
    _keep_pointed_at(database, connection, claim.run, pointer)
    _keep_last(database, connection, claim.run)
    spared = uploads - _uploads(connection, claim.run)
    run_rows.tally(database, connection, claim.run, run_rows.UPLOADS, {"eligible": (-spared, 0)})
    _admit_candidates(database, connection, claim.run, now)
    _loose_followers(connection, claim.run, now)
    run = run_rows.one(connection, claim.run)
    reason = decide(run)
    if reason is not None:
        run_rows.step(connection, run, RunState.PARKED, reason=reason)
    elif run.state is not RunState.OPEN:
        run_rows.step(connection, run, RunState.OPEN, released_at=micros(now))
    run_rows.drain_if_done(connection, claim.run, now)
    counters.add(database, connection, run_rows.policy_of(connection, claim.run), _found(run, now))
    return run_rows.one(connection, claim.run)


def _found(run: Run, now: datetime) -> counters.Counts:
    """What the end of the scan of *run* adds to the counts of its policy."""
    found: counters.Counts = {(Count.PLANNED, ""): (run.planned, 0)}
    if run.about_rows:
        found[Count.ELIGIBLE, "row"] = (run.rows, 0)
    else:
        found[Count.ELIGIBLE, "object"] = (run.eligible, 0)
    counters.put_seconds(found, Count.PLAN_SECONDS, (now - run.created_at).total_seconds())
    return found


def _uploads(connection: sa.Connection, run: int) -> int:
    """How many unfinished uploads *run* would plan; 0 at once where its scan saw none."""
    if not run_rows.one(connection, run).uploads:
        return 0
    found: int = connection.execute(
        sa.select(sa.func.count()).where(
            sa.or_(
                sa.and_(operations.c.run_id == run, operations.c.state == State.WAITING),
                operations.c.candidate_of == run,
            ),
            operations.c.upload_id.is_not(None),
        )
    ).scalar_one()
    return found


def _keep_generations(database: Database, connection: sa.Connection, run: int, keep: int) -> None:
    if not keep:
        return
    seen = connection.execute(
        sa.select(generations.c.name, generations.c.youngest).where(generations.c.run_id == run)
    )
    kept = sorted(newest_generations((Generation(name, moment(at)) for name, at in seen), keep))
    connection.execute(
        sa.update(generations)
        .where(generations.c.run_id == run, generations.c.name.in_(kept))
        .values(kept=True)
    )
    _spare(database, connection, run, operations.c.generation.in_(kept), GENERATION)


def _keep_pointed_at(
    database: Database, connection: sa.Connection, run: int, pointer: Pointer | None
) -> None:
    if pointer is None:
        return
    named = sorted(pointer.names(run_rows.generations_seen(connection, run)))
    if not named:
        _spare(database, connection, run, sa.true(), Verdict.POINTER)
    for some in chunks(named):
        connection.execute(
            sa.update(generations)
            .where(generations.c.run_id == run, generations.c.name.in_(some))
            .values(kept=True)
        )
        _spare(database, connection, run, operations.c.generation.in_(some), Verdict.POINTER)


def _keep_last(database: Database, connection: sa.Connection, run: int) -> None:
    groups = connection.execute(sa.select(newest.c.kept).where(newest.c.run_id == run)).yield_per(
        CHUNK
    )
    for chunk in groups.partitions():
        kept = [
            bytes.fromhex(operation_id)
            for (group,) in chunk
            for _, _, operation_id in json.loads(group)
            if operation_id is not None
        ]
        for some_kept in chunks(kept):
            # By row, as SQLite would go through all of the run's operations to find ids in it.
            some = connection.scalars(
                sa.select(operations.c.id).where(operations.c.operation_id.in_(some_kept))
            ).all()
            _spare(database, connection, run, operations.c.id.in_(some), KEEP_LAST)


def _spare(
    database: Database,
    connection: sa.Connection,
    run: int,
    which: sa.ColumnElement[bool],
    reason: str,
) -> None:
    """Take what turned out protected out of the plan again: it was never planned.

    An operation that has a history keeps it; one that this scan wrote is removed.
    """
    new = sa.and_(operations.c.run_id == run, operations.c.state == State.WAITING, which)
    again = sa.and_(operations.c.candidate_of == run, which)
    _note_where(database, connection, run, sa.or_(new, again), reason)
    written = connection.execute(sa.delete(operations).where(new)).rowcount
    marked = connection.execute(
        sa.update(operations).where(again).values(candidate_of=None)
    ).rowcount
    run_rows.bump(connection, run, planned=-written, waiting=-written)
    run_rows.tally(database, connection, run, "protected", {reason: (written + marked, 0)})


def _note_where(
    database: Database,
    connection: sa.Connection,
    run: int,
    which: sa.ColumnElement[bool],
    reason: str,
) -> None:
    """Count the keys of *which* among what stays for *reason*, by prefix."""
    base = policy_rows.prefix(connection, run_rows.policy_of(connection, run))
    counts = PrefixCounts(base)
    found = connection.execute(sa.select(operations.c.key, operations.c.size).where(which))
    for key, size in found.yield_per(CHUNK):
        counts.add(key, size)
    if counts.n:
        staying.add(database, connection, run, {reason: counts})


def _admit_candidates(
    database: Database, connection: sa.Connection, run: int, now: datetime
) -> None:
    """Plan again what ended without an effect or came back; they leave the runs they were in."""
    mine = operations.c.candidate_of == run
    had_no_effect = operations.c.outcome.in_(sorted(REPLANNED))
    again = sa.and_(had_no_effect, operations.c.reappearances == 0)
    worn_out = sa.and_(~had_no_effect, operations.c.reappearances >= MOST_REAPPEARANCES)
    moved = connection.execute(
        sa.select(operations.c.run_id, operations.c.outcome, sa.func.count(),
                  sa.func.sum(operations.c.size),
                  sa.func.sum(sa.case((operations.c.reappearances > 0, 1), else_=0)))
        .where(mine)
        .group_by(operations.c.run_id, operations.c.outcome)
    ).fetchall()  # fmt: skip
    if not moved:
        return
    policy = run_rows.policy_of(connection, run)
    about_rows = policy_rows.about_rows(connection, policy)
    frees = not about_rows and policy_rows.frees(connection, policy)
    for before, outcome, n, size, reappeared_there in moved:
        run_rows.bump(
            connection, before, planned=-n, completed=-n, reappeared=-int(reappeared_there)
        )
        freed = int(size) if outcome in REMOVED and frees else 0
        run_rows.tally(database, connection, before, "outcome", {outcome: (-n, -freed)})
    if about_rows:
        batch_changes.take_along(database, connection, run)
    planned_again = _move(connection, run, sa.and_(mine, again), state=State.WAITING)
    buried = connection.scalars(sa.select(operations.c.id).where(mine, worn_out)).all()
    dead = _move(
        connection,
        run,
        sa.and_(mine, worn_out),
        state=State.DEAD,
        failure_class=FailureClass.UNKNOWN,
        error=f"the store keeps listing it: it ended {MOST_REAPPEARANCES} times and is still there",
        first_failed_at=sa.func.coalesce(operations.c.first_failed_at, micros(now)),
        last_failed_at=micros(now),
    )
    incident_rows.buried(database, connection, buried, now)
    reappeared = _move(
        connection,
        run,
        mine,
        state=State.WAITING,
        reappearances=operations.c.reappearances + sa.case((had_no_effect, 0), else_=1),
        last_failed_at=micros(now),  # so that a worker looks before it deletes
    )
    run_rows.bump(
        connection,
        run,
        planned=planned_again + reappeared + dead,
        waiting=planned_again + reappeared,
        dead=dead,
        reappeared=reappeared + dead,
    )
    unknown = FailureClass.UNKNOWN
    for_good: counters.Counts = {(Count.DIED, unknown): (dead, 0), (Count.DEAD, unknown): (dead, 0)}
    counters.add(database, connection, policy, for_good)


def _loose_followers(connection: sa.Connection, run: int, now: datetime) -> None:
    """What was only waiting for the decision about others may go, now that it is made."""
    policy = run_rows.policy_of(connection, run)
    if policy_rows.versions_of(connection, policy) == Versions.PURGE:
        followers.release_all(connection, policy, micros(now))


def _move(
    connection: sa.Connection, run: int, which: sa.ColumnElement[bool], **values: object
) -> int:
    return connection.execute(
        sa.update(operations)
        .where(which)
        .values(
            {
                "run_id": run,
                "candidate_of": None,
                "outcome": None,
                "completed_at": None,
                "completed_by": None,
                "due_at": None,
                "token": None,
                "deliveries": 0,
                "cancelled": False,
                "held": False,
                "budget": None,
                "reason": None,
            }
            | values
        )
    ).rowcount
