"""What became of a slot: of each instant at which a schedule expected a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from bestbefore.domain.identity import instant
from bestbefore.domain.states import RunState


class SlotState(StrEnum):
    """Each comes with a reason."""

    DUE = "due"  # its time has come, and so far nobody is late
    PLANNED = "planned"
    LATE = "late"  # answered, but only after the grace
    DRAINED = "drained"
    MISSED = "missed"
    SKIPPED = "skipped"  # on purpose, and nothing is lost by it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What nothing else in the ledger tells about a slot: that it was missed or skipped, and why.

    ``at`` is when that was noticed. A run that answers the slot all the same comes before it.
    """

    state: SlotState
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SlotRun:
    """The run of a slot. Until ``in_hand_until`` a planner has it to itself."""

    run_id: str
    state: RunState
    complete: bool
    began_at: datetime
    in_hand_until: datetime | None = None

    @property
    def answers(self) -> bool:
        """Whether its scan has ended, or a person has ended it."""
        return self.complete or self.state is RunState.CANCELLED

    def in_hand(self, now: datetime) -> bool:
        """Whether a planner that is alive, as far as anybody knows, is at it."""
        until = self.in_hand_until
        return not self.answers and until is not None and now < until


@dataclass(frozen=True, slots=True)
class Slot:
    """What is known about a slot; ``trouble`` is why the last try to plan it failed."""

    policy: str
    at: datetime
    trouble: str | None = None
    verdict: Verdict | None = None
    run: SlotRun | None = None

    @property
    def answered(self) -> bool:
        return self.run is not None and self.run.answers

    def late_by(self, grace: timedelta) -> timedelta:
        """How long after its time its run began, or ended a begun plan; zero within *grace*."""
        if self.run is None:
            return timedelta(0)
        began = self.run.began_at
        if self.verdict is not None and self.verdict.state is SlotState.MISSED:
            began = max(began, self.verdict.at)
        late = began - self.at
        return late if late > grace else timedelta(0)


class Circumstances(NamedTuple):
    """What besides the slot itself decides about it.

    ``paused`` is the reason of a pause that was in force when it came, or is now; ``ahead`` the
    run of an earlier slot that somebody is planning; ``unseen`` why nobody saw it come.
    """

    paused: str | None = None
    ahead: str | None = None
    unseen: str | None = None


_UNTOUCHED = timedelta(minutes=1)
"""After so long without a planner a begun plan has been left."""


def judge(slot: Slot, seen: Circumstances, grace: timedelta, now: datetime) -> Verdict | None:
    """Why nobody answers *slot* in time; None while somebody still may, or where somebody did."""
    late = now - slot.at > grace
    run = slot.run
    if slot.answered:
        return None
    if run is not None:
        left = slot.trouble is not None or now - (run.in_hand_until or run.began_at) >= _UNTOUCHED
        if not late or run.in_hand(now) or not left:
            return None
        why = slot.trouble or "its planner is gone"
        return _missed(f"run {run.run_id} was begun and not planned to its end: {why}", now)
    if seen.paused is not None:
        return _missed(f"paused: {seen.paused}", now)
    if not late:
        return None
    if seen.ahead is not None:
        reason = f"overlap: run {seen.ahead} of an earlier slot was still being planned"
        return Verdict(SlotState.SKIPPED, reason, now)
    if slot.trouble is not None:
        return _missed(f"planning failed: {slot.trouble}", now)
    return _missed(seen.unseen or f"nobody answered within {lasting(grace)}", now)


def _missed(reason: str, now: datetime) -> Verdict:
    return Verdict(SlotState.MISSED, reason, now)


def collapsed(by: datetime, before: Verdict | None, now: datetime) -> Verdict:
    """The verdict on a slot whose work the run of a newer one, *by*, takes."""
    was = f" ({before.state}, {before.reason})" if before else ""
    reason = f"collapsed: the run of {instant(by)} takes its work{was}"
    return Verdict(SlotState.SKIPPED, reason, now)


def may_fire(
    slot: Slot, seen: Circumstances, *, catch_up: bool, grace: timedelta, now: datetime
) -> bool:
    """Whether to begin, or go on with, the run of *slot*, the newest one of its schedule."""
    if seen.paused is not None or seen.ahead is not None or slot.answered:
        return False
    if slot.run is not None and slot.run.in_hand(now):
        return False
    if slot.verdict is None:
        return now - slot.at <= grace
    return catch_up and slot.verdict.state is SlotState.MISSED


def state_of(slot: Slot, grace: timedelta, now: datetime) -> tuple[SlotState, str]:
    """The state of *slot*, and the reason."""
    run, verdict = slot.run, slot.verdict
    if run is not None and (run.answers or verdict is None):
        late = slot.late_by(grace)
        reason = f"run {run.run_id} is {run.state}"
        if not run.answers:
            reason = f"run {run.run_id} is being planned"
        if late:
            reason += f", {lasting(late)} after its time"
            if verdict is not None:
                reason += f" ({verdict.reason})"
        if run.state is RunState.DRAINED:
            return SlotState.DRAINED, reason
        return (SlotState.LATE if late else SlotState.PLANNED), reason
    if verdict is not None:
        return verdict.state, verdict.reason
    if now - slot.at <= grace:
        return SlotState.DUE, slot.trouble or "its time has come"
    return SlotState.MISSED, f"nobody answered within {lasting(grace)}"


def lasting(span: timedelta) -> str:
    """*span* in its two largest units: ``45 s``, ``2 h 5 min``, ``3 d``."""
    seconds = int(span.total_seconds())
    parts: Sequence[tuple[int, str]] = (
        (seconds // 86_400, "d"),
        (seconds % 86_400 // 3600, "h"),
        (seconds % 3600 // 60, "min"),
        (seconds % 60, "s"),
    )
    first = next((n for n, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(shown) or "0 s"
