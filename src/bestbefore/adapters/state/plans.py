"""What planning writes: policies, slots and the pages of a scan."""

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state import batches, conclusion, counters, followers, known, pages
from bestbefore.adapters.state import policies as policy_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, micros
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import (
    policies,
    runs,
)
from bestbefore.domain.counts import Count
from bestbefore.domain.known import Known
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.printable import number_of
from bestbefore.domain.run import Circumstances, Run, Trigger, run_id
from bestbefore.domain.states import RunState
from bestbefore.domain.versions import Versions
from bestbefore.ports.ledger import (
    Answer,
    Claim,
    LedgerError,
    PlannedPage,
    PlanTakenOver,
    Taken,
)
from bestbefore.ports.objects import KeyRange

_LIVE = (RunState.PLANNING, RunState.OPEN)

_EVER_RELEASED = (
    sa.select(runs.c.target)
    .join(policies)
    .where(runs.c.released_at.is_not(None), runs.c.id.is_distinct_from(sa.bindparam("but")))
    .limit(1)
)
_RELEASED = _EVER_RELEASED.where(runs.c.policy_id == sa.bindparam("policy"))
_LAST_RELEASED = _EVER_RELEASED.where(policies.c.name == sa.bindparam("name")).order_by(
    runs.c.released_at.desc()
)


