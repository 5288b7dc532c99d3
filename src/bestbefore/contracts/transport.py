"""What every broker's adapter has to do, for outside adapters too. To run it over one::

    class TestMyBroker(TransportContract):
        @pytest.fixture
        def world(self) -> Iterator[TransportWorld]: ...  # an empty queue of its own

What a broker cannot do, its `Capabilities` say, and the suite leaves out. Nothing here sleeps: that
something does *not* arrive is shown by something else that does.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import pytest

from bestbefore.domain.failure import FailureClass
from bestbefore.ports.transport import Delivery, Message, Transport, TransportFailed

AT_ONCE = timedelta(0)
MINUTE = timedelta(minutes=1)
_PATIENCE = 30.0
"""Seconds until something that has to arrive counts as lost."""

FOREIGN = (b"hello", b"", b'{"bucket": ', b"\xff\xfe", "größe".encode())


@dataclass(frozen=True, slots=True)
class TransportWorld:
    """One empty queue. ``another`` opens it once more, as a second process would, and ``broken`` is
    the same adapter where nobody answers. ``put`` has somebody else publish bytes; it is None where
    nobody can. ``short`` is a lease that a test can wait for."""

    transport: Transport
    another: Callable[[], Transport]
    broken: Callable[[], Transport]
    put: Callable[[bytes], None] | None
    short: timedelta = timedelta(seconds=1)


def message(name: str, size: int = 0, edition: int = 0) -> Message:
    """A message called *name*, of at least *size* bytes, published for the *edition*-th time."""
    operation_id = sha256(name.encode()).hexdigest()
    # In order, and without blanks, so that a broker of JSON documents gives back the same bytes.
    content = {"filling": "." * size, "name": name}
    body = json.dumps(content, separators=(",", ":")).encode("ascii")
    return Message(operation_id, body, str(edition))


def name_of(delivery: Delivery) -> str:
    """What `message` was called with."""
    name: str = json.loads(delivery.body)["name"]
    return name


def receive(
    transport: Transport, number: int, lease: timedelta = MINUTE, *, ack: bool = False
) -> list[Delivery]:
    """*number* deliveries, or as many as come while one is patient."""
    found: list[Delivery] = []
    deadline = time.monotonic() + _PATIENCE
    while len(found) < number and time.monotonic() < deadline:
        some = transport.receive(number - len(found), lease, timedelta(seconds=0.5))
        found += some
        if ack:
            transport.ack(some)
    return found


def names_until(transport: Transport, wanted: Collection[str], lease: timedelta) -> Counter[str]:
    """Receive until each of *wanted* has come, and for one look more; acks everything."""
    seen: Counter[str] = Counter()
    deadline = time.monotonic() + _PATIENCE
    while not seen.keys() >= set(wanted) and time.monotonic() < deadline:
        some = transport.receive(100, lease, timedelta(seconds=0.5))
        seen.update(map(name_of, some))
        transport.ack(some)
    assert seen.keys() >= set(wanted), "something never came"
    some = transport.receive(100, lease, AT_ONCE)
    transport.ack(some)
    return seen + Counter(map(name_of, some))


def _published(transport: Transport, names: Iterable[str], edition: int = 0) -> None:
    messages = [message(name, edition=edition) for name in names]
    assert list(transport.publish(messages)) == [None] * len(messages)


class TransportContract:
    """Publish, receive, extend, ack, release, over bytes."""

    def test_what_is_published_is_received_as_it_was_written(self, world: TransportWorld) -> None:
        sent = message("a")
        assert list(world.transport.publish([sent])) == [None]

        (got,) = receive(world.transport, 1)

        assert got.body == sent.body

    def test_publishing_nothing_is_allowed(self, world: TransportWorld) -> None:
        assert list(world.transport.publish([])) == []
        assert list(world.transport.extend([], MINUTE)) == []
        world.transport.ack([])
        world.transport.release([])

    def test_a_thousand_messages_arrive_once_each(self, world: TransportWorld) -> None:
        names = [f"{n:04}" for n in range(1_000)]
        _published(world.transport, names)

        got = receive(world.transport, 1_000, ack=True)

        assert Counter(map(name_of, got)) == Counter(names)
        assert world.transport.receive(10, MINUTE, AT_ONCE) == []

    def test_no_more_is_received_than_was_asked_for(self, world: TransportWorld) -> None:
        _published(world.transport, "abcdefghijklmnopqrstuvwxyz")

        for _ in range(5):
            assert len(world.transport.receive(3, MINUTE, timedelta(seconds=5))) <= 3

    def test_an_empty_queue_answers_within_the_wait(self, world: TransportWorld) -> None:
        world.transport.receive(10, MINUTE, AT_ONCE)  # and be connected from here on
        begun = time.monotonic()

        assert list(world.transport.receive(10, MINUTE, timedelta(seconds=1))) == []

        assert time.monotonic() - begun < 20

    def test_who_waits_hears_of_what_is_published(self, world: TransportWorld) -> None:
        got: list[Delivery] = []
        # Of two that make a queue at once, RabbitMQ 3.10 may refuse one, who would try again.
        assert list(world.another().receive(1, MINUTE, AT_ONCE)) == []
        waiting = threading.Thread(target=lambda: got.extend(receive(world.transport, 1)))
        waiting.start()

        _published(world.another(), ["a"])
        waiting.join(_PATIENCE)

        assert [name_of(delivery) for delivery in got] == ["a"]

    def test_what_one_consumer_has_no_other_gets(self, world: TransportWorld) -> None:
        """P3"""
        _published(world.transport, ["taken", "left"])
        (taken,) = receive(world.transport, 1)
        other = world.another()

        seen = names_until(other, {"taken", "left"} - {name_of(taken)}, MINUTE)

        assert name_of(taken) not in seen

    def test_two_consumers_share_the_work(self, world: TransportWorld) -> None:
        """P3"""
        names = [f"{n:03}" for n in range(300)]
        _published(world.transport, names)
        consumers = [world.transport, world.another()]
        got: list[list[Delivery]] = [[], []]
        done = threading.Event()

        def consume(transport: Transport, mine: list[Delivery]) -> None:
            deadline = time.monotonic() + _PATIENCE
            while not done.is_set() and time.monotonic() < deadline:
                some = transport.receive(7, MINUTE, timedelta(seconds=0.2))
                mine += some
                transport.ack(some)
                if sum(map(len, got)) >= len(names):
                    done.set()

        threads = [
            threading.Thread(target=consume, args=pair) for pair in zip(consumers, got, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert Counter(name_of(delivery) for mine in got for delivery in mine) == Counter(names)

    def test_a_delivery_whose_lease_ends_comes_back(self, world: TransportWorld) -> None:
        """P4"""
        self._only_with_leases(world)
        _published(world.transport, ["a"])
        assert len(receive(world.transport, 1, world.short)) == 1

        (again,) = receive(world.another(), 1)

        assert name_of(again) == "a"

    def test_an_extended_lease_lasts_longer(self, world: TransportWorld) -> None:
        """O-LEASE-01: shown by another one, received with it, that comes back meanwhile."""
        self._only_with_leases(world)
        if not world.transport.capabilities.extends:
            pytest.skip("a lease cannot be extended here")
        _published(world.transport, ["kept", "left"])
        kept = [
            delivery
            for delivery in receive(world.transport, 2, 3 * world.short)  # or it is late already
            if name_of(delivery) == "kept"
        ]

        assert list(world.transport.extend(kept, MINUTE)) == []

        assert names_until(world.another(), ["left"], MINUTE) == Counter({"left": 1})

    def test_extending_what_is_gone_says_that_it_is_lost(self, world: TransportWorld) -> None:
        self._only_with_leases(world)
        if not (world.transport.capabilities.extends and world.transport.capabilities.fences):
            pytest.skip("nobody tells here that a delivery was lost")
        _published(world.transport, ["a"])
        late = receive(world.transport, 1, world.short)
        receive(world.another(), 1)

        assert list(world.transport.extend(late, MINUTE)) == late

    def test_what_is_acked_does_not_come_back(self, world: TransportWorld) -> None:
        """Shown by another one, received with it, that does."""
        _published(world.transport, ["acked", "given back"])
        got = receive(world.transport, 2)
        acked = [delivery for delivery in got if name_of(delivery) == "acked"]
        back = [delivery for delivery in got if name_of(delivery) != "acked"]

        world.transport.ack(acked)
        world.transport.release(back)

        assert names_until(world.another(), ["given back"], MINUTE) == Counter({"given back": 1})

    def test_acking_twice_or_late_harms_nobody(self, world: TransportWorld) -> None:
        _published(world.transport, ["a", "b"])
        got = receive(world.transport, 2)

        world.transport.ack(got)
        world.transport.ack(got)
        world.transport.release(got)

        _published(world.transport, ["c"])
        assert names_until(world.transport, ["c"], MINUTE) == Counter({"c": 1})

    def test_an_ack_after_the_lease_does_not_take_it_from_its_new_holder(
        self, world: TransportWorld
    ) -> None:
        """O-LEASE-02, as far as the broker is concerned; the ledger fences in any case."""
        self._only_with_leases(world)
        if not world.transport.capabilities.fences:
            pytest.skip("a late ack is not refused here; the ledger refuses the result")
        _published(world.transport, ["a"])
        late = receive(world.transport, 1, world.short)
        other = world.another()
        (held,) = receive(other, 1)

        world.transport.ack(late)

        other.release([held])
        assert names_until(other, ["a"], MINUTE) == Counter({"a": 1})

    def test_what_is_given_back_is_there_at_once(self, world: TransportWorld) -> None:
        """O-LEASE-04"""
        _published(world.transport, ["a"])
        other = world.another()

        for _ in range(5):
            world.transport.release(receive(world.transport, 1, timedelta(minutes=30)))

        (got,) = receive(other, 1)
        assert name_of(got) == "a"

    def test_a_body_that_is_too_large_is_refused_alone(self, world: TransportWorld) -> None:
        """O-MSG-02"""
        most = world.transport.capabilities.max_body
        large = message("large", most + 1)

        answers = world.transport.publish([message("a"), large, message("b")])

        first, refused, last = answers
        assert first is last is None
        assert refused is not None
        assert refused.failure_class is FailureClass.MALFORMED
        assert f"{most:,}" in refused.error
        assert names_until(world.transport, ["a", "b"], MINUTE) == Counter(["a", "b"])

    def test_many_large_bodies_go_in_as_many_calls_as_it_takes(self, world: TransportWorld) -> None:
        """O-MSG-02"""
        most = min(world.transport.capabilities.max_body, 200_000)
        messages = [message(f"large {n}", most - 1_000) for n in range(6)]

        assert list(world.transport.publish(messages)) == [None] * 6

        wanted = [f"large {n}" for n in range(6)]
        assert names_until(world.transport, wanted, MINUTE) == Counter(wanted)

    def test_what_somebody_else_put_there_arrives_as_it_is(self, world: TransportWorld) -> None:
        """O-MSG-01"""
        if world.put is None:
            pytest.skip("nobody else can put anything here")
        bodies = [
            body
            for body in FOREIGN
            if world.transport.capabilities.carries_any_bytes or (body and body.isascii())
        ]
        for body in bodies:
            world.put(body)

        got = receive(world.transport, len(bodies), ack=True)

        assert Counter(delivery.body for delivery in got) == Counter(bodies)

    def test_an_operation_that_is_published_twice_is_one_message_where_the_broker_sees_it(
        self, world: TransportWorld
    ) -> None:
        _published(world.transport, ["a", "z"])
        _published(world.transport, ["a"], edition=1)

        seen = names_until(world.transport, ["a", "z"], MINUTE)

        assert seen["a"] == (1 if world.transport.capabilities.deduplicates else 2)

    def test_the_same_operation_can_be_published_again_once_it_was_acked(
        self, world: TransportWorld
    ) -> None:
        """A retry, or a redrive."""
        for edition in range(3):
            _published(world.transport, ["a"], edition)
            assert [name_of(one) for one in receive(world.transport, 1, ack=True)] == ["a"]

    def test_a_broker_that_does_not_answer_is_named(self, world: TransportWorld) -> None:
        broken = world.broken()
        calls: Sequence[Callable[[], object]] = [
            lambda: broken.publish([message("a")]),
            lambda: broken.receive(1, MINUTE, AT_ONCE),
        ]

        for call in calls:
            with pytest.raises(TransportFailed) as caught:
                call()
            assert caught.value.failure.failure_class is FailureClass.TRANSIENT
            assert broken.name in str(caught.value)

    @staticmethod
    def _only_with_leases(world: TransportWorld) -> None:
        if not world.transport.capabilities.leases:
            pytest.skip("a delivery has no lease here: it comes back when its consumer is gone")
