"""A whole system whose commands a broker carries, and everything that a broker may do to them.

The broker is one in memory, as unreliable as a test asks for; what only a real one can do is tested
beside its adapter.
"""

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app import queue_checks
from bestbefore.app.push import push
from bestbefore.domain.command import ObjectCommand
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.message import read
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.probe import probe
from bestbefore.domain.run import RunState
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Completed
from bestbefore.ports.transport import Message
from bestbefore.stages.work import Options
from support.clock import ManualClock
from support.memory_transport import MemoryBroker
from support.worlds import World, policy

LEASE = timedelta(seconds=60)
HOUR = timedelta(hours=1)
Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path, state: str | None) -> Iterator[Make]:
    """A world over a memory broker, on either state database."""
    worlds: list[World] = []

    def made(*policies: Any, retention: timedelta | None = timedelta(days=4)) -> World:
        clock = ManualClock()
        broker = MemoryBroker(clock, retention)
        worlds.append(
            World(tmp_path, *(policies or [policy()]), clock=clock, broker=broker, state_url=state)
        )
        return worlds[-1]

    yield made
    for world in worlds:
        world.system.close()


def broker_of(world: World) -> MemoryBroker:
    assert world.broker is not None
    return world.broker


def send(world: World) -> None:
    """Dispatch once, as a process that does not work."""
    rounds = iter([False, True])
    world.system.working.send(lambda: next(rounds))


def sent(world: World) -> int:
    """How many operations a broker has, as far as the ledger knows."""
    return sum(operation.sent_at is not None for operation in world.operations())


def assert_all_done(world: World, keys: list[str]) -> None:
    """P3, P4, P11: each was deleted once, nothing is anywhere any more, and the counts agree."""
    assert sorted(world.store.deleted) == sorted(keys)
    assert {operation.state for operation in world.operations()} == {State.COMPLETED}
    assert broker_of(world).depth == 0
    world.assert_reconciled()


# -- what a broker may do ----------------------------------------------------------------------


def test_commands_go_through_the_broker_and_nothing_is_left_there(make: Make) -> None:
    world = make()
    keys = world.fill(2_500)
    run = world.plan()

    report = world.work()

    assert report.completed == 2_500
    assert len(broker_of(world).published) == 2_500
    assert world.run(run).state is RunState.DRAINED
    assert_all_done(world, keys)


def test_duplicates_in_any_order_are_executed_once(make: Make) -> None:
    world = make()
    broker_of(world).duplicate = 2
    broker_of(world).shuffle = random.Random(7)
    keys = world.fill(300)
    run = world.plan()

    world.work()

    assert world.outcomes(run) == {"deleted": 300}
    while broker_of(world).depth:  # the copies that came after the last of them had ended
        world.clock.step(LEASE)
        world.system.queue.receive(1, 1_000, world.clock.now(), LEASE)
    assert_all_done(world, keys)


def test_two_processes_share_the_work(make: Make) -> None:
    world = make()
    broker_of(world).duplicate = 1
    keys = world.fill(400)
    run = world.plan()
    with world.another() as other, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: each.work(), [world, other]))

    assert world.outcomes(run) == {"deleted": 400}
    assert sorted(world.store.deleted) == keys
    world.assert_reconciled()


def test_a_message_that_comes_again_while_it_is_worked_on_is_left_to_who_works(
    make: Make,
) -> None:
    """O-LEASE-01, O-LEASE-05: the broker's lease ended, that in the ledger was extended."""
    world = make()
    world.fill(1)
    run = world.plan()
    send(world)
    (version,) = world.system.work.versions()
    now = world.clock.now()
    (mine,) = world.system.queue.receive(version.row, 10, now, LEASE)
    world.system.embedded.extend([mine], now + HOUR)
    world.clock.step(2 * LEASE)

    with world.another() as other:
        assert other.system.queue.receive(version.row, 10, world.clock.now(), LEASE) == []
        assert broker_of(world).depth == 0, "the ledger has it"

    done = [Completed(mine, Outcome.DELETED)]
    assert world.system.work.record(done, "tester", world.clock.now()) == []
    world.system.queue.ack([mine])
    assert world.outcomes(run) == {"deleted": 1}
    world.assert_reconciled()


