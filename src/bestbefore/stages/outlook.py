"""What a worker may touch right now, and what a drain has to leave."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bestbefore.domain.policy import Policy
from bestbefore.ports.controls import Controls
from bestbefore.ports.ledger import Leftover, PolicyVersion, WorkLedger

_BREAKER_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Policy versions that have something unsettled, by what may be done with it.

    ``workable`` ones are current, in this process's file, inside their window, and neither paused
    nor behind a breaker; ``superseded`` ones only need closing; ``probes`` are those, by
    connection, behind a breaker that is due for a probe. ``blocked`` gives, by row, why a version
    has to wait longer than a drain does.
    """

    workable: list[PolicyVersion]
    superseded: list[PolicyVersion]
    probes: dict[str, list[PolicyVersion]]
    blocked: Mapping[int, str]


def look_around(
    ledger: WorkLedger,
    controls: Controls,
    policies: Mapping[str, Policy],
    now: datetime,
    only: str | None = None,
    shut: Callable[[Policy, datetime], bool] = lambda _policy, _now: False,
    lacking: Callable[[str], bool] = lambda _connection: False,
) -> Outlook:
    """Read once what is current, paused and broken.

    *policies* are those of this process, *only* the one policy it cares about, if set. *shut* says
    of which nothing may be begun at this hour, *lacking* which connections this process cannot even
    try: others may.
    """
    paused = {pause.policy for pause in controls.pauses(now)}
    breakers = {breaker.connection: breaker for breaker in controls.breakers()}
    outlook = Outlook([], [], {}, blocked := {})
    for version in ledger.versions():
        policy = policies.get(version.name)
        if only not in (None, version.name):
            continue
        if None in paused or version.name in paused:
            blocked[version.row] = "paused"
        elif not version.current:
            outlook.superseded.append(version)
        elif policy is None or not version.means(policy):
            blocked[version.row] = "not_in_this_file"
        elif shut(policy, now):
            blocked[version.row] = "window"
        elif lacking(version.connection):
            blocked[version.row] = "no_client"
        elif breaker := breakers.get(version.connection):
            if now >= breaker.next_probe_at:
                outlook.probes.setdefault(version.connection, []).append(version)
            if now - breaker.opened_at >= _BREAKER_PATIENCE:
                blocked[version.row] = "breaker"
        else:
            outlook.workable.append(version)
    return outlook


def left_over(
    leftovers: Sequence[Leftover],
    outlook: Outlook,
    policies: Mapping[str, Policy],
    *,
    planning_failed: bool,
    cut_off: bool = False,
) -> Counter[str] | None:
    """What cannot be done for now, by reason; None while something can, or will be soon.

    A scan that nobody works on can only go on where *policies* hold its version, and nothing can
    where the queue is *cut off*.
    """
    left: Counter[str] = Counter()
    for rest in leftovers:
        left["dead"] += rest.dead
        left["parked"] += rest.parked
        left["held"] += rest.held
        unfinished = rest.waiting + rest.due + rest.leased + rest.delayed
        if rest.policy in outlook.blocked:
            left[outlook.blocked[rest.policy]] += unfinished
        elif cut_off:
            left["queue"] += unfinished
        elif unfinished:
            return None
        if rest.planning:
            policy = policies.get(rest.name)
            lacking = policy is None or policy.version != rest.version
            if not (rest.abandoned and (lacking or planning_failed)):
                return None
            left["unplanned"] += 1
    return +left
