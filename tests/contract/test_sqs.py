"""The SQS adapter over two servers that have nothing in common."""

from collections.abc import Iterator

import pytest

from bestbefore.contracts.transport import TransportContract, TransportWorld
from support.sqs import sqs_world
from support.sqs_servers import SqsServer


class TestTransportOnMoto(TransportContract):
    @pytest.fixture
    def world(self, moto_queues: SqsServer) -> Iterator[TransportWorld]:
        with sqs_world(moto_queues) as world:
            yield world


class TestTransportOnFauxqs(TransportContract):
    @pytest.fixture
    def world(self, fauxqs_queues: SqsServer) -> Iterator[TransportWorld]:
        with sqs_world(fauxqs_queues) as world:
            yield world