def test_a_lease_that_was_lost_mid_work_ends_in_one_result(make: Make) -> None:
    """O-LEASE-02"""
    world = make()
    keys = world.fill(1)
    run = world.plan()
    send(world)
    (version,) = world.system.work.versions()
    (late,) = world.system.queue.receive(version.row, 10, world.clock.now(), LEASE)
    world.clock.step(LEASE)
    with world.another() as other:
        other.work()

    done = [Completed(late, Outcome.CHANGED)]
    assert world.system.work.record(done, "tester", world.clock.now()) == [late]
    world.system.queue.ack([late])

    assert world.outcomes(run) == {"deleted": 1}
    assert_all_done(world, keys)


def test_what_waited_here_for_too_long_is_not_begun(make: Make) -> None:
    """O-LEASE-03: nobody starts on what the broker has given to somebody else by now."""
    world = make()
    world.fill(10)
    world.plan()
    send(world)
    world.system.queue.rest(1)  # type: ignore[attr-defined]  # ten messages are here now
    world.clock.step(LEASE)
    (version,) = world.system.work.versions()
    with world.another() as other:
        theirs = other.system.queue.receive(version.row, 10, world.clock.now(), LEASE)
        assert len(theirs) == 10

        assert world.system.queue.receive(version.row, 10, world.clock.now(), LEASE) == []

        other.system.queue.release(theirs, world.clock.now())
    world.work()
    assert {operation.state for operation in world.operations()} == {State.COMPLETED}
    assert world.dead() == []


def test_a_crash_between_mark_and_publish_only_delays(make: Make) -> None:
    """P4"""
    world = make()
    keys = world.fill(3)
    run = world.plan()
    (version,) = world.system.work.versions()
    span = world.system.work.waiting(version.row, 10)
    assert span is not None
    now = world.clock.now()
    world.system.outbox.mark(span, 10, now, now + LEASE)
    world.restart()

    world.work()

    assert world.system.records.tallies(run, "republished")[""].n == 3
    assert_all_done(world, keys)


def test_a_crash_between_publish_and_confirm_only_delays(make: Make) -> None:
    """P4"""
    world = make()
    keys = world.fill(3)
    world.plan()
    world.system.outbox.confirm = lambda *_: None  # type: ignore[method-assign]
    send(world)
    world.restart()
    assert broker_of(world).depth == 3

    world.work()

    assert_all_done(world, keys)


def test_a_publish_whose_answer_was_lost_is_executed_once(make: Make) -> None:
    world = make()
    keys = world.fill(3)
    run = world.plan()
    broker_of(world).confirming = False
    send(world)
    assert broker_of(world).depth == 3
    broker_of(world).confirming = True

    world.work()

    assert world.outcomes(run) == {"deleted": 3}
    assert_all_done(world, keys)


def test_messages_that_vanish_are_sent_again_once_later_ones_came(make: Make) -> None:
    world = make(retention=None)
    keys = world.fill(2)
    world.plan()
    send(world)
    broker_of(world).purge()
    world.clock.step(HOUR + LEASE)
    world.put("exports/later.json")
    world.plan()
    send(world)
    assert sent(world) == 3

    world.work()

    assert world.clock.now() - world.operation("exports/later.json").seen_at < HOUR
    assert_all_done(world, [*keys, "exports/later.json"])


def test_messages_that_vanish_are_sent_again_where_the_queue_stays_empty(make: Make) -> None:
    """Nothing else is ever published: a drain ends all the same."""
    world = make(retention=None)
    keys = world.fill(2)
    world.plan()
    send(world)
    broker_of(world).purge()
    world.clock.stride = timedelta(seconds=20)

    world.work()

    assert_all_done(world, keys)


