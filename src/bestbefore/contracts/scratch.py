"""What every adapter's scratch queue has to do. To run it over one::

class TestMyScratch(ScratchQueueContract):
    @pytest.fixture
    def world(self) -> Iterator[ScratchWorld]: ...  # a configured queue, empty
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from bestbefore.contracts.transport import AT_ONCE, MINUTE, message, name_of, receive
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import Broker


@dataclass(frozen=True, slots=True)
class ScratchWorld:
    """``scratch`` makes what one process has beside the configured queue, to which
    ``configured`` connects."""

    scratch: Callable[[], ScratchQueue]
    configured: Broker


class ScratchQueueContract:
    """Make a queue beside the configured one, use it, remove it."""

    @pytest.fixture(autouse=True)
    def _cleaned(self, world: ScratchWorld) -> Iterator[None]:
        yield
        world.scratch().remove()

    def test_a_scratch_queue_carries_messages_and_is_gone_when_it_is_removed(
        self, world: ScratchWorld
    ) -> None:
        made = world.scratch()
        assert not made.exists()

        made.create()
        broker = made.connect()
        assert list(broker.transport.publish([message("scratch")])) == [None]
        got = receive(broker.transport, 1)
        broker.close()

        assert [name_of(delivery) for delivery in got] == ["scratch"]
        assert made.exists()
        assert world.scratch().exists(), "another process sees it"
        made.remove()
        assert not made.exists()

    def test_what_is_not_there_can_be_removed(self, world: ScratchWorld) -> None:
        world.scratch().remove()

        assert not world.scratch().exists()

    def test_the_configured_queue_is_left_alone(self, world: ScratchWorld) -> None:
        world.configured.transport.publish([message("real")])
        made = world.scratch()
        made.create()
        broker = made.connect()

        assert broker.transport.receive(10, MINUTE, AT_ONCE) == []
        assert broker.transport.name == made.name != world.configured.transport.name
        broker.close()
        made.remove()

        (real,) = receive(world.configured.transport, 1, ack=True)
        assert name_of(real) == "real"

    def test_its_dead_letters_are_its_own(self, world: ScratchWorld) -> None:
        made = world.scratch()
        made.create()
        broker, configured = made.connect(), world.configured
        assert broker.dead_letters is not None
        assert configured.dead_letters is not None

        assert broker.dead_letters.name != configured.dead_letters.name
        assert broker.dead_letters.receive(10, MINUTE, AT_ONCE) == []
        broker.close()
