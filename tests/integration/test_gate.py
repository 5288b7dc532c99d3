"""What a worker's gate lets through: several of them on one state database, clocks that tests turn.

Each `Gate` is what one process has; nothing here sleeps.
"""

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.domain.failure import Budget, Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import Effect, RowSource
from bestbefore.domain.throttle import RAMP_BATCHES, Strain, Tempo
from bestbefore.ports.ledger import Operation
from bestbefore.stages.door import Bounds, Room
from bestbefore.stages.throttle import Gate
from bestbefore.stages.watch import Watch
from support.clock import NOW, ManualClock
from support.forks import until
from support.ledgers import new_ledger

LEASE = timedelta(seconds=60)
PACED = Tempo(rows_per_second=1_000)


def of_rows(
    name: str = "updates", database: str = "shop", timezone: str = "UTC", **source: Any
) -> Policy:
    rows = RowSource(database, "shipment_updates", "delivered_at", **source)
    return Policy(name, "v1", "ops", Age(0, 30 * 86_400), rows, timezone=timezone)


UPDATES = of_rows()
LARGE = of_rows(name="large", batch_size=100, target_duration=timedelta(seconds=1))
EXPORTS = replace(UPDATES, name="exports", source=ObjectSource("shop", "bucket", "exports/"))


def batch(rows: int = 100) -> Operation:
    return Operation(
        row=1, operation_id=b"", policy=1, run=1, key="", etag="", last_modified=NOW, size=rows,
        seen_at=NOW, deliveries=1, budget=Budget.fresh(), failed=False, token=1, cancelled=False,
    )  # fmt: skip


def effect(rows: int = 100, seconds: float = 1.0, **more: Any) -> Effect:
    """What a batch did: so slow that no thread gets two of them at once."""
    return Effect(Outcome.DELETED, rows, seconds=seconds, **more)


@pytest.fixture
def throttles(tmp_path: Path) -> Iterator[SqlThrottles]:
    database = Database(new_ledger(tmp_path / "state.db"))
    yield SqlThrottles(database)
    database.dispose()


class Process:
    """One worker's loop, as far as a gate sees it: as many batches as it is let, all of them due.

    ``out`` is how many are in hand, ``taken`` when each was.
    """

    def __init__(
        self, throttles: SqlThrottles, clock: ManualClock, name: str = "a", **bounds: Any
    ) -> None:
        self.clock = clock
        self.gate = Gate(throttles, {"shop": Bounds(**{"most": 4} | bounds)}, name, LEASE, 32)
        self.out = 0
        self.taken: list[datetime] = []

    def room(self, wanted: int = 32, policy: Policy = UPDATES) -> Room:
        return self.gate.room(policy, self.out, wanted, self.clock.now())

    def take(self, rows: int = 100, policy: Policy = UPDATES) -> int:
        """Take all there is room for."""
        batches = self.room(policy=policy).batches
        if batches:
            self.gate.took(policy, [batch(rows)] * batches, self.clock.now())
        self.out += batches
        self.taken += [self.clock.now()] * batches
        return batches

    def finish(
        self, n: int | None = None, rows: int = 100, result: object = None, policy: Policy = UPDATES
    ) -> None:
        """End *n* batches, or all."""
        for _ in range(self.out if n is None else n):
            results = [effect(rows) if result is None else result]
            self.gate.ended(policy, [batch(rows)], results, self.clock.now(), self.clock.now())
            self.out -= 1
        self.keep()

    def keep(self) -> None:
        self.gate.keep(Counter({"shop": self.out}), self.clock.now())

    def warm(self) -> "Process":
        """Go through the slow start."""
        for _ in range(100):
            self.take()
            self.finish()
            self.clock.step(timedelta(milliseconds=600))
        self.taken.clear()
        return self


def test_objects_and_databases_without_bounds_are_let_through(throttles: SqlThrottles) -> None:
    gate = Gate(throttles, {"shop": Bounds(1)}, "a", LEASE, 32)

    assert gate.room(EXPORTS, 99, 7, NOW) == Room(7, 7)
    assert gate.room(of_rows(database="other"), 99, 7, NOW) == Room(7, 7)


def test_work_starts_with_one_batch_and_doubles(throttles: SqlThrottles) -> None:
    process = Process(throttles, ManualClock(), most=8)
    at_a_time = []
    for _ in range(6 * RAMP_BATCHES):
        at_a_time.append(process.take())
        process.finish()

    assert at_a_time[0] == 1
    assert sorted(set(at_a_time)) == [1, 2, 4, 8]
    assert at_a_time == sorted(at_a_time)
    assert at_a_time.count(1) >= RAMP_BATCHES


def test_failures_do_not_speed_it_up(throttles: SqlThrottles) -> None:
    process = Process(throttles, ManualClock())
    for _ in range(5 * RAMP_BATCHES):
        assert process.take() == 1
        process.finish(result=Failure(FailureClass.TRANSIENT, "lock timeout"))