def test_a_queue_that_lost_all_that_may_be_out_at_a_time_gets_it_back(make: Make) -> None:
    world = make(retention=timedelta(days=4))
    keys = world.fill(5)
    world.plan()
    send(world)
    broker_of(world).purge()
    world.clock.step(timedelta(days=4))
    carried, (version,) = world.system.carried, world.system.work.versions()
    assert carried is not None

    assert carried.resend([version.row], 5, world.clock.now()) == 5

    world.work()
    assert_all_done(world, keys)


def test_a_breaker_closes_although_the_queue_lost_what_was_sent_to_close_it(make: Make) -> None:
    """By short drains, as cron starts them: none of them sees that the queue stays empty. Found by
    simulation, seed 39330."""
    world = make(retention=None)
    keys = world.fill(5)
    world.plan()
    send(world)
    broker_of(world).purge()
    world.system.controls.trip("s", "expired", world.clock.now())
    world.clock.step(HOUR)
    world.clock.stride = timedelta(seconds=20)

    world.work()

    assert_all_done(world, keys)


def test_a_message_near_the_end_of_its_retention_is_sent_again(make: Make) -> None:
    world = make(retention=timedelta(days=4))
    keys = world.fill(2)
    run = world.plan()
    send(world)
    broker_of(world).purge()  # as it will be, after four days
    world.clock.step(timedelta(days=3))
    send(world)
    assert broker_of(world).depth == 0

    world.clock.step(timedelta(days=0.2))
    send(world)

    assert broker_of(world).depth == 2
    assert world.system.records.tallies(run, "republished")[""].n == 2
    world.work()
    assert_all_done(world, keys)


def test_an_ack_that_takes_along_what_was_just_published_only_delays(make: Make) -> None:
    """Where a broker takes an operation once: somebody publishes a retry before its old message is
    acked, and so nothing is there any more."""
    world = make(retention=None)
    broker = broker_of(world)
    broker.deduplicates = True
    keys = world.fill(1)
    failures = iter(range(1))
    at_once = Failure(FailureClass.THROTTLED, "slow down", timedelta(0))
    world.store.refuse = lambda key: None if next(failures, None) is None else at_once
    run = world.plan()
    with world.another() as other:
        acks = iter(range(1))
        broker.acking = lambda: None if next(acks, None) is None else send(other)
        world.clock.stride = timedelta(seconds=20)

        world.work()

    assert len(broker.published) == 3, "the second was none"
    assert world.clock.now() - world.run(run).slot < timedelta(minutes=17)
    assert_all_done(world, keys)


def test_what_is_given_back_is_not_taken_along_by_its_ack(make: Make) -> None:
    world = make(retention=None)
    broker = broker_of(world)
    broker.deduplicates = True
    keys = world.fill(3)
    world.plan()
    send(world)
    (version,) = world.system.work.versions()
    now = world.clock.now()
    claimed = world.system.queue.receive(version.row, 1, now, LEASE)
    with world.another() as other:
        broker.acking = lambda: send(other)
        world.system.queue.release(claimed, now)
        world.system.queue.rest(1)  # type: ignore[attr-defined]
        world.clock.step(LEASE / 2)
        world.system.queue.rest(0.1)  # type: ignore[attr-defined]
        broker.acking = lambda: None
    world.clock.step(timedelta(seconds=5))
    begun = world.clock.now()

    world.work()

    assert world.clock.now() - begun < timedelta(minutes=1)
    assert_all_done(world, keys)


# -- messages of others ------------------------------------------------------------------------


