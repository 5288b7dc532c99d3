"""P2 and P7 in a bucket: only what was seen goes, and never what is protected."""

import re
from collections import Counter
from datetime import timedelta

from bestbefore.app.holding import hold, scope_of
from bestbefore.domain.outcome import Outcome
from bestbefore.gate.grounds import PREFIX
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage

_FEW = 3
_MANY = 10
_NEW = b'{"written": "since"}'
_HALF_OF_TRUST = timedelta(seconds=155)
"""A listing is trusted for five minutes, and a store's clock and ours may differ by as much: the
planner's is set back by one half, and the worker's forward by the other."""


@scenario(
    "overwritten",
    "P2",
    "An object that is overwritten between scan and delete stays, its neighbours go",
    Ground.OBJECTS,
)
def overwritten(stage: Stage) -> None:
    ground, evidence = stage.objects, stage.evidence
    # A command that names a version deletes that one, over which nobody can write.
    spared = 0 if ground.by_version else 1
    keys = ground.ready(f"other/{n}.json" for n in range(_MANY))
    again = ground.ready(f"same/{n}.json" for n in range(_MANY))
    ground.ripen()

    policy = stage.policy(prefix=f"{PREFIX}other/")
    system = stage.open()
    run = stage.plan(system, policy)
    evidence.expect("commands planned", run.planned, _MANY)
    ground.put([keys[0].removeprefix(PREFIX)], _NEW)
    evidence.note("then an object was overwritten with another content", keys[0])
    stage.work(system)
    evidence.expect("outcomes", stage.outcomes(system, run), _ends(_MANY, spared))
    evidence.expect("keys that are left", ground.due("other/"), keys[:1])
    found = (ground.files.get(ground.bucket, keys[0]) or b"").decode()
    evidence.expect("what is under the key that was overwritten", found, _NEW.decode())

    policy = stage.policy("v2", prefix=f"{PREFIX}same/")
    system = stage.open()
    slot = stage.clock.now().replace(microsecond=0)
    stage.clock.jump(-_HALF_OF_TRUST)
    run = stage.plan(system, policy, slot)
    evidence.expect("commands planned of others", run.planned, _MANY)
    ground.put([again[0].removeprefix(PREFIX)])
    evidence.note("then one was written again with the same content", again[0])
    stage.clock.jump(2 * _HALF_OF_TRUST)
    evidence.note("the worker came when the plan was older than five minutes")
    stage.work(system)
    stage.clock.jump(-_HALF_OF_TRUST)
    evidence.expect("outcomes of these", stage.outcomes(system, run), _ends(_MANY, spared))
    evidence.expect("keys of these that are left", ground.due("same/"), again[:1])


@scenario(
    "recreated",
    "P2",
    "A key that is written again after its delete is a new object, for the next run",
    Ground.OBJECTS,
)
def recreated(stage: Stage) -> None:
    ground, evidence = stage.objects, stage.evidence
    stage.fill(_FEW)
    policy = stage.policy()
    system = stage.open()
    first = stage.plan(system, policy)
    stage.work(system)
    evidence.expect("objects left by the first run", stage.left(), 0)
    stage.fill(_FEW)
    evidence.note("the same keys were written again, with the same content", _FEW)
    due = len(ground.due())
    second = stage.plan(system, policy)
    evidence.expect("commands that the next run planned", second.planned, due)
    evidence.expect("of those, taken for what was deleted before", second.reappeared, 0)
    stage.work(system)
    evidence.expect("objects left by it", stage.left(), 0)
    for run in (first, second):
        stage.reconciles(system, run)


@scenario(
    "current-generation",
    "P7",
    "The newest generation, and what the pointer names by now, are never touched",
    Ground.OBJECTS,
)
def current_generation(stage: Stage) -> None:
    ground, evidence = stage.objects, stage.evidence
    pointer = f"{PREFIX}current.json"
    for generation in ("g1", "g2", "g3", "g4"):
        ground.ready(f"generations/{generation}/{n}.json" for n in range(_FEW))
    ground.put(["current.json"], b'{"generation": "g1"}')
    ground.ripen()
    policy = stage.policy(
        generation=re.escape(f"{PREFIX}generations/") + r"(?P<generation>g\d+)/",
        keep_generations=1,
        current_pointer=pointer,
    )
    system = stage.open()
    run = stage.plan(system, policy)
    evidence.note("old generations g1, which the pointer names, to g4: objects of each", _FEW)
    evidence.expect("commands planned: of g2 and g3", run.planned, 2 * _FEW)
    kept = system.records.tallies(run, "protected")
    evidence.note("protected by the plan, by reason", {why: tally.n for why, tally in kept.items()})
    ground.put(["current.json"], b'{"generation": "g2"}')
    evidence.note("then the pointer was moved to g2")
    report = stage.work(system)
    wanted = {"deleted": _FEW, "protected": _FEW}
    evidence.expect("outcomes", stage.outcomes(system, run), wanted)
    why = {str(reason): n for reason, n in report.protected.items()}
    evidence.expect("what protected them", why, {"pointer": _FEW})
    left = Counter(key.split("/")[2] for key in ground.due("generations/"))
    evidence.expect("objects left", dict(left), {"g1": _FEW, "g2": _FEW, "g4": _FEW})
    stage.reconciles(system, run)


@scenario(
    "held-prefix",
    "P7",
    "What is on hold is not touched, and goes with the next run once the hold is lifted",
    Ground.OBJECTS,
)
def held_prefix(stage: Stage) -> None:
    ground, evidence = stage.objects, stage.evidence
    for part in ("free", "held", "late"):
        ground.ready(f"{part}/{n}.json" for n in range(_FEW))
    ground.ripen()
    policy = stage.policy()
    system = stage.open()

    def held(part: str) -> str:
        scope = scope_of(system, None, ground.name, ground.bucket, f"{PREFIX}{part}/")
        evidence.note("a hold was placed on", str(scope))
        return hold(system, scope, "bestbefore gate", None, system.person).hold_id

    hold_id = held("held")
    run = stage.plan(system, policy)
    evidence.expect("commands planned", run.planned, 2 * _FEW)
    kept = system.records.tallies(run, "protected")
    evidence.expect("protected by that hold", kept["hold"].n, _FEW)
    held("late")
    stage.work(system)
    wanted = {"deleted": _FEW, "protected": _FEW}
    evidence.expect("outcomes, with a hold since the plan", stage.outcomes(system, run), wanted)
    left = Counter(key.split("/")[1] for key in ground.due())
    evidence.expect("objects left", dict(left), {"held": _FEW, "late": _FEW})
    stage.reconciles(system, run)
    system.holds.remove(hold_id, system.person, stage.clock.now())
    evidence.note("the first hold was lifted")
    run = stage.plan(system, policy, run.slot + timedelta(seconds=1))
    stage.work(system)
    evidence.expect("outcomes of the next run", stage.outcomes(system, run), {"deleted": _FEW})
    left = Counter(key.split("/")[1] for key in ground.due())
    evidence.expect("objects left after it", dict(left), {"late": _FEW})


def _ends(planned: int, spared: int) -> dict[str, int]:
    """How *planned* commands end of which *spared* find something else."""
    ends = {Outcome.DELETED.value: planned - spared}
    return ends | ({Outcome.CHANGED.value: spared} if spared else {})
