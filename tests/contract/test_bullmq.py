"""BullMQ as a transport, on a real Redis."""

import pytest

from bestbefore.contracts.transport import TransportContract, TransportWorld
from bestbefore.ports.transport import Transport
from support.bull import Bull


class TestTransportOnBullmq(TransportContract):
    @pytest.fixture
    def world(self, bull: Bull) -> TransportWorld:
        def broken() -> Transport:
            return bull.connect("redis://:secret@127.0.0.1:1/0").transport

        return TransportWorld(
            transport=bull.connect().transport,
            another=lambda: bull.connect().transport,
            broken=broken,
            put=bull.put,
        )