def test_messages_that_execute_nothing_are_kept_and_stop_nobody(make: Make) -> None:
    """O-MSG-01, O-MSG-03"""
    world = make()
    keys = world.fill(5)
    unknown = ObjectCommand(
        "exports", "v1", world.clock.now(), "delete", "bucket", "exports/other.json", "e",
        world.clock.now(),
    )  # fmt: skip
    foreign = [
        b"hello", b"", b'{"bucket": ', b"\xff\xfe", unknown.encode(),
        unknown.encode().replace(b"other", b"mine!"), unknown.encode().replace(b'"v":1', b'"v":99'),
        unknown.encode().replace(b'"exports"', b'"strangers"'),
    ]  # fmt: skip
    for body in foreign:
        broker_of(world).put(body)
    broker_of(world).put(probe("somebody's"))
    world.put("exports/mine!.json")
    world.plan()

    world.work()

    assert sorted(stray.body for stray in world.system.strays.found()) == sorted(foreign)
    assert_all_done(world, [*keys, "exports/mine!.json"])


def test_what_no_message_can_carry_is_one_dead_letter(make: Make) -> None:
    world = make()
    keys = world.fill(5)
    broker_of(world).max_body = 500
    world.put(f"exports/{'long' * 100}.json")
    world.plan()

    report = world.work()

    (letter,) = world.dead()
    assert letter.failure_class is FailureClass.MALFORMED
    assert "500 bytes" in letter.error
    assert (report.completed, report.left["dead"]) == (5, 1)
    assert sorted(world.store.deleted) == keys
    assert broker_of(world).depth == 0
    world.assert_reconciled()


def test_a_publishing_that_fails_in_part_sends_the_rest_and_buries_what_is_refused_for_good(
    make: Make,
) -> None:
    """O-BULK-03"""
    world = make()
    keys = world.fill(25)
    world.plan()
    later = iter([Failure(FailureClass.TRANSIENT, "later")])

    def refuse(message: Message) -> Failure | None:
        key = json.loads(message.body)["key"]
        if key == keys[17]:
            return Failure(FailureClass.MALFORMED, "never")
        return next(later, None) if key == keys[13] else None

    broker_of(world).refuse = refuse

    report = world.work()

    assert (report.outcomes, report.left["dead"]) == ({"deleted": 24}, 1)
    assert sorted(world.store.deleted) == sorted({*keys} - {keys[17]})
    assert len(set(broker_of(world).published)) == 24
    (letter,) = world.dead()
    assert (letter.key, letter.error) == (keys[17], "never")
    world.clock.step(HOUR)
    assert world.plan().already_dead == 1
    world.assert_reconciled()


def test_what_a_broker_refuses_for_now_is_tried_again_and_spends_nothing(make: Make) -> None:
    world = make()
    keys = world.fill(10)
    world.plan()
    refusals = iter(range(7))
    broker_of(world).refuse = lambda _: (
        None if next(refusals, None) is None else Failure(FailureClass.THROTTLED, "slow down")
    )

    report = world.work()

    assert (report.completed, sum(report.retried.values())) == (10, 0)
    assert_all_done(world, keys)


# -- decisions ---------------------------------------------------------------------------------


def test_one_dead_letter_is_redriven_and_no_other(make: Make) -> None:
    world = make()
    world.fill(3)
    world.store.refuse = lambda key: Failure(FailureClass.MALFORMED, "no")
    world.plan()
    world.work()
    letters = world.dead()
    broker_of(world).published.clear()
    world.store.refuse = lambda key: None
    one = letters[1].operation_id

    world.redrive(ids=(one, one))
    world.work()

    assert broker_of(world).published == [one.hex()]
    assert len(world.dead()) == 2
    assert len(world.store.deleted) == 1
    world.assert_reconciled()


def test_a_retry_goes_back_to_the_ledger_and_is_sent_when_it_is_due(make: Make) -> None:
    world = make()
    keys = world.fill(3)
    failures = iter(range(2))
    world.store.refuse = lambda key: (
        None if next(failures, None) is None else Failure(FailureClass.TRANSIENT, "later")
    )
    world.plan()

    report = world.work()

    assert report.retried == {FailureClass.TRANSIENT: 2}
    assert len(broker_of(world).published) == 5
    assert_all_done(world, keys)


