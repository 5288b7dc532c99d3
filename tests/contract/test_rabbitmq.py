"""RabbitMQ's quorum queues behave as every transport does."""

import pytest

from bestbefore.contracts.transport import TransportContract, TransportWorld
from support.rabbitmq import Rabbit


class TestTransportOnRabbit(TransportContract):
    @pytest.fixture
    def world(self, rabbit: Rabbit) -> TransportWorld:
        queue = rabbit.name()
        nobody = rabbit.at("127.0.0.1", 1)
        return TransportWorld(
            rabbit.broker(queue).transport,
            lambda: rabbit.broker(queue).transport,
            lambda: rabbit.broker(queue, url=nobody).transport,
            lambda body: rabbit.put(queue, body),
        )
