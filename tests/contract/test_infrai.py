"""Infrai's queue and cron, over a stand-in (`support.infrai`): nobody could look at the vendor."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest

from bestbefore.adapters.queues.infrai import connect
from bestbefore.contracts.transport import TransportContract, TransportWorld
from bestbefore.ports.transport import Broker
from support.infrai import Infrai
from support.infrai_documents import QUEUES


@pytest.fixture(scope="module", params=QUEUES)
def vendor(request: pytest.FixtureRequest) -> Iterator[Infrai]:
    """The stand-in, in each form that was seen of it."""
    with Infrai(QUEUES[request.param]) as running:
        yield running


class TestTransportOverInfrai(TransportContract):
    @pytest.fixture
    def world(self, vendor: Infrai) -> Iterator[TransportWorld]:
        queue = f"work-{uuid.uuid4().hex}"
        vendor.queue(queue)
        brokers: list[Broker] = []

        def opened(**more: str) -> Broker:
            brokers.append(connect(vendor.settings(queue, **more)))
            return brokers[-1]

        def put(body: bytes) -> None:
            vendor.queues.publish({"queue": queue, vendor.variant.field: body.decode()})

        nowhere = "http://127.0.0.1:1/v1"
        yield TransportWorld(
            opened().transport,
            lambda: opened().transport,
            lambda: opened(base_url=nowhere).transport,
            None if vendor.variant.payload == "object" else put,
            timedelta(seconds=1),
        )
        for broker in brokers:
            broker.close()
        vendor.queues.delete({"queue": queue})