def test_nothing_circulates_while_a_policy_is_paused(make: Make) -> None:
    """What is at the broker goes back to the ledger, once, and waits there."""
    world = make()
    keys = world.fill(50)
    world.plan()
    send(world)
    world.system.controls.pause("exports", "why not", None, "tester", world.clock.now())

    report = world.work()
    assert report.left == {"paused": 50}
    rounds = iter(range(400))
    world.worker(drain=False, stopping=lambda: next(rounds, None) is None).run()

    assert (broker_of(world).depth, sent(world)) == (0, 0)
    assert len(broker_of(world).published) == 50
    assert world.store.deleted == []
    world.system.controls.resume_work("exports", "tester", world.clock.now())
    world.work()
    assert_all_done(world, keys)


def test_nothing_circulates_behind_an_open_breaker(make: Make) -> None:
    """P9"""
    world = make()
    keys = world.fill(50)
    sick = Failure(FailureClass.CREDENTIALS, "expired")
    world.store.refuse = lambda key: sick
    world.plan()

    report = world.work()

    assert report.left == {"breaker": 50}
    assert world.dead() == []
    published = len(broker_of(world).published)
    assert published < 200, "a probe sends a few, not everything"
    world.store.refuse = lambda key: None
    world.clock.step(HOUR)
    world.work()
    assert_all_done(world, keys)


def test_what_is_not_in_this_file_waits_in_the_ledger(make: Make) -> None:
    world = make(policy("exports"), policy("others", prefix="others/"))
    keys = world.fill(3)
    world.fill(3, prefix="others/")
    world.plan("exports")
    world.plan("others")
    send(world)
    world.restart(policy("exports"))

    report = world.work()
    world.system.give_back()
    assert report.left == {"not_in_this_file": 3}
    assert sorted(world.store.deleted) == keys

    world.restart(policy("exports"), policy("others", prefix="others/"))
    world.work()
    assert len(world.store.deleted) == 6
    world.assert_reconciled()


def test_a_cancelled_run_leaves_messages_that_do_nothing(make: Make) -> None:
    world = make()
    world.fill(3)
    run = world.plan()
    send(world)
    world.system.plans.cancel(run.run_id, "no more", "tester", world.clock.now())
    world.store.objects.clear()
    world.clock.step(LEASE)
    world.put("exports/other.json")
    world.plan()

    world.work()

    assert world.outcomes(run) == {"cancelled": 3}
    assert world.store.deleted == ["exports/other.json"]
    assert broker_of(world).depth == 0
    world.assert_reconciled()


def test_superseded_versions_are_closed(make: Make) -> None:
    world = make()
    world.fill(3)
    first = world.plan()
    send(world)
    world.restart(policy(version="v2"))
    world.plan()

    world.work()

    assert world.outcomes(first) == {"superseded": 3}
    assert len(world.store.deleted) == 3
    world.assert_reconciled()


def test_what_is_pushed_is_executed_although_the_broker_has_it(make: Make) -> None:
    world = make()
    keys = world.fill(1)
    world.plan()
    send(world)
    broker = broker_of(world)
    (delivery,) = broker.take(1, LEASE)

    pushed = push(world.system, read(delivery.body), Options(), lambda: False)

    assert pushed.done
    broker.change([delivery], None)
    assert_all_done(world, keys)


# -- the broker is down, or another one ----------------------------------------------------------


