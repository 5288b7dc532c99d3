"""What planning writes: policies, slots and the pages of a scan."""

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import conclusion
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, execute_many, maybe_moment, micros
from bestbefore.adapters.state.schema import (
    generations,
    newest,
    operations,
    policies,
    runs,
)
from bestbefore.domain.known import Disposition, Known
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy, what_changed
from bestbefore.domain.run import Circumstances, Run, Trigger, run_id
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import (
    Answer,
    Claim,
    LedgerError,
    PlannedPage,
    PlanTakenOver,
    PolicyEdited,
)
from bestbefore.ports.objects import KeyRange

_CHUNK = 500
_LIVE = (RunState.PLANNING, RunState.OPEN)


class SqlPlanLedger:
    """`bestbefore.ports.ledger.PlanLedger` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def check_policies(self, policies_now: Collection[Policy]) -> None:
        with self._db.read() as connection:
            for policy in policies_now:
                _refuse_edited(policy, _policy_row(connection, policy))

    def open_run_slot(self, policy: Policy) -> datetime | None:
        with self._db.read() as connection:
            live = run_rows.load(
                connection,
                policies.c.name == policy.name,
                policies.c.version == policy.version,
                runs.c.state.in_(_LIVE),
            )
        return live[0].slot if live else None

    def answer(
        self,
        policy: Policy,
        slot: datetime,
        target: str,
        trigger: Trigger,
        *,
        approved: bool,
        by: str,
        now: datetime,
        lease: timedelta,
    ) -> Answer:
        with self._db.write() as connection:
            policy_row = _make_current(connection, policy, now)
            found = connection.execute(
                sa.select(runs.c.id).where(
                    runs.c.policy_id == policy_row, runs.c.slot == micros(slot)
                )
            ).scalar_one_or_none()
            if found is not None:
                approved_now = approved and _approve_again(
                    connection, run_rows.one(connection, found), by, now
                )
                return self._claim(connection, found, now, lease, approved_now=approved_now)
            taken_over = self._take_over(connection, policy, slot, by, now)
            inherited = taken_over[0].reason if taken_over else None
            seen = _circumstances(connection, policy_row, policy.name, target, trigger, approved,
                                  inherited)  # fmt: skip
            early = not policy.source.keeps_some and not seen.may_park(policy.reach)
            created = connection.execute(
                sa.insert(runs)
                .values(
                    run_id=run_id(policy.name, policy.version, slot),
                    policy_id=policy_row,
                    slot=micros(slot),
                    first_slot=micros(min([slot, *(run.first_slot for run in taken_over)])),
                    cutoff=micros(policy.older_than.before(slot)),
                    state=RunState.PLANNING,
                    trigger=trigger,
                    approved=approved,
                    inherited=inherited,
                    early=early,
                    complete=False,
                    target=target,
                    created_at=micros(now),
                )
                .returning(runs.c.id)
            ).scalar_one()
            return self._claim(connection, created, now, lease)

    def circumstances(
        self, policy: Policy, target: str, trigger: Trigger, *, approved: bool
    ) -> Circumstances:
        with self._db.read() as connection:
            stored = _policy_row(connection, policy)
            parked = self._parked(connection, policy.name)
            return _circumstances(
                connection,
                stored.id if stored else None,
                policy.name,
                target,
                trigger,
                approved,
                parked[0].reason if parked else None,
            )

    def resume(self, run: int, now: datetime, lease: timedelta) -> Answer | None:
        with self._db.write() as connection:
            answer = self._claim(connection, run, now, lease)
        return answer if answer.claim else None

    def unfinished(self, now: datetime) -> Sequence[Run]:
        with self._db.read() as connection:
            return run_rows.load(
                connection,
                runs.c.state.in_(_LIVE),
                runs.c.complete.is_(False),
                sa.or_(runs.c.planner_token.is_(None), runs.c.planner_until <= micros(now)),
            )

    def known(
        self, operation_ids: Sequence[bytes], taking_over: datetime | None = None
    ) -> Mapping[bytes, Known]:
        found: dict[bytes, Known] = {}
        with self._db.read() as connection:
            taken = set() if taking_over is None else _parked_before(connection, taking_over)
            for start in range(0, len(operation_ids), _CHUNK):
                chunk = {"ids": operation_ids[start : start + _CHUNK]}
                for id_, state, outcome, completed_at, reappearances, run in connection.execute(
                    _KNOWN, chunk
                ):
                    if state == State.WAITING and run in taken:
                        state, outcome, completed_at = State.COMPLETED, Outcome.CANCELLED, 0
                    found[id_] = Known(
                        State(state),
                        Outcome(outcome) if outcome else None,
                        maybe_moment(completed_at),
                        reappearances,
                    )
        return found

    def remember(self, known: Mapping[bytes, Known], now: datetime) -> None:
        with self._db.write() as connection:
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
            insert = self._db.insert(operations).on_conflict_do_nothing(
                index_elements=["operation_id"]
            )
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

    def write_page(
        self, claim: Claim, page: PlannedPage, keep_last: int, now: datetime, lease: timedelta
    ) -> Run:
        counts = dict.fromkeys(Disposition, 0)
        for entry in page.entries:
            counts[entry.disposition] += 1
        with self._db.write() as connection:
            held = connection.execute(
                sa.update(runs)
                .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
                .values(
                    planner_until=micros(now + lease),
                    cursors=json.dumps(page.cursors),
                    scanned=runs.c.scanned + page.scanned,
                    in_scope=runs.c.in_scope + page.in_scope,
                    refused=runs.c.refused + page.refused,
                )
            )
            if held.rowcount != 1:
                raise PlanTakenOver("another planner holds this run; nothing was written")
            run = run_rows.one(connection, claim.run)
            if run.early and run.state is RunState.PLANNING:
                run_rows.step(connection, run, RunState.OPEN, released_at=micros(now))
            added = self._add(connection, claim.run, page)
            _mark_candidates(connection, claim.run, page)
            run_rows.bump(
                connection,
                claim.run,
                planned=added,
                waiting=added,
                # An operation that another run added since `known` was asked is pending there.
                already_pending=counts[Disposition.ALREADY_PENDING]
                + counts[Disposition.NEW]
                - added,
                already_completed=counts[Disposition.ALREADY_COMPLETED],
                already_dead=counts[Disposition.ALREADY_DEAD],
            )
            protected = {name: (n, 0) for name, n in page.protected.items()}
            run_rows.tally(self._db, connection, claim.run, "protected", protected)
            self._merge_generations(connection, claim.run, page)
            self._merge_newest(connection, claim.run, page, keep_last)
            return run_rows.one(connection, claim.run)

    def conclude(
        self,
        claim: Claim,
        keep_generations: int,
        decide: Callable[[Run], str | None],
        now: datetime,
    ) -> Run:
        with self._db.write() as connection:
            return conclusion.conclude(self._db, connection, claim, keep_generations, decide, now)

    def abandon(self, claim: Claim, now: datetime) -> Run:
        with self._db.write() as connection:
            connection.execute(
                sa.update(runs)
                .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
                .values(planner_token=None, planner_until=micros(now))
            )
            return run_rows.one(connection, claim.run)

    def approve(self, run_id: str, by: str, now: datetime) -> Run:
        with self._db.write() as connection:
            run = run_rows.named(connection, run_id)
            if run.state is not RunState.PARKED:
                raise LedgerError(f"run {run_id} is {run.state}; only a parked run can be approved")
            _approve(connection, run, by, now)
            return run_rows.one(connection, run.row)

    def cancel(self, run_id: str, reason: str, by: str, now: datetime) -> Run:
        with self._db.write() as connection:
            run = run_rows.named(connection, run_id)
            run_rows.cancel(self._db, connection, run, reason, by, now)
            return run_rows.one(connection, run.row)

    def _parked(self, connection: sa.Connection, policy: str) -> list[Run]:
        return run_rows.load(connection, policies.c.name == policy, runs.c.state == RunState.PARKED)

    def _take_over(
        self, connection: sa.Connection, policy: Policy, slot: datetime, by: str, now: datetime
    ) -> list[Run]:
        """Cancel parked runs of older slots, newest first, and return them.

        Of other versions whatever is parked or still being planned ends too: nobody would ever
        finish or approve it.
        """
        parked = [
            run
            for run in self._parked(connection, policy.name)
            if run.slot < slot or run.policy_version != policy.version
        ]
        unfinished = run_rows.load(
            connection,
            policies.c.name == policy.name,
            policies.c.version != policy.version,
            runs.c.state.in_(_LIVE),
            runs.c.complete.is_(False),
        )
        successor = run_id(policy.name, policy.version, slot)
        for run in [*parked, *unfinished]:
            run_rows.cancel(self._db, connection, run, f"taken over by {successor}", by, now)
        return parked

    def _claim(
        self,
        connection: sa.Connection,
        row: int,
        now: datetime,
        lease: timedelta,
        *,
        approved_now: bool = False,
    ) -> Answer:
        token = secrets.randbits(62)
        taken = connection.execute(
            sa.update(runs)
            .where(
                runs.c.id == row,
                runs.c.state.in_(_LIVE),
                runs.c.complete.is_(False),
                sa.or_(runs.c.planner_token.is_(None), runs.c.planner_until <= micros(now)),
            )
            .values(planner_token=token, planner_until=micros(now + lease))
        ).rowcount
        stored = connection.execute(
            sa.select(runs.c.policy_id, runs.c.cursors, runs.c.approved, runs.c.inherited).where(
                runs.c.id == row
            )
        ).one()
        run = run_rows.one(connection, row)
        seen = _circumstances(connection, stored.policy_id, run.policy, run.target, run.trigger,
                              stored.approved, stored.inherited, but=row)  # fmt: skip
        cursors = None if stored.cursors is None else [
            KeyRange(after, until) for after, until in json.loads(stored.cursors)
        ]  # fmt: skip
        return Answer(run, Claim(row, token) if taken else None, cursors, seen, approved_now)

    def _add(self, connection: sa.Connection, row: int, page: PlannedPage) -> int:
        """Insert new operations; returns how many were really new."""
        policy = connection.execute(
            sa.select(runs.c.policy_id).where(runs.c.id == row)
        ).scalar_one()
        seen_at = micros(page.asked_at)
        values = [
            (operation_id, row, policy, "waiting", item.key, item.etag,
             micros(item.last_modified), item.size, seen_at, generation, 0)
            for operation_id, item, disposition, generation in page.entries
            if disposition is Disposition.NEW
        ]  # fmt: skip
        if not values:
            return 0
        insert = self._db.insert(operations).on_conflict_do_nothing(index_elements=["operation_id"])
        return execute_many(connection, insert, _COLUMNS, values)

    def _merge_generations(self, connection: sa.Connection, row: int, page: PlannedPage) -> None:
        if not page.generations:
            return
        insert = self._db.insert(generations)
        greatest = sa.func.max if self._db.is_sqlite else sa.func.greatest
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["run_id", "name"],
                set_={"youngest": greatest(generations.c.youngest, insert.excluded.youngest)},
            ),
            [
                {
                    "run_id": row,
                    "name": name,
                    "youngest": micros(seen.youngest),
                    "prefix": seen.prefix,
                    "kept": False,
                }
                for name, seen in page.generations.items()
            ],
        )

    def _merge_newest(
        self, connection: sa.Connection, row: int, page: PlannedPage, keep_last: int
    ) -> None:
        if not page.newest:
            return
        names = list(page.newest)
        stored: dict[str, list[Any]] = {}
        for start in range(0, len(names), _CHUNK):
            found = connection.execute(
                sa.select(newest.c.name, newest.c.kept).where(
                    newest.c.run_id == row, newest.c.name.in_(names[start : start + _CHUNK])
                )
            )
            stored |= {name: json.loads(kept) for name, kept in found}
        merged = []
        for name, seen in page.newest.items():
            candidates = stored.get(name, []) + [
                [micros(k.last_modified), k.key, k.operation_id.hex() if k.operation_id else None]
                for k in seen
            ]
            candidates.sort(key=lambda k: (k[0], k[1]), reverse=True)
            merged.append({"run_id": row, "name": name, "kept": json.dumps(candidates[:keep_last])})
        insert = self._db.insert(newest)
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["run_id", "name"], set_={"kept": insert.excluded.kept}
            ),
            merged,
        )


_KNOWN = sa.select(
    operations.c.operation_id,
    operations.c.state,
    operations.c.outcome,
    operations.c.completed_at,
    operations.c.reappearances,
    operations.c.run_id,
).where(operations.c.operation_id.in_(sa.bindparam("ids", expanding=True)))


_COLUMNS = (
    "operation_id",
    "run_id",
    "policy_id",
    "state",
    "key",
    "etag",
    "last_modified",
    "size",
    "seen_at",
    "generation",
    "deliveries",
)


_ELSEWHERE = "elsewhere"


def _parked_before(connection: sa.Connection, slot: datetime) -> set[int]:
    """The parked runs that a run of *slot* would take over, whatever their policy."""
    return set(
        connection.scalars(
            sa.select(runs.c.id).where(runs.c.state == RunState.PARKED, runs.c.slot < micros(slot))
        )
    )


def _mark_candidates(connection: sa.Connection, row: int, page: PlannedPage) -> None:
    """Mark what ended but is listed again; `conclude` decides about it."""
    marked = [
        {"id_": entry.operation_id, "gen": entry.generation}
        for entry in page.entries
        if entry.disposition in (Disposition.AGAIN, Disposition.REAPPEARED)
    ]
    if marked:
        connection.execute(
            sa.update(operations)
            .where(
                operations.c.operation_id == sa.bindparam("id_"),
                operations.c.state == State.COMPLETED,
            )
            .values(
                candidate_of=row,
                seen_at=micros(page.asked_at),
                generation=sa.bindparam("gen"),
            ),
            marked,
        )


def _policy_row(connection: sa.Connection, policy: Policy) -> Any:
    return connection.execute(
        sa.select(policies).where(
            policies.c.name == policy.name, policies.c.version == policy.version
        )
    ).one_or_none()


def _refuse_edited(policy: Policy, stored: Any) -> None:
    if stored is not None and stored.fingerprint != policy.fingerprint():
        changes = "; ".join(what_changed(json.loads(stored.decides), policy.decides()))
        raise PolicyEdited(
            f"policies.{policy.name}: what it selects changed under version "
            f'"{policy.version}" ({changes}); give it a new version, or take the change back'
        )


def _make_current(connection: sa.Connection, policy: Policy, now: datetime) -> int:
    """The row of this policy version, which becomes the current one."""
    stored = _policy_row(connection, policy)
    _refuse_edited(policy, stored)
    connection.execute(
        sa.update(policies)
        .where(
            policies.c.name == policy.name,
            policies.c.version != policy.version,
            policies.c.current.is_(True),
        )
        .values(current=False)
    )
    if stored is not None:
        connection.execute(
            sa.update(policies)
            .where(policies.c.id == stored.id)
            .values(current=True, owner=policy.owner, planned_at=micros(now))
        )
        return int(stored.id)
    created: int = connection.execute(
        sa.insert(policies)
        .values(
            name=policy.name,
            version=policy.version,
            owner=policy.owner,
            connection=policy.connection,
            bucket=policy.source.bucket,
            action=policy.action,
            fingerprint=policy.fingerprint(),
            decides=json.dumps(policy.decides()),
            current=True,
            planned_at=micros(now),
        )
        .returning(policies.c.id)
    ).scalar_one()
    return created


def _circumstances(
    connection: sa.Connection,
    policy_row: int | None,
    policy: str,
    target: str,
    trigger: Trigger,
    approved: bool,
    inherited: str | None,
    but: int | None = None,
) -> Circumstances:
    released = (
        sa.select(runs.c.target)
        .join(policies)
        .where(runs.c.released_at.is_not(None), runs.c.id.is_distinct_from(but))
    )
    first = connection.execute(released.where(runs.c.policy_id == policy_row).limit(1)).first()
    last = connection.execute(
        released.where(policies.c.name == policy).order_by(runs.c.released_at.desc()).limit(1)
    ).scalar()
    return Circumstances(
        trigger=trigger,
        approved=approved,
        first=first is None,
        moved_from=last if last is not None and last != target else None,
        inherited=inherited,
    )


def _approve_again(connection: sa.Connection, run: Run, by: str, now: datetime) -> bool:
    """``--yes`` on a slot that has its run already. Returns whether it released a parked one."""
    if run.state is RunState.PARKED:
        _approve(connection, run, by, now)
        return True
    if not run.complete:
        connection.execute(sa.update(runs).where(runs.c.id == run.row).values(approved=True))
    return False


def _approve(connection: sa.Connection, run: Run, by: str, now: datetime) -> None:
    run_rows.step(connection, run, RunState.OPEN, released_at=micros(now))
    shown = f"{run.planned:,} planned; parked because {run.reason}"
    run_rows.note(connection, "approve", shown, by, now, policy=run.policy, run_id=run.run_id)
    run_rows.drain_if_done(connection, run.row)
