"""P3: whatever is delivered twice ends once."""

from datetime import timedelta

from bestbefore.app.push import Pushed
from bestbefore.gate.messages import Watch
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage

_COMMANDS = 20
_MORE = 5


@scenario(
    "duplicate-delivery",
    "P3",
    "A command that is delivered twice has one effect and one final state",
    Ground.EITHER,
)
def duplicate_delivery(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    watch = Watch()
    system = stage.open(broker=watch)
    run = stage.plan(system, policy)
    stage.evidence.expect("commands planned", run.planned, _COMMANDS)
    stage.work(system)
    stage.evidence.expect("commands left of the old ones", stage.left(), 0)
    before, acked = stage.outcomes(system, run), watch.acked
    # A worker without anything to do looks at no message, so that there has to be something.
    stage.fill(_MORE, start=_COMMANDS)
    slot = max(stage.clock.now().replace(microsecond=0), run.slot + timedelta(seconds=1))
    second = stage.plan(system, policy, slot)
    delivered = [(one, stage.deliver(system, one)) for one in stage.operations(system, run)]
    stage.evidence.note("each command was delivered once more", len(delivered))
    if system.broker is None:
        stage.evidence.expect(
            "pushed again: answered as done, refused before a worker saw it",
            sum(pushed == Pushed(one, done=True) for one, pushed in delivered), _COMMANDS,
        )  # fmt: skip
    stage.evidence.note("planned meanwhile", second.planned)
    messages = acked + _COMMANDS + _MORE if system.broker is not None else 0
    report = stage.serve(
        system, lambda report: report.completed >= _MORE and watch.acked >= messages
    )
    stage.evidence.expect("effects, but for those planned meanwhile", report.completed - _MORE, 0)
    stage.evidence.expect("final states", stage.outcomes(system, run), before)
    stage.evidence.expect("commands left of the new ones", stage.left(), 0)
    stage.reconciles(system, run)
    stage.reconciles(system, second)
