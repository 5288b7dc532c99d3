"""A broker's own dead letters are brought into the ledger, which knows what to do about each."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.app.emptying import absorbed
from bestbefore.contracts.ledger_world import died, retried
from bestbefore.contracts.strays import FOREIGN
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.probe import probe
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Completed, LedgerUnavailable
from bestbefore.ports.transport import TransportFailed
from bestbefore.read.documents import Document
from bestbefore.stages.work import Options
from support.brokered import DEAD, Brokered, bodies
from support.clock import ManualClock
from support.memory_transport import MemoryBroker
from support.worlds import policy

LEASE = Options().lease


def run(world: Brokered) -> Document:
    return absorbed(world.system, lambda: False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> MemoryBroker:
    return MemoryBroker(clock)


@pytest.fixture
def dead(clock: ManualClock) -> MemoryBroker:
    return MemoryBroker(clock)


@pytest.fixture
def world(
    tmp_path: Path, state: str | None, clock: ManualClock, broker: MemoryBroker, dead: MemoryBroker
) -> Iterator[Brokered]:
    with Brokered(
        tmp_path, policy(), queue="old", brokers={"old": broker}, dead=dead, clock=clock,
        state_url=state,
    ) as made:  # fmt: skip
        yield made


def give_up_on(broker: MemoryBroker, dead: MemoryBroker) -> list[bytes]:
    """What a broker does after too many deliveries: it moves messages to its dead letters."""
    found = bodies(broker)
    broker.purge()
    for body in found:
        dead.put(body)
    return found


def test_what_is_not_done_is_due_again_at_once_under_its_own_budget(
    world: Brokered, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    world.fill(3)
    world.plan()
    world.send()
    assert len(give_up_on(broker, dead)) == 3

    said = run(world)

    assert said == {
        "absorbed": 3,
        "due_again": 3,
        "already_ended": 0,
        "in_ledger": 0,
        "strays": 0,
        "queue": DEAD,
    }
    assert dead.depth == 0
    assert {operation.state for operation in world.operations()} == {State.PENDING}
    assert world.work().outcomes == {"deleted": 3}
    assert {operation.redriven for operation in world.operations()} == {0}
    world.assert_reconciled()


def test_what_is_over_or_in_the_ledger_anyway_is_only_taken_away(
    world: Brokered, clock: ManualClock, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    world.fill(5)
    world.plan()
    world.send()
    for body in give_up_on(broker, dead):
        dead.put(body)  # as often as a broker likes
    ids = [operation.operation_id for operation in world.operations()]
    claimed = world.system.outbox.claim(ids[:4], clock.now(), LEASE).operations
    done, failed, later, _in_hand = sorted(claimed, key=lambda operation: operation.key)
    settled = [Completed(done, Outcome.DELETED), died(failed), retried(later, clock.now(), LEASE)]
    assert world.system.work.record(settled, "me", clock.now()) == []

    said = run(world)

    assert (said["absorbed"], said["already_ended"], said["due_again"]) == (10, 4, 1)
    # Each a second time, but for those that had ended, and the one that was due by then.
    assert (said["in_ledger"], said["strays"]) == (5, 0)
    assert dead.depth == 0
    assert len(world.dead()) == 1
    world.assert_reconciled()


def test_what_no_operation_is_behind_waits_for_a_person(
    world: Brokered, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    """O-MSG-01, O-MSG-03"""
    world.fill(1)
    world.plan()
    world.send()
    (mine,) = bodies(broker)
    changed = json.dumps(json.loads(mine) | {"key": "exports/other"}).encode()
    newer = json.dumps(json.loads(mine) | {"v": 99}).encode()
    met = [*FOREIGN, changed, newer]
    for body in [*met, probe("a check of ours"), *met]:
        dead.put(body)

    said = run(world)

    assert (said["absorbed"], said["strays"]) == (len(met) * 2 + 1, len(met) * 2)
    assert {stray.received for stray in world.system.strays.found()} == {2}
    errors = {stray.body: stray.error for stray in world.system.strays.found()}
    assert errors.keys() == set(met)
    assert "do not hash" in errors[changed]
    assert "unsupported version 99" in errors[newer]
    assert dead.depth == 0
    assert world.work().completed == 1


def test_a_message_of_another_ledger_waits_for_a_person(
    world: Brokered, tmp_path: Path, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    """O-DLQ-02: without its operation it stays, with an error."""
    (tmp_path / "other").mkdir()
    with Brokered(
        tmp_path / "other", policy(), queue="old", brokers={"old": broker}, clock=world.clock
    ) as other:
        other.fill(1)
        other.plan()
        other.send()
    (body,) = give_up_on(broker, dead)

    assert run(world)["strays"] == 1

    (stray,) = world.system.strays.found()
    assert stray.body == body
    assert "holds none of that id" in stray.error


def test_nothing_leaves_the_broker_before_the_ledger_has_it(
    world: Brokered, clock: ManualClock, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    """P4"""
    world.fill(2)
    world.plan()
    world.send()
    give_up_on(broker, dead)
    dead.put(b"hello")
    engine = sa.create_engine(world.system.database.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE strays RENAME TO elsewhere")

    with pytest.raises((LedgerUnavailable, sa.exc.ProgrammingError)):
        run(world)

    assert dead.depth == 3
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO strays")
    clock.step(2 * LEASE)
    again = run(world)
    assert (again["absorbed"], again["strays"], dead.depth) == (3, 1, 0)
    assert world.work().completed == 2


def test_killed_between_the_ledger_and_the_ack_it_is_repeated(
    world: Brokered, clock: ManualClock, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    """P4"""
    world.fill(2)
    world.plan()
    world.send()
    give_up_on(broker, dead)
    dead.put(b"hello")
    ack = dead.change
    dead.change = lambda deliveries, lease: []  # type: ignore[method-assign]
    run(world)
    dead.change = ack  # type: ignore[method-assign]
    assert dead.depth == 3
    clock.step(2 * LEASE)

    again = run(world)

    assert (again["absorbed"], again["due_again"], again["strays"]) == (3, 0, 1)
    (stray,) = world.system.strays.found()
    assert stray.received == 2
    assert world.work().outcomes == {"deleted": 2}


def test_dead_letters_that_cannot_be_reached_are_named_and_nothing_is_lost_o_dlq_03(
    world: Brokered, broker: MemoryBroker, dead: MemoryBroker
) -> None:
    """O-DLQ-03: a queue that does not exist answers like this, however often one asks."""
    world.fill(1)
    world.plan()
    world.send()
    dead.down = True

    for _ in range(3):
        with pytest.raises(TransportFailed, match=DEAD):
            run(world)

    assert broker.depth == 1
    assert world.work().completed == 1


def test_a_queue_without_dead_letters_has_nothing_to_absorb(tmp_path: Path) -> None:
    zeros = dict.fromkeys(("absorbed", "due_again", "already_ended", "in_ledger", "strays"), 0)
    brokers = {"old": MemoryBroker()}
    with Brokered(tmp_path, policy(), queue="state", brokers=brokers) as world:
        assert run(world) == zeros | {"queue": None}
        with world.beside("old") as other:
            assert run(other) == zeros | {"queue": None}


def test_a_stop_is_obeyed_between_two_looks(world: Brokered, dead: MemoryBroker) -> None:
    for n in range(500):
        dead.put(b"%d" % n)

    said = absorbed(world.system, lambda: world.system.strays.count() > 0)

    assert 0 < said["strays"] < 500
    assert said["strays"] + dead.depth == 500


def test_an_operation_whose_message_was_of_a_newer_version_is_sent_again_o_msg_03(
    world: Brokered, clock: ManualClock, broker: MemoryBroker
) -> None:
    """O-MSG-03: the message executes nothing; the operation is in the ledger, and comes back."""
    (key,) = world.fill(1)
    world.plan()
    world.send()
    (body,) = bodies(broker)
    broker.purge()
    broker.put(json.dumps(json.loads(body) | {"v": 99}).encode())
    world.work(drain=False, stopping=lambda: world.system.strays.count() > 0)
    assert world.store.deleted == []
    assert world.operation(key).state is State.PENDING

    clock.step(timedelta(hours=2))
    world.put("exports/later.json")
    world.plan()
    assert world.work().outcomes == {"deleted": 2}

    assert world.system.strays.count() == 1
    world.assert_reconciled()