def test_work_starts_slowly_again_after_a_pause(throttles: SqlThrottles) -> None:
    process = Process(throttles, ManualClock()).warm()
    assert process.take() == 4
    process.finish()

    for _ in range(30):
        process.clock.step(timedelta(seconds=1))
        process.keep()

    assert process.take() == 1


def test_a_thread_gets_as_many_quick_batches_as_take_a_moment(throttles: SqlThrottles) -> None:
    process = Process(throttles, ManualClock(), most=1)
    assert process.room() == Room(1, 1)
    process.take()
    process.finish(result=effect(seconds=0.02))

    assert process.room() == Room(12, 1)
    process.take()
    process.out = 1
    process.finish(result=effect(seconds=5.0))
    assert process.room() == Room(1, 1), "and one alone again as soon as they are slow"


def test_batches_that_take_longer_than_their_locks_are_no_quick_ones(
    throttles: SqlThrottles,
) -> None:
    """A file is written before the rows go."""
    process = Process(throttles, ManualClock(), most=1)
    process.take()
    began, now = process.clock.now() - timedelta(seconds=2), process.clock.now()
    process.gate.ended(UPDATES, [batch()], [effect(seconds=0.001)], began, now)
    process.out = 0

    assert process.room() == Room(1, 1)


def test_a_thread_gets_no_more_quick_batches_than_the_rate_allows(throttles: SqlThrottles) -> None:
    tempo = Tempo(rows_per_second=20_000)
    process = Process(throttles, ManualClock(), most=1, tempo=tempo)
    process.take()
    process.finish(result=effect(seconds=0.002))
    process.clock.step(timedelta(seconds=0.055))

    assert process.room()[:2] == (10, 1), "what has added up in 50 ms"