def test_a_drain_names_a_queue_that_stays_out_of_reach(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    world = make()
    keys = world.fill(3)
    world.plan()
    broker_of(world).down = True

    report = world.work()

    assert report.left == {"queue": 3}
    said = [record.message for record in caplog.records if "memory queue" in record.message]
    assert len(said) <= 2, "once per outage, not once per try"
    broker_of(world).down = False
    world.clock.step(HOUR)
    world.work()
    assert_all_done(world, keys)


def test_a_drain_waits_ten_minutes_for_a_broker_that_gives_nothing_out(make: Make) -> None:
    world = make()
    keys = world.fill(3)
    world.plan()
    send(world)
    broker_of(world).down = True
    begun = world.clock.now()

    report = world.work()

    assert report.left == {"queue": 3}
    assert timedelta(minutes=10) <= world.clock.now() - begun < timedelta(minutes=20)
    broker_of(world).down = False
    world.clock.step(HOUR)
    world.work()
    assert_all_done(world, keys)


def test_an_outage_in_between_loses_nothing_and_fails_nothing(make: Make) -> None:
    world = make()
    keys = world.fill(200)
    world.plan()
    broker = broker_of(world)
    deletes = iter(range(10_000))

    def delete(_key: str) -> None:
        n = next(deletes)
        broker.down = 50 <= n < 120

    world.store.refuse = delete

    def heal(_report: object) -> None:
        if broker.down and world.clock.now() > begun + timedelta(seconds=5):
            broker.down = False

    begun = world.clock.now()
    report = world.work(on_progress=heal)

    assert (report.completed, sum(report.retried.values()), world.dead()) == (200, 0, [])
    world.clock.step(LEASE)
    while broker.depth:  # what could not be acked comes once more, and is acked then
        world.system.queue.receive(1, 1_000, world.clock.now(), LEASE)
        world.clock.step(LEASE)
    assert_all_done(world, keys)


def test_the_ledgers_own_queue_goes_on_where_a_broker_was(make: Make) -> None:
    world = make()
    keys = world.fill(5)
    world.plan()
    send(world)
    broker = world.broker
    world.broker = None
    world.restart()

    world.work()

    assert sorted(world.store.deleted) == keys
    world.assert_reconciled()
    world.broker = broker
    world.restart()
    world.clock.step(LEASE)
    world.put("exports/more.json")
    world.plan()
    world.work()
    assert_all_done(world, [*keys, "exports/more.json"])


def test_a_broker_goes_on_where_the_ledgers_own_queue_was(make: Make) -> None:
    world = make()
    keys = world.fill(5)
    broker, world.broker = world.broker, None
    world.restart()
    world.plan()
    (version,) = world.system.work.versions()
    span = world.system.work.waiting(version.row, 3)
    assert span is not None
    world.system.queue.publish(span, world.clock.now())
    world.broker = broker
    world.restart()

    world.work()

    assert_all_done(world, keys)


def test_a_process_that_ends_gives_back_what_it_has_not_begun(make: Make) -> None:
    """O-LEASE-04"""
    world = make()
    keys = world.fill(20)
    world.plan()
    send(world)
    world.system.queue.rest(1)  # type: ignore[attr-defined]
    assert broker_of(world).take(100, LEASE) == []

    world.restart()

    taken = broker_of(world).take(100, LEASE)
    assert len(taken) == 20
    broker_of(world).change(taken, timedelta(0))
    world.work()
    assert_all_done(world, keys)


# -- check ---------------------------------------------------------------------------------------


def checks(world: World) -> dict[str, Finding]:
    return {finding.code: finding for finding in queue_checks.checked(world.system, trying=True)}


def test_a_check_sends_one_message_that_executes_nothing(make: Make) -> None:
    world = make()
    world.fill(3)
    world.plan()
    send(world)

    found = checks(world)

    assert found.keys() == {"queue", "queue-probed"}
    assert broker_of(world).depth == 3, "what is not ours is where it was"
    assert all("memory queue" in finding.message for finding in found.values())


def test_a_check_of_a_broker_that_is_down_says_so(make: Make) -> None:
    world = make()
    broker_of(world).down = True

    found = checks(world)

    assert found["queue-transient"].level is Level.ERROR
    assert "nobody answers" in found["queue-transient"].message


def test_a_worker_may_be_faster_than_a_check(make: Make) -> None:
    world = make()
    broker_of(world).lose = lambda _: True
    world.system.clock = _Passing(world.clock)  # type: ignore[assignment]

    found = checks(world)

    assert found["queue-probe-not-seen"].level is Level.WARNING


class _Passing:
    """A clock on which each look takes a second."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        self._clock.sleep(1)
        return self._clock.now()
