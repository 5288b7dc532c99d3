"""Slots that were expected, in the state database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import looks
from bestbefore.adapters.state.database import Database, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import policies, runs, slots
from bestbefore.domain.slots import Slot, SlotState, collapsed
from bestbefore.domain.states import RunState
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.slots import Expected, Jump, MissedSlot, Watched

_ANSWERS = sa.or_(runs.c.complete.is_(True), runs.c.state == RunState.CANCELLED)


@replays("look", "failed", "collapse")
class SqlSlots:
    """`bestbefore.ports.slots.Slots` on a SQL database."""

    def __init__(self, database: Database, calendar: Calendar) -> None:
        self._db = database
        self._calendar = calendar

    def look(
        self, expected: Expected, grace: timedelta, now: datetime, jump: Jump | None = None
    ) -> Watched | None:
        with self._db.read() as connection:
            look = looks.see(connection, self._calendar, looks.Look(expected, grace, now, jump))
        if not look.write:
            return look.watched
        with self._db.write() as connection:
            # Once more: somebody may have looked meanwhile.
            look = looks.see(connection, self._calendar, looks.Look(expected, grace, now, jump))
            if look.write:
                looks.write(self._db, connection, look)
        return look.watched

    def failed(self, policy: str, slot: datetime, trouble: str) -> None:
        with self._db.write() as connection:
            connection.execute(
                self._db.insert(slots)
                .values(policy=policy, slot=micros(slot), trouble=trouble)
                .on_conflict_do_update(index_elements=["policy", "slot"], set_={"trouble": trouble})
            )

    def collapse(self, policy: str, slot: datetime, now: datetime, *, missed: bool) -> None:
        with self._db.write() as connection:
            answered = connection.execute(
                sa.select(sa.func.max(runs.c.slot))
                .join(policies)
                .where(policies.c.name == policy, runs.c.slot < micros(slot), _ANSWERS)
            ).scalar()
            which: list[sa.ColumnElement[bool]] = [slots.c.verdict.is_(None)]
            if missed:
                since = slots.c.slot > (-1 if answered is None else answered)
                which.append(sa.and_(slots.c.verdict == SlotState.MISSED, since))
            earlier_ones = looks.load(
                connection, policy, slots.c.slot < micros(slot), sa.or_(*which)
            )
            skipped = [
                replace(earlier, verdict=collapsed(slot, earlier.verdict, now))
                for earlier in earlier_ones
                if not earlier.answered
            ]
            looks.put(self._db, connection, skipped)

    def history(self, policy: str, since: datetime, limit: int) -> Sequence[Slot]:
        with self._db.read() as connection:
            noted = looks.load(connection, policy, slots.c.slot >= micros(since), limit=limit)
            found = {slot.at: slot for slot in noted}
            answered = connection.execute(
                looks.RUNS.where(policies.c.name == policy, runs.c.slot >= micros(since))
                .order_by(runs.c.slot.desc(), runs.c.id.desc())
                .limit(limit)
            )
            for row in answered:
                at = moment(row.slot)
                found.setdefault(at, Slot(policy, at, run=looks.slot_run(row)))
        return [found[at] for at in sorted(found, reverse=True)[:limit]]

    def missed(self, names: Collection[str], since: datetime, limit: int) -> Sequence[MissedSlot]:
        made_up_by = (
            sa.select(runs.c.run_id)
            .join(policies)
            .where(
                policies.c.name == slots.c.policy,
                runs.c.slot > slots.c.slot,
                runs.c.state == RunState.DRAINED,
            )
            .order_by(runs.c.slot)
            .limit(1)
            .correlate(slots)
            .scalar_subquery()
        )
        found = (
            sa.select(slots, made_up_by.label("made_up_by")).where(_unanswered(names)).subquery()
        )
        with self._db.read() as connection:
            rows = connection.execute(
                sa.select(found)
                .where(sa.or_(found.c.made_up_by.is_(None), found.c.noticed_at >= micros(since)))
                .order_by(found.c.slot.desc(), found.c.policy)
                .limit(limit)
            )
            return [
                MissedSlot(
                    row.policy,
                    moment(row.slot),
                    row.reason,
                    moment(row.noticed_at),
                    row.made_up_by,
                )
                for row in rows
            ]

    def missed_counts(self, names: Collection[str]) -> Mapping[str, int]:
        newest = (
            sa.select(policies.c.name, sa.func.max(runs.c.slot).label("slot"))
            .select_from(runs.join(policies))
            .where(
                runs.c.state == RunState.DRAINED,
                policies.c.name.in_(
                    sa.select(slots.c.policy).where(slots.c.policy.in_(sorted(names)))
                ),
            )
            .group_by(policies.c.name)
            .subquery()
        )
        with self._db.read() as connection:
            rows = connection.execute(
                sa.select(slots.c.policy, sa.func.count().label("n"))
                .select_from(slots.outerjoin(newest, newest.c.name == slots.c.policy))
                .where(
                    _unanswered(names),
                    sa.or_(newest.c.slot.is_(None), slots.c.slot > newest.c.slot),
                )
                .group_by(slots.c.policy)
            )
            return {row.policy: row.n for row in rows}


def _unanswered(names: Collection[str]) -> Any:
    """Missed by one of the policies *names*, and not answered after all."""
    answered = (
        sa.select(runs.c.id)
        .join(policies)
        .where(policies.c.name == slots.c.policy, runs.c.slot == slots.c.slot, _ANSWERS)
        .correlate(slots)
        .exists()
    )
    missed = slots.c.verdict == SlotState.MISSED
    return sa.and_(slots.c.policy.in_(sorted(names)), missed, ~answered)
