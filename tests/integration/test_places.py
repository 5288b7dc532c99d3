"""What holds at every broker, real or stood in for, from the plan to the effect.

What only one of them can do is tested beside its adapter, and what none of them does by itself with
a broker in memory (`test_carried`).
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.contracts.transport import AT_ONCE, MINUTE, receive
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.message import identified
from bestbefore.ports.ledger import Operation
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import Forks, until
from support.kills import held, stop
from support.places import Place, Placed
from support.served import SECTION, Served
from support.worlds import policy

LEASE = "lease=3"
SLOT = "2026-06-01T02:00:00Z"
HOUR = timedelta(hours=1)


@pytest.fixture
def world(tmp_path: Path, place: Place) -> Iterator[Placed]:
    with Placed(tmp_path, policy(), place=place) as made:
        yield made


def assert_done_once(world: Placed, keys: list[str]) -> None:
    assert sorted(world.store.deleted) == sorted(keys)
    assert {operation.outcome for operation in world.operations()} == {"deleted"}
    world.assert_reconciled()


def test_a_message_that_is_there_twice_has_one_effect(world: Placed) -> None:
    """P3"""
    keys = world.fill(5)
    run = world.plan()
    world.send()
    other = world.connect(world.system.settings)
    deliveries = receive(other.transport, 5)
    for delivery in deliveries:
        world.place.put(delivery.body)
    other.transport.release(deliveries)

    other.close()

    world.work()

    # A broker may bring back what was released after the end, and it is looked at then.
    until(lambda: world.look() or world.place.count() == 0, what="the copies to be gone")
    assert world.outcomes(run) == {"deleted": 5}
    assert_done_once(world, keys)


def test_a_body_that_is_no_command_executes_nothing_and_stops_nobody(world: Placed) -> None:
    """O-MSG-01, O-MSG-03"""
    poison = [b"hello", b'{"bucket": ', b'{"v":99,"kind":"object"}']
    for body in poison:
        world.place.put(body)
    keys = world.fill(5)
    world.plan()

    world.work()

    strays = world.system.strays
    until(lambda: world.look() or strays.count() == len(poison), what="all of them")
    assert sorted(stray.body for stray in strays.found()) == sorted(poison)
    assert_done_once(world, keys)


def test_what_a_worker_had_whenever_it_died_is_dead_after_three_deliveries(world: Placed) -> None:
    """O-POISON-01, O-LEASE-05: the ledger counts them, whatever the broker does meanwhile."""
    (key,) = world.fill(1)
    world.plan()
    world.send()
    (version,) = world.system.work.versions()
    for suspects in (False, True, True):

        def claimed(*, suspects: bool = suspects) -> Sequence[Operation]:
            now = world.clock.now()
            return world.system.queue.receive(version.row, 1, now, MINUTE, suspects=suspects)

        until(claimed, what="a delivery")
        world.clock.step(2 * MINUTE)

    assert world.work().left["dead"] == 1

    (letter,) = world.dead()
    assert (letter.key, letter.failure_class) == (key, FailureClass.CRASHED)
    assert world.store.attempts == []


def test_exactly_one_dead_letter_is_sent_again(world: Placed) -> None:
    world.fill(3)
    world.store.refuse = lambda _: Failure(FailureClass.MALFORMED, "no")
    world.plan()
    world.work()
    one, *others = sorted(letter.operation_id for letter in world.dead())
    world.store.refuse = lambda _: None

    world.redrive(ids=(one, one))
    world.send()

    other = world.connect(world.system.settings)
    (delivery,) = receive(other.transport, 1)
    assert identified(delivery.body)[0] == one
    assert other.transport.receive(10, MINUTE, AT_ONCE) == []
    other.transport.release([delivery])
    other.close()
    assert world.work().outcomes == {"deleted": 1}
    assert sorted(letter.operation_id for letter in world.dead()) == others
    world.assert_reconciled()


@pytest.mark.parametrize("kind", ["moto", "fauxqs", "infrai"])
def test_a_message_near_the_end_of_its_retention_is_sent_again(
    tmp_path: Path, places: Callable[[str], Place], kind: str
) -> None:
    """Of the brokers that let go of messages."""
    with Placed(tmp_path, policy(), place=places(kind)) as world:
        keys = world.fill(3)
        run = world.plan()
        world.send()
        broker = world.system.broker
        assert broker is not None
        retention = broker.transport.capabilities.retention
        assert retention is not None
        world.clock.step(0.8 * retention - HOUR)
        world.send()
        assert "" not in world.system.records.tallies(run, "republished")

        world.clock.step(HOUR)
        world.send()

        assert world.system.records.tallies(run, "republished")[""].n == 3
        world.work()
        assert_done_once(world, keys)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_worker_held_when_it_stopped_is_finished_by_another_and_ends_once(
    cli: Cli, faulty: FaultyS3, forks: Forks, place: Place, number: signal.Signals
) -> None:
    """P3, P4, O-LEASE-02: and who goes on after all changes nothing any more."""
    cli.extra = place.section
    cli.write()
    fill(faulty, 10)
    cli("plan", "exports")
    with held(faulty, "DeleteObjects", effect=False) as come:
        victim = forks.start("support.harness:worker", ["1", "drain", LEASE], cwd=cli.folder)
        assert come.wait(30), victim.said()
        if number == signal.SIGSTOP:
            stop(victim, cli.folder)
        else:
            victim.kill()
        other = forks.start("support.harness:worker", ["4", "drain", LEASE], cwd=cli.folder)
        assert other.wait() == 0, other.said()
    contents = cli.audit.rows("SELECT * FROM operations")

    victim.kill(signal.SIGCONT)

    assert victim.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 0), victim.said()
    assert {row["outcome"] for row in contents} == {"deleted"}
    assert faulty.keys("exports") == set()
    assert cli.audit.rows("SELECT * FROM operations") == contents
    assert cli.audit.problems() == []


def test_serve_without_work_publishes_what_it_plans_and_another_process_deletes_it(
    cli: Cli, faulty: FaultyS3, places: Callable[[str], Place]
) -> None:
    cli.extra = SECTION + places("rabbitmq").section
    cli.write()
    keys = fill(faulty, 5)
    with Served(cli, "--no-work") as there:
        answer = there.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
        assert answer.status_code == 202
        until(lambda: _sent(cli) == 5, what="messages in the queue")
        assert faulty.keys("exports") == set(keys)

        done = cli.json("work", "--drain")

        assert done["outcomes"] == {"deleted": 5}
        assert faulty.keys("exports") == set()
        assert there.json(f"/v1/runs/{answer.json()['run_ids'][0]}")["state"] == "drained"
        assert there.stop() == 0


def _sent(cli: Cli) -> int:
    """How many operations a broker has confirmed."""
    sent: int = cli.audit.one("SELECT count(*) FROM operations WHERE sent_at IS NOT NULL")
    return sent
