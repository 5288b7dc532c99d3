"""What a ledger knows of operations, as functions on an open transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, maybe_moment, micros
from bestbefore.adapters.state.schema import operations, policies, runs
from bestbefore.domain.known import Known
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState, State

_ELSEWHERE = "elsewhere"

_KNOWN = sa.select(
    operations.c.operation_id,
    operations.c.state,
    operations.c.outcome,
    operations.c.completed_at,
    operations.c.reappearances,
    operations.c.run_id,
    operations.c.held,
).where(operations.c.operation_id.in_(sa.bindparam("ids", expanding=True)))


def known(
    connection: sa.Connection, operation_ids: Sequence[bytes], taking_over: datetime | None
) -> Mapping[bytes, Known]:
    """See `bestbefore.ports.ledger.PlanLedger.known`."""
    found: dict[bytes, Known] = {}
    taken = set() if taking_over is None else parked_before(connection, taking_over)
    for chunk in chunks(operation_ids):
        for id_, state, outcome, completed_at, reappearances, run, held in connection.execute(
            _KNOWN, {"ids": chunk}
        ):
            if state == State.WAITING and run in taken:
                state, outcome, completed_at = State.COMPLETED, Outcome.CANCELLED, 0
            found[id_] = Known(
                State(state),
                Outcome(outcome) if outcome else None,
                maybe_moment(completed_at),
                reappearances,
                held,
            )
    return found


def remember(
    database: Database, connection: sa.Connection, known: Mapping[bytes, Known], now: datetime
) -> None:
    """See `bestbefore.ports.ledger.PlanLedger.remember`. They become those of a run elsewhere."""
    policy = connection.execute(sa.select(sa.func.min(policies.c.id))).scalar_one()
    run = connection.execute(
        sa.select(runs.c.id).where(runs.c.run_id == _ELSEWHERE)
    ).scalar_one_or_none()
    if run is None:
        run = connection.execute(
            sa.insert(runs)
            .values(
                run_id=_ELSEWHERE,
                policy_id=policy,
                slot=0,
                first_slot=0,
                cutoff=0,
                state=RunState.DRAINED,
                trigger=Trigger.PLAN,
                approved=False,
                early=False,
                complete=True,
                target=_ELSEWHERE,
                created_at=micros(now),
            )
            .returning(runs.c.id)
        ).scalar_one()
    insert = database.insert(operations).on_conflict_do_nothing(index_elements=["operation_id"])
    ended = [
        {
            "operation_id": operation_id,
            "run_id": run,
            "policy_id": policy,
            "state": State.COMPLETED,
            "key": "",
            "etag": "",
            "last_modified": 0,
            "size": 0,
            "seen_at": 0,
            "deliveries": 0,
            "outcome": one.outcome,
            "completed_at": micros(one.completed_at) if one.completed_at else None,
            "reappearances": one.reappearances,
        }
        for operation_id, one in known.items()
        if one.state is State.COMPLETED
    ]
    if ended:
        connection.execute(insert, ended)
        run_rows.bump(connection, run, planned=len(ended), completed=len(ended))


def parked_before(connection: sa.Connection, slot: datetime) -> set[int]:
    """The parked runs that a run of *slot* would take over, whatever their policy."""
    return set(
        connection.scalars(
            sa.select(runs.c.id).where(runs.c.state == RunState.PARKED, runs.c.slot < micros(slot))
        )
    )
