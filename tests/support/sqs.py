"""Fixtures over servers that speak SQS, and queues on them."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.adapters.queues.sqs import SqsSettings, connect
from bestbefore.contracts.transport import TransportWorld
from bestbefore.ports.transport import Broker, Transport
from support.node import NoNode
from support.sqs_servers import SqsServer, fauxqs, moto_sqs

NOBODY = "http://127.0.0.1:1"
Connect = Callable[..., Broker]


@pytest.fixture(scope="session")
def moto_queues() -> Iterator[SqsServer]:
    yield from _running(moto_sqs(), ImportError, "no moto: pip install 'moto[server]'")


@pytest.fixture(scope="session")
def fauxqs_queues() -> Iterator[SqsServer]:
    yield from _running(fauxqs(), NoNode, "no fauxqs")


@pytest.fixture(params=["moto", "fauxqs"])
def sqs(request: pytest.FixtureRequest) -> SqsServer:
    """Both of them, one after the other."""
    server: SqsServer = request.getfixturevalue(f"{request.param}_queues")
    return server


@pytest.fixture
def connected() -> Iterator[Connect]:
    """Connects to queues, and closes them after the test."""
    with ExitStack() as stack:

        def opened(settings: SqsSettings) -> Broker:
            broker = connect(settings)
            stack.callback(broker.close)
            return broker

        yield opened


@contextmanager
def sqs_world(server: SqsServer) -> Iterator[TransportWorld]:
    """An empty queue on *server*."""
    url = server.queue()

    def put(body: bytes) -> None:
        server.client.send_message(QueueUrl=url, MessageBody=body.decode())

    with ExitStack() as stack:

        def opened(**more: Any) -> Transport:
            broker = connect(server.settings(url, **more))
            stack.callback(broker.close)
            return broker.transport

        yield TransportWorld(
            opened(),
            opened,
            lambda: opened(endpoint_url=NOBODY),
            put,
            timedelta(seconds=2),  # a batch of two has to be received and extended within that
        )


def _running(
    server: AbstractContextManager[SqsServer], absent: type[Exception], what: str
) -> Iterator[SqsServer]:
    with ExitStack() as stack:
        try:
            running = stack.enter_context(server)
        except absent as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"{what}: {error}")
        yield running