@replays("answer", "resume", "renew", "abandon", "conclude")
class SqlPlanLedger:
    """`bestbefore.ports.ledger.PlanLedger` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def check_policies(self, policies_now: Collection[Policy]) -> None:
        with self._db.read() as connection:
            for policy in policies_now:
                policy_rows.refuse_edited(policy, policy_rows.stored(connection, policy))

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
        doubt: str | None = None,
    ) -> Answer:
        with self._db.write() as connection:
            policy_row = policy_rows.make_current(connection, policy, now)
            found = connection.execute(
                sa.select(runs.c.id).where(
                    runs.c.policy_id == policy_row, runs.c.slot == micros(slot)
                )
            ).scalar_one_or_none()
            if found is not None:
                approved_now = approved and _approve_again(
                    connection, run_rows.one(connection, found), by, now
                )
                if approved_now:
                    self._db.ring(connection)
                return self._claim(connection, found, now, lease, approved_now=approved_now)
            taken_over = self._take_over(connection, policy, slot, by, now)
            inherited = taken_over[0].reason if taken_over else doubt
            seen = _circumstances(connection, policy_row, policy.name, target, approved, inherited)
            early = not policy.keeps_some and not seen.may_park(
                policy.reach, dependents=policy.allows_dependents
            )
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
                    created_by=by,
                )
                .returning(runs.c.id)
            ).scalar_one()
            return self._claim(connection, created, now, lease)

    def circumstances(
        self,
        policy: Policy,
        target: str,
        *,
        approved: bool,
        doubt: str | None = None,
    ) -> Circumstances:
        with self._db.read() as connection:
            stored = policy_rows.stored(connection, policy)
            parked = self._parked(connection, policy.name)
            return _circumstances(
                connection,
                stored.id if stored else None,
                policy.name,
                target,
                approved,
                parked[0].reason if parked else doubt,
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
        with self._db.read() as connection:
            return known.known(connection, operation_ids, taking_over)

    def taken(self, policy: Policy, taking_over: datetime | None = None) -> Sequence[Taken]:
        with self._db.read() as connection:
            return batches.taken(connection, policy, taking_over)

    def remember(self, found: Mapping[bytes, Known], now: datetime) -> None:
        with self._db.write() as connection:
            known.remember(self._db, connection, found, now)

    def write_page(
        self, claim: Claim, page: PlannedPage, keep_last: int, now: datetime, lease: timedelta
    ) -> Run:
        with self._db.write(shared=not pages.by_version(page)) as connection:
            run = run_rows.one(connection, claim.run)
            policy, first = connection.execute(
                sa.select(runs.c.policy_id, runs.c.cursors.is_(None)).where(runs.c.id == claim.run)
            ).one()
            pages.write(self._db, connection, claim.run, page, keep_last, now)
            # At the end, so that workers do not wait for the run's row while a page is written.
            held = connection.execute(
                sa.update(runs)
                .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
                .values(
                    planner_until=micros(now + lease),
                    cursors=json.dumps(page.cursors),
                    own_table=sa.func.coalesce(runs.c.own_table, page.table),
                )
            )
            if held.rowcount != 1:
                raise PlanTakenOver("another planner holds this run; nothing was written")
            if run.early and run.state is RunState.PLANNING:
                run_rows.step(connection, run, RunState.OPEN, released_at=micros(now))
            if run.early and page.entries:
                self._db.ring(connection)
            counters.add(self._db, connection, policy, _seen(run, page, now, first=first))
            return run_rows.one(connection, claim.run)

    def renew(self, claim: Claim, now: datetime, lease: timedelta) -> None:
        with self._db.write(shared=True) as connection:
            held = connection.execute(
                sa.update(runs)
                .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
                .values(planner_until=micros(now + lease))
            )
            if held.rowcount != 1:
                raise PlanTakenOver("another planner holds this run")

    def conclude(
        self,
        claim: Claim,
        keep_generations: int,
        decide: Callable[[Run], str | None],
        now: datetime,
        pointer: Pointer | None = None,
    ) -> Run:
        with self._db.write() as connection:
            self._db.ring(connection)
            return conclusion.conclude(
                self._db, connection, claim, keep_generations, decide, now, pointer
            )

    def generations(self, run: int) -> frozenset[str]:
        with self._db.read() as connection:
            return run_rows.generations_seen(connection, run)

    def abandon(self, claim: Claim, now: datetime) -> Run:
        with self._db.write() as connection:
            connection.execute(
                sa.update(runs)
                .where(runs.c.id == claim.run, runs.c.planner_token == claim.token)
                .values(planner_token=None, planner_until=micros(now))
            )
            return run_rows.one(connection, claim.run)

    def approve(self, run_id: str, by: str, now: datetime, reason: str | None = None) -> Run:
        with self._db.write() as connection:
            run = run_rows.named(connection, run_id)
            if run.state is not RunState.PARKED:
                raise LedgerError(f"run {run_id} is {run.state}; only a parked run can be approved")
            _approve(connection, run, by, now, reason)
            self._db.ring(connection)
            return run_rows.one(connection, run.row)

    def cancel(self, run_id: str, reason: str, by: str, now: datetime) -> Run:
        with self._db.write() as connection:
            run = run_rows.named(connection, run_id)
            self._cancel(connection, run, reason, by, now)
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
            self._cancel(connection, run, f"taken over by {successor}", by, now)
        return parked

    def _cancel(
        self, connection: sa.Connection, run: Run, reason: str, by: str, now: datetime
    ) -> None:
        run_rows.cancel(self._db, connection, run, reason, by, now)
        policy = run_rows.policy_of(connection, run.row)
        if policy_rows.versions_of(connection, policy) == Versions.PURGE:
            followers.release_all(connection, policy, micros(now))

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
        seen = _circumstances(connection, stored.policy_id, run.policy, run.target,
                              stored.approved, stored.inherited, but=row)  # fmt: skip
        cursors = None if stored.cursors is None else [
            KeyRange(*cursor) for cursor in json.loads(stored.cursors)
        ]  # fmt: skip
        return Answer(run, Claim(row, token) if taken else None, cursors, seen, approved_now)


def _circumstances(
    connection: sa.Connection,
    policy_row: int | None,
    policy: str,
    target: str,
    approved: bool,
    inherited: str | None,
    but: int | None = None,
) -> Circumstances:
    first = connection.execute(_RELEASED, {"policy": policy_row, "but": but}).first()
    last = connection.execute(_LAST_RELEASED, {"name": policy, "but": but}).scalar()
    return Circumstances(
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


def _approve(
    connection: sa.Connection, run: Run, by: str, now: datetime, reason: str | None = None
) -> None:
    run_rows.step(connection, run, RunState.OPEN, released_at=micros(now))
    shown = f"{run.planned:,} planned{_with_them(run)}; parked because {run.reason}"
    if reason is not None:
        shown += f"; approved because {reason}"
    run_rows.note(connection, "approve", shown, by, now, policy=run.policy, run_id=run.run_id)
    run_rows.drain_if_done(connection, run.row, now)


def _with_them(run: Run) -> str:
    """The rows of other tables that an approval releases as well."""
    effects = [
        f"{number_of(n, 'row')} of {table.table} {effect}"
        for table in run.dependents
        for n, effect in ((table.removed, "removed"), (table.changed, "changed"))
        if n
    ]
    return f", with them {', '.join(effects)}" if effects else ""


def _seen(run: Run, page: PlannedPage, now: datetime, *, first: bool) -> counters.Counts:
    """What *page* adds to the counts of its policy."""
    seen: counters.Counts = {
        (Count.SCANNED, "row" if run.about_rows else "object"): (page.scanned, 0)
    }
    if first:
        waited = (now - run.created_at).total_seconds()
        counters.put_seconds(seen, Count.FIRST_PAGE_SECONDS, waited)
    return seen
