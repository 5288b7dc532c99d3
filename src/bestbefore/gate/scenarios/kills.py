"""P4: whatever kills a worker, and whenever, no command is lost and none ends twice."""

from bestbefore.gate.children import Instant
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage

_COMMANDS = 20


@scenario(
    "killed-before-effect",
    "P4",
    "A worker that dies before its delete leaves the command for another one",
    Ground.EITHER,
)
def killed_before_effect(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    with stage.short_lease():
        system = stage.open()
        run = stage.plan(system, policy)
        stage.killed(Instant.CLAIM)
        stage.evidence.expect("commands' worth left after the kill", stage.left(), _COMMANDS)
        stage.work(system)
    stage.evidence.expect("left once another worker is done", stage.left(), 0)
    stage.evidence.expect("final states", stage.outcomes(system, run), {"deleted": _COMMANDS})
    stage.reconciles(system, run)


@scenario(
    "killed-between-effect-and-record",
    "P4",
    "A worker that dies after a delete and before its record loses no command",
    Ground.OBJECTS,
)
def killed_between_effect_and_record(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    with stage.short_lease():
        system = stage.open()
        run = stage.plan(system, policy)
        stage.killed(Instant.EFFECT)
        stage.evidence.claim(
            "objects left after the kill", stage.left(), holds=stage.left() < _COMMANDS,
            expected="fewer than were planned: there was an effect",
        )  # fmt: skip
        stage.evidence.expect("effects on record", stage.outcomes(system, run).get("deleted", 0), 0)
        stage.work(system)
    stage.evidence.expect("objects left once another worker is done", stage.left(), 0)
    ended = stage.outcomes(system, run)
    stage.evidence.note("final states", ended)
    done = ended.get("deleted", 0) + ended.get("absent", 0)
    stage.evidence.expect("commands that ended as deleted or absent", done, _COMMANDS)
    stage.reconciles(system, run)
