"""P12: what applications write and read meanwhile succeeds, whatever cleanup does or suffers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from bestbefore.app.system import System
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.policy import Policy
from bestbefore.gate.faults import Faults
from bestbefore.gate.grounds import PREFIX
from bestbefore.gate.probe import Phase, Probe
from bestbefore.gate.scenario import Broken, Ground, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.scratch import ScratchRow
from bestbefore.stages.work import Options

_SECONDS = 3.0
_CLEANUP_SECONDS = 4.0
"""Longer, as a part of it goes to filling again."""

_OBJECTS = 100
_ROWS = 1_000
_FIRST_NEW_ROW = 1_000_000
_RIPE = timedelta(seconds=3)
"""For a clock so far ahead, what was just put is old enough to go."""

_NEXT_SLOT = timedelta(seconds=1)

_FEWER_AT_A_TIME = "have fewer workers, or a lower `--concurrency`"
_BODY = b"new"
_FAILURE = Failure(FailureClass.TRANSIENT, "made to fail by the gate")


@scenario(
    "foreground-objects",
    "P12",
    "Objects of the new generation are put and read as ever while cleanup runs and while it fails",
    Ground.OBJECTS,
)
def foreground_objects(stage: Stage) -> None:
    ground = stage.objects
    name = "live/gen-2/{:06}.json".format

    def deliver(number: int) -> None:
        (key,) = ground.put([name(number)], _BODY)
        if ground.files.get(ground.bucket, key) != _BODY:
            raise Broken(f"{key}: expected what was put there")

    def fill(part: int) -> None:
        ground.ready(f"live/gen-1/{part}-{number:04}.json" for number in range(_OBJECTS))

    def left() -> int:
        return len(ground.due("live/gen-1/"))

    newest = f"{PREFIX}live/(?P<generation>gen-[0-9]+)/"
    policy = stage.policy(generation=newest, keep_generations=1)
    _probed(stage, policy, _Traffic("objects", _FEWER_AT_A_TIME, deliver, fill, left))


@scenario(
    "foreground-rows",
    "P12",
    "New rows are inserted and read as ever while cleanup runs and while it fails",
    Ground.ROWS,
)
def foreground_rows(stage: Stage) -> None:
    table = stage.rows.table

    def deliver(number: int) -> None:
        now = stage.clock.now().replace(microsecond=0)
        row = ScratchRow(_FIRST_NEW_ROW + number, now, "new")
        table.insert([row])
        if table.row(row.id) != row:
            raise Broken(f"row {row.id}: expected what was inserted")

    def fill(part: int) -> None:
        stage.rows.fill(_ROWS, start=part * _ROWS)

    def left() -> int:
        return sum(row.note == "old" for row in table.rows())

    rest = f"databases.{stage.rows.name}: set `pause`, which lets others in between two batches"
    _probed(stage, stage.policy(), _Traffic("rows", rest, deliver, fill, left))


@dataclass(frozen=True, slots=True)
class _Traffic:
    """What is delivered beside cleanup. ``fill`` adds the old things of that part, ``left`` counts
    those of all parts, which are called ``things``. ``remedy`` is for where it is too slow."""

    things: str
    remedy: str
    deliver: Callable[[int], None]
    fill: Callable[[int], None]
    left: Callable[[], int]


def _probed(stage: Stage, policy: Policy, traffic: _Traffic) -> None:
    """Deliver while nothing is cleaned up, while all that is old is, and while no more can be.

    Success decides. To be slower is a failure only by much, and only where it is so again: a
    machine has its hiccups.
    """
    stage.clock.jump(_RIPE)
    faults = Faults(others=_FAILURE)
    with Probe(traffic.deliver) as probe:
        trial = _Trial(
            stage, policy, traffic, probe, stage.open(),
            stage.open(stores=faults.store, tables=faults.tables), count(1),
        )  # fmt: skip
        slower = trial.slower()
        if slower is not None:
            stage.evidence.note("measured again, as", slower)
            stage.work(trial.system)
            slower = trial.slower()
    if slower is not None:
        raise Broken(f"{slower}; {traffic.remedy}")


@dataclass(frozen=True, slots=True)
class _Trial:
    """Cleanup by ``system`` and by one that is ``failing``, of ``parts`` that are filled one by
    one, and a probe of what it does."""

    stage: Stage
    policy: Policy
    traffic: _Traffic
    probe: Probe
    system: System
    failing: System
    parts: Iterator[int]

    def slower(self) -> str | None:
        """Why deliveries are too slow beside cleanup, or None."""
        evidence, old = self.stage.evidence, f"old {self.traffic.things}"
        self._fill()
        evidence.note(f"{old} before", self.traffic.left())
        with self.probe.phase(_SECONDS) as before:
            pass
        during = self._during()
        evidence.expect(f"{old} left by cleanup", self.traffic.left(), 0)
        self._fill()
        there = self.traffic.left()
        with self.probe.phase(_SECONDS) as failing:
            run = self.stage.plan(self.system, self.policy)
            tried = self._fail()
        evidence.claim("attempts that were made to fail", tried, holds=tried > 0, expected="some")
        evidence.expect(f"{old} left by cleanup that fails", self.traffic.left(), there)
        self.stage.reconciles(self.system, run)
        phases = {"before": before, "while it ran": during, "while it failed": failing}
        for when, phase in phases.items():
            self._judge(when, phase)
        slow = [when for when, phase in phases.items() if phase.slower_than(before)]
        if not slow:
            return None
        return f"p99 {' and '.join(slow)} is above 1.2 times that before, and 100 ms more"

    def _fill(self) -> None:
        self.traffic.fill(next(self.parts))
        self.stage.clock.jump(_NEXT_SLOT)

    def _during(self) -> Phase:
        """Clean up, fill again, and so on for a while. Only what is delivered while a plan is made
        or worked on counts."""
        phase, took, runs = Phase(), 0.0, 0
        over = time.monotonic() + _CLEANUP_SECONDS
        while True:
            began = time.monotonic()
            with self.probe.within(phase):
                self.stage.plan(self.system, self.policy)
                self.stage.work(self.system)
            took, runs = took + time.monotonic() - began, runs + 1
            if time.monotonic() >= over:
                break
            self._fill()
        self.stage.evidence.note("runs planned and worked on, one after the other", runs)
        self.stage.evidence.note("seconds that they took, without those to fill", round(took, 1))
        return phase

    def _fail(self) -> int:
        """Work for a while on what cannot be done. Returns how many attempts failed."""
        until = time.monotonic() + _SECONDS
        options = Options(self.stage.setup.lease, concurrency=4, drain=True)
        report = self.failing.working.worker(options, lambda: time.monotonic() >= until).run()
        return sum(report.retried.values())

    def _judge(self, when: str, phase: Phase) -> None:
        evidence = self.stage.evidence
        evidence.claim(f"deliveries {when}", phase.tried, holds=phase.tried > 0, expected="some")
        evidence.expect(f"deliveries that failed {when}", phase.failed, [])
        times = {"p50": phase.quantile(0.5), "p99": phase.quantile(0.99)}
        evidence.note(f"ms {when}", {name: round(1_000 * took) for name, took in times.items()})
