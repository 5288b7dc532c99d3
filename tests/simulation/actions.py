"""Everything that may happen in a world. Each action draws what it needs from a number of its own,
so that leaving one out changes nothing about the others.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from bestbefore.app.discarding import discarded
from bestbefore.app.holding import hold
from bestbefore.app.system import System
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.hold import Scope
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import DeadFilter
from bestbefore.stages.redrive import correct, redrive
from bestbefore.stages.work import Options
from simulation.kernel import Process
from simulation.policies import AGES, KEYS
from simulation.world import LEASE, World
from support.machines import CANCELLABLE

Action = Callable[[World, Random], object]

_MOST_ALIVE = 4
_SICKNESSES = [
    FailureClass.PERMISSION,
    FailureClass.MALFORMED,
    FailureClass.UNKNOWN,
    FailureClass.TRANSIENT,
    FailureClass.THROTTLED,
]

# -- processes -------------------------------------------------------------------------------


def plan(world: World, draw: Random) -> None:
    name = _some_policy(world, draw)
    trigger = draw.choice([Trigger.PLAN, Trigger.HTTP])
    approved = draw.random() < 0.3

    def body(system: System, process: Process) -> None:
        of = system.policy(name)
        slot = world.slot(system, of, trigger)
        planner = system.planner(of, stopping=lambda: process.stopped)
        planner.plan(of, slot, trigger, approved=approved)

    _begin(world, draw, "plan", body)


def work(world: World, draw: Random) -> None:
    _begin(world, draw, "worker", lambda system, process: world.worker(system, process).run())


def run(world: World, draw: Random) -> None:
    name, approved = _some_policy(world, draw), draw.random() < 0.3

    def body(system: System, process: Process) -> None:
        of = system.policy(name)
        system.run(
            of,
            world.slot(system, of, Trigger.RUN),
            Options(LEASE, 2, drain=True),
            approved=approved,
            on_page=lambda _: None,
            on_progress=lambda _: None,
            stopping=lambda: process.stopped,
        )

    _begin(world, draw, "run", body)


def tick(world: World, draw: Random) -> None:
    _begin(
        world, draw, "ticker", lambda system, process: system.ticker(lambda: process.stopped).run()
    )


def go_on(world: World, draw: Random) -> None:
    """One process gets a turn; if it sleeps, time passes until it wakes."""
    if living := world.kernel.living:
        process = draw.choice(living)
        if process.wakes_at is not None:
            world.kernel.now = max(world.kernel.now, process.wakes_at)
        world.kernel.go_on(process, draw.choice([1, 2, 3, 5, 8, 13, 30, 80]))


def pass_time(world: World, draw: Random) -> None:
    """Everybody but those that are frozen does what there is to do meanwhile."""
    seconds = draw.choice([1, 5, 31, 61, 301, 901, 3_700, 7_300, 90_000])
    frozen = {process for process in world.kernel.living if draw.random() < 0.25}
    parts = draw.choice([1, 2, 4])
    for _ in range(parts):
        world.kernel.now += timedelta(seconds=seconds / parts)
        for process in list(world.kernel.living):
            if process not in frozen:
                world.kernel.go_on(process, draw.choice([10, 60]))


def kill(world: World, draw: Random) -> None:
    if living := world.kernel.living:
        world.kernel.kill(draw.choice(living))


def stop(world: World, draw: Random) -> None:
    if living := world.kernel.living:
        draw.choice(living).stopped = True


# -- the data lives its own life -------------------------------------------------------------


def write(world: World, draw: Random) -> None:
    world.put(draw.choice(KEYS), draw.choice(AGES))


def overwrite(world: World, draw: Random) -> None:
    if world.bucket.objects:
        world.put(draw.choice(sorted(world.bucket.objects)), draw.choice(AGES))


def upload_the_same_again(world: World, draw: Random) -> None:
    if world.bucket.objects:
        item = world.bucket.objects[draw.choice(sorted(world.bucket.objects))]
        world.bucket.put(item._replace(last_modified=world.now().replace(microsecond=0)))


def delete_behind_our_back(world: World, draw: Random) -> None:
    if world.bucket.objects:
        world.bucket.remove(draw.choice(sorted(world.bucket.objects)))


def restore(world: World, draw: Random) -> None:
    """An object comes back exactly as it was."""
    if world.bucket.removed:
        world.bucket.put(draw.choice(world.bucket.removed))


def write_rows(world: World, draw: Random) -> None:
    for _ in range(draw.randint(1, 3) if world.about_rows else 0):
        world.table.rows[draw.randint(0, 9)] = world.now() - draw.choice(AGES)


# -- what fails ------------------------------------------------------------------------------


def fail(world: World, draw: Random) -> None:
    faults = world.faults
    faults.call, faults.answer = draw.choice([(0.4, 0.0), (0.0, 0.5), (0.3, 0.3)])
    faults.ledger = draw.choice([0.0, 0.0, 0.02])


def lose_the_credentials(world: World, draw: Random) -> None:
    world.faults.credentials = True


def sicken(world: World, draw: Random) -> None:
    of = draw.choice(_SICKNESSES)
    world.bucket.sick |= dict.fromkeys(draw.sample(KEYS, draw.randint(1, 4)), of)
    if world.about_rows:
        world.table.sick |= set(draw.sample(range(10), 3))


def poison(world: World, draw: Random) -> None:
    """Something ends whoever tries to delete it."""
    world.bucket.deadly.add(draw.choice(KEYS))
    if world.about_rows:
        world.table.deadly.add(draw.randrange(10))


def heal(world: World, draw: Random) -> None:
    world.faults.call = world.faults.answer = world.faults.ledger = 0.0
    world.faults.credentials = False
    for of in (world.bucket, world.table):
        of.sick.clear()
        of.deadly.clear()


def disturb_the_broker(world: World, draw: Random) -> None:
    if (broker := world.broker) is not None:
        broker.duplicate = draw.choice([0, 1, 2])
        lost = draw.choice([0.0, 0.3])
        broker.lose = lambda _: world.faults.strike(lost)
        what = draw.randrange(4)
        if what == 0:
            broker.purge()
        elif what == 1:
            broker.put(b"it was meant for somebody else")
        elif what == 2 and world.sent:
            broker.put(draw.choice(world.sent))


# -- people ----------------------------------------------------------------------------------


def pause(world: World, draw: Random) -> None:
    name = draw.choice([None, _some_policy(world, draw)])
    _decide(world, draw, "pause", lambda system, process: system.schedule.pause(
        name, "audit", None, process.name))  # fmt: skip


def resume(world: World, draw: Random) -> None:
    name = draw.choice([None, _some_policy(world, draw)])
    _decide(world, draw, "resume", lambda system, process: system.schedule.resume(
        name, process.name))  # fmt: skip


def add_hold(world: World, draw: Random) -> None:
    scope = draw.choice(_scopes(world))
    _decide(world, draw, "hold", lambda system, _: hold(system, scope, "audit", None, "auditor"))


def remove_hold(world: World, draw: Random) -> None:
    def body(system: System, process: Process) -> None:
        for one in system.holds.in_force(system.clock.now())[:1]:
            system.holds.remove(one.hold_id, process.name, system.clock.now())

    _decide(world, draw, "unhold", body)


def approve(world: World, draw: Random) -> None:
    def body(system: System, process: Process) -> None:
        parked = [one for one in system.records.runs() if one.state is RunState.PARKED]
        if parked:
            chosen = parked[number % len(parked)]
            system.plans.approve(chosen.run_id, process.name, system.clock.now())

    number = draw.randrange(100)
    _decide(world, draw, "approve", body)


def cancel(world: World, draw: Random) -> None:
    def body(system: System, process: Process) -> None:
        found = [one for one in system.records.runs() if one.state in CANCELLABLE]
        if found:
            chosen = found[number % len(found)]
            system.plans.cancel(chosen.run_id, "not today", process.name, system.clock.now())

    number = draw.randrange(100)
    _decide(world, draw, "cancel", body)


def redrive_all(world: World, draw: Random) -> None:
    canary, rate = draw.choice([None, 1]), draw.choice([None, 0.5])

    def body(system: System, process: Process) -> None:
        redrive(
            system.dead_letters, system.strays, DeadFilter(), system.clock, process.name,
            rate=rate, canary=canary,
        )  # fmt: skip

    _decide(world, draw, "redrive", body)


def discard(world: World, draw: Random) -> None:
    limit = draw.choice([None, 1])
    _decide(world, draw, "discard", lambda system, process: discarded(
        system, DeadFilter(), "known", process.name, limit=limit))  # fmt: skip


def correct_one(world: World, draw: Random) -> None:
    """As `dlq redrive --id X --set key=KEY`."""
    key = draw.choice(KEYS)

    def body(system: System, process: Process) -> None:
        letters = system.dead_letters.dead(DeadFilter(policy="exports"), 1)
        of = system.policy("exports")
        if letters and letters[0].policy_version == of.version:
            correct(
                system.dead_letters, letters[0], key, of,
                lambda: system.store(of.connection).lister, system.clock, process.name,
            )  # fmt: skip

    _decide(world, draw, "correct", body)


def write_a_new_policy_version(world: World, draw: Random) -> None:
    """In the file; running processes have the old one."""
    name = _some_policy(world, draw)
    of = world.policies[name]
    world.policies[name] = replace(of, version=f"v{int(of.version[1:]) + 1}")


# -- how they are drawn ----------------------------------------------------------------------

WEIGHTS: dict[Action, int] = {
    plan: 10,
    work: 20,
    run: 3,
    tick: 2,
    go_on: 16,
    pass_time: 12,
    kill: 12,
    stop: 1,
    write: 5,
    overwrite: 6,
    upload_the_same_again: 2,
    delete_behind_our_back: 2,
    restore: 3,
    write_rows: 3,
    fail: 4,
    lose_the_credentials: 1,
    sicken: 5,
    poison: 2,
    heal: 2,
    disturb_the_broker: 4,
    pause: 2,
    resume: 2,
    add_hold: 2,
    remove_hold: 1,
    approve: 3,
    cancel: 4,
    redrive_all: 4,
    discard: 2,
    correct_one: 3,
    write_a_new_policy_version: 4,
}
ALWAYS = (plan, work, go_on)
NAMED: dict[str, Action] = {action.__name__: action for action in WEIGHTS}


def _begin(
    world: World, draw: Random, kind: str, body: Callable[[System, Process], object]
) -> None:
    """Start a process, and let it go some of its way."""
    if len(world.kernel.living) < _MOST_ALIVE:
        process = world.start(kind, body)
        world.kernel.go_on(process, draw.choice([1, 5, 13, 30, 60, 200, 200]))


def _decide(
    world: World, draw: Random, kind: str, body: Callable[[System, Process], object]
) -> None:
    """Somebody types a command, most of the time while nothing else moves."""
    world.kernel.go_on(world.start(kind, body), draw.choice([1, 2, 100, 100, 100]))


def _some_policy(world: World, draw: Random) -> str:
    return draw.choice(sorted(world.policies))


def _scopes(world: World) -> list[Scope]:
    places = [Scope(store="s", place="", bucket="bucket", prefix=p) for p in _PREFIXES]
    return [Scope(policy=name) for name in sorted(world.policies)] + places


_PREFIXES = ["exports/", "exports/2026-01/", "exports/2026-02/a"]
