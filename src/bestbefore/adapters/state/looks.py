"""What a look at a schedule finds and changes, as functions on an open transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, chunks, maybe_moment, micros, moment
from bestbefore.adapters.state.schema import pauses, policies, runs, schedules, slots
from bestbefore.domain.identity import instant
from bestbefore.domain.skew import MOST_CLOCK_SKEW
from bestbefore.domain.slots import Circumstances, Slot, SlotRun, SlotState, Verdict, judge
from bestbefore.domain.states import RunState
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.slots import LOOK_EVERY, MOST_KEPT, Expected, Jump, Watched

_LIVE = (RunState.PLANNING, RunState.OPEN)
_STILL_IN_USE = 2 * LOOK_EVERY
_OWN = ("trouble", "verdict", "reason", "noticed_at")
_NEVER = datetime.max.replace(tzinfo=UTC)

RUNS = sa.select(
    policies.c.name,
    runs.c.slot,
    runs.c.run_id,
    runs.c.state,
    runs.c.complete,
    runs.c.created_at,
    runs.c.planner_until,
).join(policies)

_SCHEDULES = sa.select(schedules).where(schedules.c.policy == sa.bindparam("policy"))
_PAUSES = sa.select(pauses).where(
    sa.or_(pauses.c.policy == "", pauses.c.policy == sa.bindparam("policy"))
)
_IN_HAND = RUNS.where(
    policies.c.name == sa.bindparam("policy"),
    runs.c.state.in_(_LIVE),
    runs.c.complete.is_(False),
    runs.c.planner_until > sa.bindparam("now"),
)
_RUNS_OF = RUNS.where(
    policies.c.name == sa.bindparam("policy"),
    runs.c.slot.in_(sa.bindparam("slots", expanding=True)),
).order_by(runs.c.id)


@dataclass
class Look:
    """One look at one schedule: what it sees, and what it has to write."""

    expected: Expected
    grace: timedelta
    now: datetime
    jump: Jump | None
    since: datetime | None = None  # None where nothing is expected
    looked_at: datetime | None = None  # when somebody looked before; None of a new schedule
    write: bool = False
    taken_back: bool = False
    new: list[Slot] = field(default_factory=list)
    judged: list[Slot] = field(default_factory=list)
    answered: list[datetime] = field(default_factory=list)
    watched: Watched | None = None


def see(connection: sa.Connection, calendar: Calendar, look: Look) -> Look:
    """Find out what *look* comes to, changing nothing."""
    policy = look.expected.policy
    known = connection.execute(_SCHEDULES, {"policy": policy}).fetchall()
    if look.expected.schedule is None:
        look.write = bool(known)
        return look
    _find(look, known)
    named, more = _named(calendar, look)
    unseen = {at: _unseen(look, at) for at in named}
    if more:
        unseen[named[0]] += "; slots before it are not listed"
    paused = _pauses(connection, policy)
    ahead = _in_hand(connection, policy, look.now)

    def seen(at: datetime) -> Circumstances:
        # In force when it came, or still, before anybody has answered it.
        under = (
            why for why, since, until in paused if since <= at < until or since <= look.now < until
        )
        before = (run for slot, run in ahead if slot < at)
        return Circumstances(next(under, None), next(before, None), unseen.get(at))

    def judged(slot: Slot) -> Slot:
        return replace(slot, verdict=judge(slot, seen(slot.at), look.grace, look.now))

    runs_there = runs_of(connection, policy, [micros(at) for at in named])
    stored = _stored(connection, policy, named)
    noted = [Slot(policy, at, run=runs_there.get(micros(at))) for at in named if at not in stored]
    look.new = [judged(slot) for slot in noted if not slot.answered]
    # Not those of a clock that is a little ahead of this one.
    for slot in load(
        connection, policy, slots.c.verdict.is_(None), slots.c.slot <= micros(look.now)
    ):
        if slot.answered:
            look.answered.append(slot.at)
        elif (now_judged := judged(slot)).verdict is not None:
            look.judged.append(now_judged)
    look.write |= bool(look.new or look.judged or look.answered)
    if (newest := _newest(connection, calendar, look)) is not None:
        look.watched = Watched(newest, seen(newest.at))
    return look


def write(database: Database, connection: sa.Connection, look: Look) -> None:
    """Carry out what *look* has found, in the transaction that found it."""
    policy, schedule, timezone = look.expected
    if schedule is None:
        connection.execute(sa.delete(schedules).where(schedules.c.policy == policy))
        connection.execute(
            sa.delete(slots).where(slots.c.policy == policy, slots.c.verdict.is_(None))
        )
        return
    assert look.since is not None  # noqa: S101  (a schedule was found or begun)
    if look.taken_back:
        connection.execute(
            sa.delete(slots).where(slots.c.policy == policy, slots.c.slot > micros(look.now))
        )
    looked = look.now if look.taken_back else max(look.now, look.looked_at or look.now)
    values = {"since": micros(look.since), "looked_at": micros(looked)}
    key = {"policy": policy, "schedule": schedule, "timezone": timezone}
    connection.execute(
        database.insert(schedules)
        .values(**key, **values)
        .on_conflict_do_update(index_elements=list(key), set_=values)
    )
    connection.execute(
        sa.delete(schedules).where(
            schedules.c.policy == policy,
            schedules.c.looked_at < micros(look.now - _STILL_IN_USE),
        )
    )
    put(database, connection, [*look.new, *look.judged])
    for some in chunks(look.answered):
        connection.execute(
            sa.delete(slots).where(
                slots.c.policy == policy, slots.c.slot.in_([micros(at) for at in some])
            )
        )
    if look.new:
        oldest = connection.execute(
            sa.select(slots.c.slot).where(slots.c.policy == policy)
            .order_by(slots.c.slot.desc()).offset(MOST_KEPT).limit(1)
        ).scalar()  # fmt: skip
        if oldest is not None:
            connection.execute(
                sa.delete(slots).where(slots.c.policy == policy, slots.c.slot <= oldest)
            )


def put(database: Database, connection: sa.Connection, changed: Sequence[Slot]) -> None:
    """Store slots with what no run tells of them."""
    if not changed:
        return
    insert = database.insert(slots)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["policy", "slot"],
            set_={name: insert.excluded[name] for name in _OWN},
        ),
        [
            {
                "policy": slot.policy,
                "slot": micros(slot.at),
                "trouble": slot.trouble,
                "verdict": slot.verdict and slot.verdict.state,
                "reason": slot.verdict and slot.verdict.reason,
                "noticed_at": slot.verdict and micros(slot.verdict.at),
            }
            for slot in changed
        ],
    )


def load(
    connection: sa.Connection, policy: str, *where: Any, limit: int | None = None
) -> list[Slot]:
    """The stored slots of *policy* that satisfy *where*, newest first, with their runs."""
    rows = connection.execute(
        sa.select(slots).where(slots.c.policy == policy, *where)
        .order_by(slots.c.slot.desc()).limit(limit)
    ).fetchall()  # fmt: skip
    answers = runs_of(connection, policy, [row.slot for row in rows])
    return [
        Slot(
            policy,
            moment(row.slot),
            row.trouble,
            Verdict(SlotState(row.verdict), row.reason, moment(row.noticed_at))
            if row.verdict
            else None,
            answers.get(row.slot),
        )
        for row in rows
    ]


def runs_of(connection: sa.Connection, policy: str, at: Sequence[int]) -> Mapping[int, SlotRun]:
    """The runs of *policy*, of whatever version, for the slots *at*: the newest of each."""
    found: dict[int, SlotRun] = {}
    for some in chunks(at):
        for row in connection.execute(_RUNS_OF, {"policy": policy, "slots": some}):
            found[row.slot] = slot_run(row)
    return found


def slot_run(row: Any) -> SlotRun:
    """A row of `RUNS` as the run that it is."""
    until = maybe_moment(row.planner_until)
    return SlotRun(row.run_id, RunState(row.state), row.complete, moment(row.created_at), until)


def _find(look: Look, known: Sequence[Any]) -> None:
    """Since when the schedule is known, and until when somebody has looked."""
    _, schedule, timezone = look.expected
    mine = next((r for r in known if (r.schedule, r.timezone) == (schedule, timezone)), None)
    newest = max((row.looked_at for row in known), default=0)
    if mine is None or mine.looked_at < min(newest, micros(look.now - _STILL_IN_USE)):
        look.since, look.write = look.now, True
        return
    look.since, look.looked_at = moment(mine.since), moment(mine.looked_at)
    if look.looked_at > look.now + MOST_CLOCK_SKEW:
        # Whoever looked then had a clock that was ahead; its slots come once more.
        look.taken_back = look.write = True
        look.looked_at, look.since = look.now, min(look.since, look.now)
    elif look.now - look.looked_at >= LOOK_EVERY:
        look.write = True


def _named(calendar: Calendar, look: Look) -> tuple[Sequence[datetime], bool]:
    """The newest slots since the last look, oldest first, and whether there are more before."""
    _, schedule, timezone = look.expected
    if schedule is None or look.looked_at is None or look.looked_at >= look.now:
        return [], False
    # Back by ever longer steps: a year of minutes takes seconds to count.
    back = timedelta(days=1)
    while True:
        start = max(look.looked_at, look.now - back)
        found = list(calendar.between(schedule, timezone, start, look.now))
        if start == look.looked_at or len(found) >= MOST_KEPT:
            return found[-MOST_KEPT:], len(found) > MOST_KEPT or start > look.looked_at
        back *= 4


def _unseen(look: Look, at: datetime) -> str:
    """Why nobody noticed the slot *at* when it came, if it is past its grace by now."""
    jump = look.jump
    if jump is not None and jump.before < at <= jump.after:
        return (
            f"the clock went from {instant(jump.before)} to {instant(jump.after)} at once "
            "(it was set, or the machine stood still)"
        )
    since = instant(look.looked_at or look.now)
    return (
        f"nobody looked between {since} and {instant(look.now)} (no bestbefore process was running)"
    )


def _stored(
    connection: sa.Connection, policy: str, named: Sequence[datetime]
) -> frozenset[datetime]:
    """Which of *named* are noted, as the slots of another schedule or by another clock."""
    if not named:
        return frozenset()
    return frozenset(
        map(
            moment,
            connection.scalars(
                sa.select(slots.c.slot).where(
                    slots.c.policy == policy,
                    slots.c.slot.between(micros(named[0]), micros(named[-1])),
                )
            ),
        )
    )


def _newest(connection: sa.Connection, calendar: Calendar, look: Look) -> Slot | None:
    """The newest slot since the schedule is known, as it is after this look."""
    policy, schedule, timezone = look.expected
    try:
        at = calendar.latest(schedule or "", timezone, look.now)
    except ValueError:
        return None  # its first one is yet to come
    if look.since is None or at <= look.since:
        return None
    for slot in [*look.new, *look.judged]:
        if slot.at == at:
            return slot
    stored = load(connection, policy, slots.c.slot == micros(at))
    answers = runs_of(connection, policy, [micros(at)])
    return stored[0] if stored else Slot(policy, at, run=answers.get(micros(at)))


def _pauses(connection: sa.Connection, policy: str) -> list[tuple[str, datetime, datetime]]:
    """Pauses that concern *policy*, ended ones too, with the reason, the beginning and the end."""
    found = connection.execute(_PAUSES, {"policy": policy})
    return [(row.reason, moment(row.at), maybe_moment(row.until) or _NEVER) for row in found]


def _in_hand(connection: sa.Connection, policy: str, now: datetime) -> list[tuple[datetime, str]]:
    """Runs that somebody is planning, with their slots."""
    found = connection.execute(_IN_HAND, {"policy": policy, "now": micros(now)})
    return [(moment(row.slot), row.run_id) for row in found]
