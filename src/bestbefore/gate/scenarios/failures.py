"""P1 and P12: a failure is its own command's, and a store that asks for rest gets it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, cast

from bestbefore.app.system import System
from bestbefore.domain.failure import Attempts, Failure, FailureClass
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run
from bestbefore.domain.states import State
from bestbefore.gate.faults import Faults, target_of
from bestbefore.gate.grounds import PREFIX
from bestbefore.gate.scenario import Ground, NotApplicable, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.stores import Store

if TYPE_CHECKING:
    from bestbefore.adapters.objects.s3.seams import Slowing

_FEW = 5
_MANY = 20
_REST = timedelta(seconds=20)
_TOO_SOON = timedelta(seconds=5)
_A_FEW_STEPS = 3
_ONE_EACH = Attempts(1, 1, 1, 1)

_NOT_HTTP = "this store answers no HTTP, and so never asks to slow down"


@scenario(
    "one-failure-alone",
    "P1",
    "One command that fails neither repeats nor delays the others",
    Ground.EITHER,
)
def one_failure_alone(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_MANY)
    policy = stage.policy()
    faults = Faults()
    system = stage.open(stores=faults.store, tables=faults.tables)
    run = stage.plan(system, policy)
    failing = target_of(stage.operations(system, run)[_MANY // 2])
    faults.failing[failing] = Failure(FailureClass.TRANSIENT, "bestbefore gate: made to fail")
    evidence.note("one command was made to fail whenever it is tried; of", run.planned)
    stage.work(system, until=lambda report: report.completed >= _MANY - 1)
    ends = {"deleted": _MANY - 1, "pending": 1}
    evidence.expect("states once all others were done", stage.outcomes(system, run), ends)
    evidence.expect("targets that are still there", stage.left(), 1)
    tried = max(n for target, n in faults.tried.items() if target != failing)
    evidence.expect("how often each of the others was tried", tried, 1)
    evidence.claim(
        "how often the one that fails was tried", faults.tried[failing],
        holds=faults.tried[failing] >= 1, expected="once at least",
    )  # fmt: skip
    stage.reconciles(system, run)
    faults.failing.clear()
    evidence.note("the failure was mended")
    stage.clock.jump(_REST)
    stage.work(system)
    evidence.expect("final states", stage.outcomes(system, run), {"deleted": _MANY})
    evidence.expect("targets that are still there", stage.left(), 0)
    stage.reconciles(system, run)


@scenario(
    "throttled",
    "P12",
    "A store that asks to slow down is left alone for as long as it said, at no attempt's cost",
    Ground.OBJECTS,
)
def throttled(stage: Stage) -> None:
    ground, evidence = stage.objects, stage.evidence
    try:  # the vendor's client is an extra
        from bestbefore.adapters.objects.s3.deleting import S3Deleter
        from bestbefore.adapters.objects.s3.seams import Slowing
    except ImportError:
        raise NotApplicable(_NOT_HTTP) from None
    if not isinstance(ground.store.deleter, S3Deleter):
        raise NotApplicable(_NOT_HTTP)
    slow: list[Slowing] = []

    def slowing(store: Store) -> Store:
        slow.append(Slowing(cast("S3Deleter", store.deleter)))
        return store

    for form in ("seconds", "date"):
        ground.ready(f"{form}/{n}.json" for n in range(_FEW))
    ground.ripen()
    for form in ("seconds", "date"):
        policy = replace(stage.policy(form, prefix=f"{PREFIX}{form}/"), attempts=_ONE_EACH)
        stage.adopt(policy)
        system = stage.open(stores=slowing)
        run = stage.plan(system, policy)
        over = (stage.clock.now() + _REST).replace(microsecond=0)
        said = f"{_REST.seconds}" if form == "seconds" else format_datetime(over, usegmt=True)
        evidence.note("the gate answered in the store's place: 503 SlowDown, Retry-After", said)
        due = _asked_to_slow_down(stage, system, run, slow[-1], said)
        evidence.claim(
            "first command due again after", f"{(due - over + _REST).total_seconds():.1f} s",
            holds=due >= over, expected="not before that",
        )  # fmt: skip
        before = slow[-1].deletes
        _wait_until(stage, due - _TOO_SOON)
        stage.work(system, until=_steps(_A_FEW_STEPS))
        evidence.expect("deletes sent until shortly before", slow[-1].deletes - before, 0)
        _wait_until(stage, due + _REST)
        due = _asked_to_slow_down(stage, system, run, slow[-1], "1")
        evidence.note("the gate answered so once more")
        states = stage.outcomes(system, run)
        wanted = {State.PENDING.value: _FEW}
        evidence.expect("states, where any class has one attempt", states, wanted)
        _wait_until(stage, due + _REST)
        stage.work(system)
        evidence.note("the store no longer asked to slow down")
        evidence.expect("final states", stage.outcomes(system, run), {"deleted": _FEW})
        evidence.expect("objects left", len(ground.due(f"{form}/")), 0)
        stage.reconciles(system, run)


def _asked_to_slow_down(
    stage: Stage, system: System, run: Run, store: "Slowing", retry_after: str
) -> datetime:
    """Have each command of *run* answered so once; returns when the first is due again."""
    store.retry_after = retry_after
    stage.work(system, until=lambda report: report.retried["throttled"] >= _FEW)
    store.retry_after = None
    return min(one.due_at or one.seen_at for one in stage.operations(system, run))


def _wait_until(stage: Stage, moment: datetime) -> None:
    stage.clock.jump(moment - stage.clock.now())


def _steps(number: int) -> Callable[[Report], bool]:
    """For `Stage.work`: stop after so many steps."""
    left = iter(range(number))
    return lambda _: next(left, None) is None