def test_several_processes_have_no_more_at_a_time_than_one(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    processes = [Process(throttles, clock, name) for name in "abc"]
    together, chance = [], random.Random(1)
    for _ in range(500):
        process = chance.choice(processes)
        process.take()
        together.append(sum(other.out for other in processes))
        process.finish(chance.randint(0, process.out))
        clock.step(timedelta(milliseconds=150))

    assert max(together) == 4
    assert all(len(process.taken) > 40 for process in processes), "and each gets its share"


def test_a_process_that_is_killed_frees_its_slots_when_its_lease_runs_out(
    throttles: SqlThrottles,
) -> None:
    clock = ManualClock()
    killed = Process(throttles, clock, "killed").warm()
    assert killed.take() == 4
    other = Process(throttles, clock, "other")

    taken = []
    for _ in range(140):
        taken.append(other.take())
        clock.step(timedelta(seconds=0.5))

    assert sum(taken[:110]) == 0
    assert sum(taken) > 0


def test_slots_stay_held_through_a_batch_of_many_minutes(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    slow, other = Process(throttles, clock, "slow").warm(), Process(throttles, clock, "other")
    assert slow.take() == 4
    for _ in range(300):
        clock.step(timedelta(seconds=1))
        slow.keep()
        assert other.take() == 0


def test_a_process_that_was_stopped_for_longer_than_its_lease_takes_nothing_unasked(
    throttles: SqlThrottles,
) -> None:
    clock = ManualClock()
    asleep = Process(throttles, clock, "asleep").warm()
    asleep.take()
    asleep.finish(3)
    clock.step(LEASE)
    other = Process(throttles, clock, "other")
    assert other.take() == 1

    assert asleep.take() == 0


def test_what_is_not_needed_is_given_back_at_once(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    done, other = Process(throttles, clock, "done").warm(), Process(throttles, clock, "other")
    assert done.take() == 4
    assert other.take() == 0
    done.finish()
    clock.step(timedelta(seconds=1.1))
    done.keep()

    other.take()
    clock.step(timedelta(seconds=0.6))
    assert other.out + other.take() == 4


def test_a_worker_that_ends_leaves_nothing_behind(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    ended, other = Process(throttles, clock, "ended").warm(), Process(throttles, clock, "other")
    assert ended.take() == 4
    ended.finish(3)
    ended.gate.close(Counter({"shop": 1}), clock.now())

    for _ in range(5):
        other.take()
        clock.step(timedelta(seconds=0.6))
    assert other.out == 3, "but for the one that is still in hand"


def test_who_has_nothing_to_do_any_more_keeps_no_place_in_line(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    busy, other = (
        Process(throttles, clock, "busy", most=2).warm(),
        Process(throttles, clock, "other", most=2),
    )
    assert busy.take() == 2
    assert other.take() == 0
    for _ in range(6):
        clock.step(timedelta(seconds=0.6))
        other.keep()
        busy.finish()
        busy.take()

    assert busy.out == 2


def test_rows_go_at_their_rate_from_several_processes(throttles: SqlThrottles) -> None:
    """10 s at 1,000 rows a second are a hundred batches of 100, whoever takes them."""
    clock = ManualClock()
    processes = [Process(throttles, clock, name, tempo=PACED) for name in "abc"]
    chance = random.Random(1)
    while clock.now() < NOW + timedelta(seconds=10):
        for process in chance.sample(processes, 3):
            process.take()
            process.finish()
        clock.step(timedelta(milliseconds=7))

    taken = sorted(moment for process in processes for moment in process.taken)
    assert len(taken) == pytest.approx(100, abs=2)
    for moment in taken:
        in_a_second = [t for t in taken if moment <= t < moment + timedelta(seconds=1)]
        assert len(in_a_second) <= 12
    assert all(len(process.taken) > 10 for process in processes)


def test_a_pause_passes_between_the_batches_of_several_processes(throttles: SqlThrottles) -> None:
    clock, pause = ManualClock(), timedelta(milliseconds=20)
    processes = [Process(throttles, clock, name, tempo=Tempo(pause=pause)) for name in "ab"]
    stirred: list[datetime] = []
    for n in range(2_000):
        process = processes[n % 2]
        if process.take():
            assert all(clock.now() - moment >= pause for moment in stirred[-3:])
            stirred.append(clock.now())
        elif process.out:
            stirred.append(clock.now())
            process.finish(1)
        clock.step(timedelta(milliseconds=3))

    assert sum(len(process.taken) for process in processes) > 80


def test_the_first_batch_of_another_size_is_paid_for_as_it_is(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    process = Process(throttles, clock, tempo=PACED)
    assert process.take(rows=5_000, policy=LARGE) == 1
    process.finish(rows=5_000, policy=LARGE)
    process.gate.close(Counter(), clock.now())

    assert Process(throttles, clock, "b", tempo=PACED).room() == Room(0, 0, pytest.approx(5.0))


def test_rows_of_other_tables_count_whether_they_are_removed_or_changed(
    throttles: SqlThrottles,
) -> None:
    clock = ManualClock()
    process = Process(throttles, clock, tempo=PACED)
    process.take()
    process.finish(result=effect(100, dependents={"lines": 1_900}, changed={"notes": 1_000}))

    clock.step(timedelta(seconds=2.9))
    assert process.take() == 0
    clock.step(timedelta(seconds=0.11))
    assert process.take() == 1


def test_a_partition_that_goes_as_a_whole_counts_as_a_batch(throttles: SqlThrottles) -> None:
    process = Process(throttles, ManualClock(), tempo=PACED)
    assert process.take(rows=10_000_000) == 1
    process.finish(rows=10_000_000)
    process.clock.step(timedelta(seconds=0.1))

    assert process.take() == 1


@pytest.mark.parametrize("result", [effect(0), effect(100, replayed=True)])
def test_what_did_not_go_is_not_waited_for(throttles: SqlThrottles, result: Effect) -> None:
    process = Process(throttles, ManualClock(), tempo=Tempo(rows_per_second=1))
    assert process.take() == 1
    process.finish(result=result)
    process.clock.step(timedelta(seconds=6))

    assert process.take() == 1


def test_a_turn_that_found_nothing_due_is_not_paid_for(throttles: SqlThrottles) -> None:
    clock = ManualClock()
    idle = Process(throttles, clock, "idle", tempo=Tempo(rows_per_second=1))
    assert idle.room().batches == 1
    idle.gate.took(UPDATES, [], clock.now())
    idle.gate.close(Counter(), clock.now())

    clock.step(timedelta(seconds=0.1))
    assert Process(throttles, clock, "busy", tempo=Tempo(rows_per_second=1)).take() == 1


def test_what_has_nothing_due_is_asked_about_ever_more_rarely_until_there_is_news(
    throttles: SqlThrottles,
) -> None:
    process = Process(throttles, ManualClock())
    asked = []
    for n in range(100):
        if process.room().batches:
            asked.append(n / 10)
            process.gate.took(UPDATES, [], process.clock.now())
        process.keep()
        process.clock.step(timedelta(seconds=0.1))

    assert 4 <= len(asked) <= 9
    process.gate.news()
    process.clock.step(timedelta(seconds=0.5))
    assert process.room().batches == 1


def test_a_wait_that_takes_long_is_said_with_its_end(
    throttles: SqlThrottles, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process(throttles, ManualClock(), tempo=Tempo(rows_per_second=10))
    process.take(rows=10_000, policy=LARGE)
    process.finish(rows=10_000, policy=LARGE)
    process.clock.step(timedelta(seconds=1))
    process.take()

    (wait,) = throttles.waits(process.clock.now())
    assert wait.reason.startswith("rows_per_second: at 10 ")
    assert wait.until == NOW + timedelta(seconds=1_000)
    assert caplog.text.count("work on shop waits") == 1


# -- the hours of the day ----------------------------------------------------------------------


def test_a_window_is_of_the_policy_s_own_time_zone(throttles: SqlThrottles) -> None:
    gate = Gate(throttles, {"shop": Bounds(4, window=(time(1), time(5)))}, "a", LEASE, 32)
    night_in_tokyo = datetime(2026, 7, 1, 18, tzinfo=UTC)

    assert not gate.shut(of_rows(timezone="Asia/Tokyo"), night_in_tokyo)
    assert gate.shut(of_rows(timezone="America/New_York"), night_in_tokyo)
    assert gate.shut(of_rows(), night_in_tokyo)
    assert not gate.shut(of_rows(database="other"), night_in_tokyo)
    assert not gate.shut(EXPORTS, night_in_tokyo)


# -- the strain that a database is under -------------------------------------------------------


class Target:
    """A database that says how it is. ``strain`` may be an exception."""

    def __init__(self) -> None:
        self.strain: Strain | Exception | None = None
        self.asked = 0

    def __call__(self) -> Strain | None:
        self.asked += 1
        if isinstance(self.strain, Exception):
            raise self.strain
        return self.strain


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def watched(throttles: SqlThrottles, target: Target) -> Iterator[Process]:
    clock = ManualClock()
    process = Process(throttles, clock, watch=Watch(target, clock))
    yield process
    process.gate.close(Counter(), clock.now())


def answered(process: Process, target: Target) -> int:
    """How much is taken once the last answer has grown old and there is a new one."""
    watch = process.gate._doors["shop"].bounds.watch
    assert watch is not None
    if watch._asking is not None:
        watch._asking.exception(30)  # an answer of before is not to be stamped with a time of after
    process.clock.step(timedelta(seconds=6))
    before = target.asked
    until(lambda: process.room().wait != 0.02, what="an answer")
    assert target.asked > before
    return process.take()


def test_nothing_is_taken_before_the_database_has_answered(
    watched: Process, target: Target
) -> None:
    assert watched.room() == Room(0, 0, 0.02)
    assert answered(watched, target) == 1


def test_strain_holds_work_back_and_its_end_lets_it_go_on(
    watched: Process, target: Target, throttles: SqlThrottles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    target.strain = Strain("replica_lag", "a replica is 12.0 s behind, at most 10 s is allowed")
    for _ in range(3):
        assert answered(watched, target) == 0
        (wait,) = throttles.waits(watched.clock.now())
        assert wait.reason.startswith("replica_lag: a replica is 1")
        target.strain = target.strain._replace(found="a replica is 13.0 s behind")

    target.strain = None
    assert answered(watched, target) == 1

    assert throttles.waits(watched.clock.now()) == []
    said = [record.message.partition(":")[0] for record in caplog.records]
    assert said == ["work on shop waits", "work on shop goes on"], "once per change"


def test_a_question_that_cannot_be_asked_holds_work_back(
    watched: Process, target: Target, throttles: SqlThrottles
) -> None:
    target.strain = RuntimeError("no driver")

    assert answered(watched, target) == 0
    (wait,) = throttles.waits(watched.clock.now())
    assert wait.reason == "throttle: it cannot be asked: no driver"


def test_a_database_is_asked_about_once_a_second_and_not_at_all_while_there_is_no_work(
    watched: Process, target: Target
) -> None:
    answered(watched, target)
    watched.clock.step(timedelta(seconds=0.9))
    asked = target.asked
    for _ in range(50):
        watched.room()
    assert target.asked == asked

    watched.clock.step(timedelta(hours=1))
    for _ in range(50):
        watched.keep()
    assert target.asked == asked
    assert watched.room() == Room(0, 0, 0.02), "an hour old, an answer says nothing"


def test_an_answer_that_does_not_come_holds_work_back_and_is_said(
    throttles: SqlThrottles,
) -> None:
    clock, come = ManualClock(), threading.Event()

    def ask() -> None:
        come.wait(30)

    process = Process(throttles, clock, watch=Watch(ask, clock))
    assert process.take() == 0
    clock.step(timedelta(seconds=6))
    assert process.take() == 0
    (wait,) = throttles.waits(clock.now())
    assert wait.reason.startswith("throttle: it gives no answer")
    come.set()
    until(lambda: process.take(), what="a batch")
    process.gate.close(Counter(), clock.now())


def test_bounds_by_policy_do_not_mix(throttles: SqlThrottles) -> None:
    """Two policies of one database share what it gives, turn by turn."""
    process = Process(throttles, ManualClock()).warm()
    other = replace(UPDATES, name="other")

    assert process.take() == 4
    assert process.room(policy=other).batches == 0
    process.finish(2)
    assert process.room(policy=other).batches == 2
