"""Triggers and the slots that they answer: one run each (P5), and none goes by unnoticed (P6)."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Barrier

from bestbefore.app.system import System
from bestbefore.app.triggers import Job, NotBegun, Paused, Triggers
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Trigger
from bestbefore.domain.versions import Versions
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.slow import Slow
from bestbefore.gate.stage import POLICY, Stage
from bestbefore.read.documents import Document, when
from bestbefore.stages.plan import Planned
from bestbefore.stages.work import Options

_COMMANDS = 20
_EVERY_MINUTE = "* * * * *"
_MINUTE = timedelta(minutes=1)
_SCHEDULERS = 4
_ROWS_OF_A_COMMAND = 10
_ALONE = Options(concurrency=1, drain=True)
_ANSWER_SECONDS = 1.0
_LOOK_SECONDS = 0.02
_LONGEST_SECONDS = 30.0


def _scheduled(stage: Stage) -> Policy:
    policy = replace(stage.policy(), schedule=_EVERY_MINUTE)
    stage.adopt(policy)
    return policy


def _next_slot(stage: Stage) -> datetime:
    """Have the next slot just have come: so far from its neighbours that clocks do not matter."""
    now = stage.clock.now()
    slot = now.replace(second=0, microsecond=0) + _MINUTE
    stage.clock.jump(slot + timedelta(seconds=1) - now)
    return slot


@scenario(
    "trigger-twice",
    "P5",
    "A slot that is triggered twice, at once or later, by anybody, has one run",
    Ground.EITHER,
)
def trigger_twice(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = _scheduled(stage)
    slot = _next_slot(stage)
    systems = [stage.open() for _ in range(_SCHEDULERS)]
    together = Barrier(_SCHEDULERS)

    def trigger(system: System) -> Planned:
        together.wait()
        return _triggered(system, policy)

    with ThreadPoolExecutor(_SCHEDULERS, "trigger") as pool:
        planned = list(pool.map(trigger, systems))
    stage.evidence.note("triggers at the same time, of processes of their own", _SCHEDULERS)
    run = planned[0].run
    stage.evidence.expect("runs they led to", len({one.run.run_id for one in planned}), 1)
    stage.evidence.expect("triggers told that the slot has its run already",
                          sum(one.repeated for one in planned), _SCHEDULERS - 1)  # fmt: skip
    stage.evidence.expect(
        "slot, of the schedule and not of the trigger", when(run.slot), when(slot)
    )
    stage.clock.jump(timedelta(seconds=7))
    later = _triggered(systems[0], policy)
    stage.evidence.expect("run of a trigger 7 s later", later.run.run_id, run.run_id)
    stage.evidence.expect("told that the slot has its run already", later.repeated, True)
    stage.evidence.expect("commands planned", later.run.planned, _COMMANDS)
    report = stage.work(systems[0])
    stage.evidence.expect("commands that were worked on", report.completed, _COMMANDS)
    stage.evidence.expect("commands left of the old ones", stage.left(), 0)
    again = _triggered(systems[-1], policy)
    stage.evidence.expect("run of a trigger once all is done", again.run.run_id, run.run_id)
    report = stage.work(systems[-1])
    stage.evidence.expect("commands that were worked on after it", report.completed, 0)
    stage.evidence.expect("commands in the ledger", len(stage.operations(systems[0])), _COMMANDS)
    stage.reconciles(systems[0], run)


def _triggered(system: System, policy: Policy) -> Planned:
    slot = system.slot(policy, None, Trigger.HTTP)
    return system.planner(policy).plan(policy, slot, Trigger.HTTP, approved=True)


@scenario(
    "missed-trigger",
    "P6",
    "A slot that goes by under a pause is listed as missed, and the next run takes its work",
    Ground.EITHER,
)
def missed_trigger(stage: Stage) -> None:
    policy = _scheduled(stage)
    system = stage.open()
    schedule = system.schedule
    schedule.pause(POLICY, "tried out by the gate", None, system.person)
    stage.evidence.note("the policy was paused")
    stage.fill(_COMMANDS)
    stage.evidence.note("commands' worth that fell due under the pause", _COMMANDS)
    missed = _next_slot(stage)
    stage.evidence.note("a slot went by", when(missed))
    system.ticker(lambda: False).tick()
    try:
        Triggers(system, system, _ALONE, lambda: False, work=False).begin(POLICY, None, "gate")
    except Paused as why:
        stage.evidence.note("its trigger was told", str(why))
    stage.evidence.expect("runs that answer it", len(system.records.runs(POLICY, 10)), 0)
    schedule.resume(POLICY, system.person)
    listed = {slot.slot: slot for slot in schedule.slots.missed([POLICY], missed, 10)}
    stage.evidence.expect("listed as missed once resumed", missed in listed, True)
    stage.evidence.expect("why", listed[missed].reason, "paused: tried out by the gate")
    slot = _next_slot(stage)
    run = _triggered(system, policy).run
    stage.evidence.expect("slot of the next trigger", when(run.slot), when(slot))
    stage.evidence.expect("commands that its run selects", run.planned, _COMMANDS)
    stage.work(system)
    stage.evidence.expect("commands left of the old ones", stage.left(), 0)
    (made_up,) = (s for s in schedule.slots.missed([POLICY], missed, 10) if s.slot == missed)
    stage.evidence.expect("run that made up for the missed slot", made_up.made_up_by, run.run_id)
    stage.reconciles(system, run)


@scenario(
    "planner-budget",
    "P8",
    "A trigger is answered within a second; what is not planned by then is planned on behind it",
    Ground.EITHER,
)
def planner_budget(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    slow, asked = Slow(), stage.open()
    planning = stage.open(stores=slow.store, tables=slow.tables)
    triggers = Triggers(asked, planning, _ALONE, slow.going.is_set, work=False)
    stage.evidence.note("the source was made to tell little at a time")
    began = time.monotonic()
    (job,) = triggers.begin(POLICY, None, "bestbefore gate")
    try:
        told = _told(triggers, job)
        seconds = round(time.monotonic() - began, 2)
        stage.evidence.claim(
            "seconds until the trigger was answered", seconds, holds=seconds < _ANSWER_SECONDS,
            expected=f"less than {_ANSWER_SECONDS:g}",
        )  # fmt: skip
        stage.evidence.expect("all planned by then", told["complete"], False)
    finally:
        slow.going.set()  # and with it that process is told to end
        triggers.close(_LONGEST_SECONDS)
    begun = asked.records.run(job.run_id)
    things = "rows" if begun.about_rows else "objects"
    stage.evidence.claim(
        f"{things} looked at when that process ended", begun.scanned,
        holds=begun.scanned > 0 and not begun.complete, expected="some, not all",
    )  # fmt: skip
    stage.work(asked)
    run = asked.records.run(job.run_id)
    stage.evidence.note("another process went on")
    stage.evidence.expect("all planned", run.complete, True)
    stage.evidence.expect("commands planned", run.planned, _COMMANDS)
    looked_at = _COMMANDS * _looked_at(policy)
    stage.evidence.expect(f"{things} looked at, none twice", run.scanned, looked_at)
    stage.evidence.expect("commands left of the old ones", stage.left(), 0)
    stage.reconciles(asked, run)


def _looked_at(policy: Policy) -> int:
    """How many things a plan looks at for each command."""
    if policy.about_rows:
        return _ROWS_OF_A_COMMAND
    # What is no longer current is under what is, and both are listed.
    return 2 if policy.versions is Versions.NONCURRENT else 1


def _told(triggers: Triggers, job: Job) -> Document:
    """The first that can be said, as over HTTP."""
    until = time.monotonic() + _LONGEST_SECONDS
    while True:
        try:
            return triggers.answer(job)
        except NotBegun:
            if time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)


@scenario(
    "backlog-small",
    "P11",
    "A small backlog is deleted within its trigger's call, by the same work and on the same record",
    Ground.ROWS,
)
def backlog_small(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    system = stage.open()
    slot = system.slot(policy, None, Trigger.HTTP)
    planned, _ = system.answer(policy, slot, Trigger.HTTP, _ALONE, stopping=lambda: False)
    stage.evidence.expect("commands left of the old ones after the call", stage.left(), 0)
    run = system.records.run(planned.run.run_id)
    stage.evidence.expect("state of the run", run.state.value, "drained")
    stage.evidence.expect("final states", stage.outcomes(system, run), {"deleted": _COMMANDS})
    by = sorted({str(operation.completed_by) for operation in stage.operations(system, run)})
    stage.evidence.expect("who is on record for them", by, [system.worker_name])
    stage.reconciles(system, run)
