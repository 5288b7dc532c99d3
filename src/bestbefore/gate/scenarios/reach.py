"""P8, P7 and P11: how far a run may reach, under which rules, and that its numbers add up."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from bestbefore.app.system import System
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.policy import Reach
from bestbefore.domain.report import Report
from bestbefore.domain.retention import Age
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.gate.faults import Faults, target_of
from bestbefore.gate.grounds import ObjectGround
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.ledger import DeadFilter
from bestbefore.stages.redrive import redrive

_COMMANDS = 20
_MORE = 3
_DEAD = 2
_MONTH = Age(0, 30 * 86_400)


@scenario(
    "caps",
    "P8",
    "A run that selects more than its caps waits for a person, and then does what it showed",
    Ground.EITHER,
)
def caps(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_COMMANDS)
    selected = _COMMANDS if isinstance(stage.ground, ObjectGround) else 10 * _COMMANDS
    slot = stage.clock.now().replace(microsecond=0)
    system, run = _parked(stage, Reach(max_fraction=0.1), slot)
    # Else the next run would take its commands over, and wait for the same reason.
    system.plans.cancel(run.run_id, "bestbefore gate", system.person, stage.clock.now())
    evidence.note("a person cancelled it; the next slot is planned under the other cap")
    most = Reach(max_deletes=selected - 1)
    system, run = _parked(stage, most, slot + timedelta(seconds=1))
    stage.fill(_MORE, start=_COMMANDS)
    evidence.note("more came that are old enough, after the plan", _MORE)
    system.plans.approve(run.run_id, system.person, stage.clock.now())
    evidence.note("a person approved the run")
    stage.work(system)
    evidence.expect("outcomes", stage.outcomes(system, run), {"deleted": _COMMANDS})
    evidence.expect("targets that are still there", stage.left(), _MORE)
    stage.reconciles(system, run)


def _parked(stage: Stage, reach: Reach, slot: datetime) -> tuple[System, Run]:
    """Plan *slot* under *reach*, which is too short, and have a worker come."""
    evidence = stage.evidence
    policy = stage.policy(reach=reach)
    system = stage.open()
    run = stage.plan(system, policy, slot, approved=False)
    evidence.expect("state of the run", run.state.value, RunState.PARKED.value)
    evidence.note("why it waits", run.reason)
    evidence.expect("commands it planned", run.planned, _COMMANDS)
    report = stage.work(system)
    evidence.expect("commands that a worker received", report.received, 0)
    evidence.expect("targets that are still there", stage.left(), _COMMANDS)
    stage.reconciles(system, run)
    return system, run


@scenario(
    "dry-run",
    "P8",
    "A dry run says what would go, writes nothing and deletes nothing",
    Ground.EITHER,
)
def dry_run(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_COMMANDS)
    policy = stage.policy()
    faults = Faults()
    system = stage.open(stores=faults.store, tables=faults.tables)
    before = _contents(stage)
    slot = stage.clock.now().replace(microsecond=0)
    with system.scratch() as scratch:
        drawn = system.planner(policy).preview(policy, slot, scratch.plans, Trigger.PLAN)
    evidence.expect("commands that it would plan", drawn.planned, _COMMANDS)
    evidence.expect("runs in the ledger", len(system.records.runs()), 0)
    evidence.expect("commands in the ledger", len(stage.operations(system)), 0)
    evidence.expect("deletes that were sent", faults.tried.total(), 0)
    same = _contents(stage) == before
    evidence.expect("all that is there is as it was", same, True)
    run = stage.plan(system, policy, slot)
    evidence.expect("commands of the real plan of that slot", run.planned, drawn.planned)


@scenario(
    "superseded",
    "P7",
    "Commands of a policy version that is no longer current delete nothing",
    Ground.EITHER,
)
def superseded(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_COMMANDS)
    policy = stage.policy()
    old = stage.open()
    first = stage.plan(old, policy)
    evidence.expect("commands planned under v1", first.planned, _COMMANDS)

    longer = replace(policy, version="v2", older_than=_MONTH)
    stage.adopt(longer)
    second = stage.plan(stage.open(), longer)
    evidence.note("then v2 was planned, which keeps for 30 days; commands of it", second.planned)
    stage.work(old)
    evidence.note("a worker came that has been running since v1")
    wanted = {"superseded": _COMMANDS}
    evidence.expect("outcomes of v1", stage.outcomes(old, first), wanted)
    evidence.expect("targets that are still there", stage.left(), _COMMANDS)
    stage.reconciles(old, first)

    policy = stage.policy("v3")
    system = stage.open()
    third = stage.plan(system, policy)
    evidence.note("then v3 was planned, which keeps as long as v1 did")
    stage.work(system)
    evidence.expect("outcomes of v3", stage.outcomes(system, third), {"deleted": _COMMANDS})
    evidence.expect("targets that are still there", stage.left(), 0)
    by = Counter(one.policy_version for one in stage.operations(system) if one.outcome == "deleted")
    evidence.expect("versions that effects are recorded under", dict(by), {"v3": _COMMANDS})
    stage.reconciles(system, third)


@scenario(
    "reconcile",
    "P11",
    "A run's counts reconcile at any moment, and each effect has who, when, why and which rule",
    Ground.EITHER,
)
def reconcile(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_COMMANDS)
    policy = stage.policy()
    faults = Faults()
    system = stage.open(stores=faults.store, tables=faults.tables)
    run = stage.plan(system, policy)
    evidence.note("after the plan")
    stage.reconciles(system, run)
    failure = Failure(FailureClass.MALFORMED, "bestbefore gate: made to fail")
    doomed = [target_of(one) for one in stage.operations(system, run)[:_DEAD]]
    faults.failing = dict.fromkeys(doomed, failure)
    evidence.note("commands made to fail for good", _DEAD)
    moments: list[bool] = []

    def look(_: Report) -> bool:
        now = system.records.run(run.run_id)
        moments.append(sum(_counts(now).values()) == now.planned == _COMMANDS)
        return not moments[-1]

    stage.work(system, until=look)
    evidence.note("moments of the work at which the counts were read", len(moments))
    evidence.expect("moments at which they did not reconcile", moments.count(False), 0)
    evidence.note("with dead letters")
    _agree(stage, system, run)
    faults.failing.clear()
    sent = redrive(
        system.dead_letters, system.strays, DeadFilter(), system.clock, system.person
    ).redriven
    evidence.note("dead letters sent again", sent)
    _agree(stage, system, run)
    stage.work(system)
    evidence.note("after the end")
    _agree(stage, system, run)
    ended = stage.operations(system, run)
    evidence.expect("effects on record", stage.outcomes(system, run), {"deleted": _COMMANDS})
    evidence.expect("effects in the place itself", _COMMANDS - stage.left(), _COMMANDS)
    said = [bool(one.completed_by and one.completed_at and one.run_id) for one in ended]
    evidence.expect("effects with who, when and which run", said.count(True), _COMMANDS)
    versions = {f"{one.policy} {one.policy_version}" for one in ended}
    evidence.expect("policy version", sorted(versions), [f"{policy.name} {policy.version}"])
    rule = system.records.rule(run)["older_than"]
    evidence.expect("why: older_than, as the ledger keeps it", rule, str(policy.older_than))


def _counts(run: Run) -> Mapping[str, int]:
    return {
        "waiting": run.waiting,
        "pending": run.pending,
        "completed": run.completed,
        "dead": run.dead,
    }


def _agree(stage: Stage, system: System, run: Run) -> None:
    """The counts of *run* reconcile, and are those of its commands one by one."""
    stage.reconciles(system, run)
    each = Counter(one.state.value for one in stage.operations(system, run))
    counted = {state: n for state, n in _counts(system.records.run(run.run_id)).items() if n}
    stage.evidence.expect("commands counted one by one, by state", dict(each), counted)


def _contents(stage: Stage) -> object:
    if isinstance(stage.ground, ObjectGround):
        return stage.ground.listed(), stage.ground.due()
    return stage.ground.table.rows()
