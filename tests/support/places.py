"""One empty queue at each kind of broker, for what has to hold whichever it is.

    def test_…(place: Place) -> None: ...          # at each of them in turn

    place = places("rabbitmq")                     # or at one of them
    cli.extra = place.section

Whoever needs a system in this process has `Placed`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app import brokers
from bestbefore.app.clock import SystemClock
from bestbefore.app.settings import InfraiSettings, QueueSettings, Settings
from bestbefore.domain.policy import Policy
from bestbefore.ports.transport import Broker
from support.brokered import Rounds
from support.bull import Bull, bull_on, official
from support.clock import ManualClock
from support.infrai import KEY, Infrai
from support.rabbitmq import Rabbit
from support.sqs_servers import SqsServer
from support.worlds import World

KINDS = ("moto", "fauxqs", "rabbitmq", "bullmq", "infrai")
"""Of these, the first two are servers that speak SQS."""


@dataclass(frozen=True)
class Place:
    """An empty queue. ``values`` are the keys of ``[queue]``; ``put`` has somebody else publish
    a body there, and ``count`` says how many messages it holds, in somebody's hands or not, as far
    as the server tells."""

    kind: str
    values: Mapping[str, Any]
    put: Callable[[bytes], None]
    count: Callable[[], int]
    account: InfraiSettings = field(default_factory=InfraiSettings)

    @property
    def section(self) -> str:
        """What a configuration says of it."""
        lines = ["[queue]", f'kind = "{self.kind}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.values.items()]
        if self.account.api_key is not None:
            lines += ["[infrai]", f'api_key = "{self.account.api_key}"']
            lines += [f'base_url = "{self.account.base_url}"']
        return "\n".join(lines) + "\n"


class Placed(World):
    """A world whose commands travel through *place*.

    Real brokers keep real time, so its clock goes with it, from wherever a test has put it.
    """

    def __init__(self, folder: Path, *policies: Policy, place: Place, **more: Any) -> None:
        self.place = place
        super().__init__(folder, *policies, clock=GoingClock(), **more)

    def send(self) -> None:
        """Publish what is planned or due, and work on none of it."""
        self.system.working.send(Rounds())

    def look(self) -> None:
        """Take what the broker has right now, as a worker that has nothing to do."""
        self.system.queue.receive(1, 1_000, self.clock.now(), self.system.settings.queue.lease)

    def connect(self, settings: Settings) -> Broker:
        return brokers.connect(replace(settings, infrai=self.place.account))

    def _queue(self) -> QueueSettings:
        return QueueSettings(self.place.kind, values=self.place.values)


class GoingClock(ManualClock):
    """Real time, which a test can put forward."""

    def __init__(self) -> None:
        self._real = SystemClock()
        super().__init__(self._real.now())
        self._begun = self._real.now()

    def now(self) -> datetime:
        return super().now() + (self._real.now() - self._begun)

    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds)


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Place]]:
    """Makes a place of one of the `KINDS`; it is gone after the test."""
    with ExitStack() as stack:

        def made(kind: str) -> Place:
            if kind == "rabbitmq":
                return _at_rabbitmq(
                    stack.enter_context(Rabbit(request.getfixturevalue("rabbitmq_url")))
                )
            if kind == "bullmq":
                return _at_bullmq(
                    stack.enter_context(bull_on(request.getfixturevalue("redis_url")))
                )
            if kind == "infrai":
                return _at_infrai(stack.enter_context(Infrai()))
            return _at_sqs(request.getfixturevalue(f"{kind}_queues"))

        yield made


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, places: Callable[[str], Place]) -> Place:
    """One after the other."""
    return places(request.param)


def _at_rabbitmq(rabbit: Rabbit) -> Place:
    queue = rabbit.name()
    rabbit.broker(queue).transport.receive(1, timedelta(minutes=1), timedelta(0))  # makes it
    return Place(
        "rabbitmq",
        {"url": rabbit.url, "queue": queue},
        lambda body: rabbit.put(queue, body),
        lambda: rabbit.count(queue),
    )


def _at_bullmq(bull: Bull) -> Place:
    there = bull.settings

    def count() -> int:
        counts = official(there, lambda queue: queue.getJobCounts("waiting", "active", "delayed"))
        return sum(counts.values())

    return Place(
        "bullmq",
        {"url": there.url, "queue": there.queue, "prefix": there.prefix},
        bull.put,
        count,
    )


def _at_infrai(infrai: Infrai) -> Place:
    infrai.queue("work", message_retention_days=30)

    def put(body: bytes) -> None:
        infrai.queues.publish({"queue": "work", infrai.variant.field: body.decode()})

    return Place(
        "infrai",
        {"queue": "work"},
        put,
        lambda: len(infrai.queues.queues["work"].messages),
        InfraiSettings(KEY, infrai.base_url),
    )


def _at_sqs(server: SqsServer) -> Place:
    url = server.queue()
    values = server.settings(url)

    def put(body: bytes) -> None:
        server.client.send_message(QueueUrl=url, MessageBody=body.decode())

    def count() -> int:
        said = server.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        states = ("", "NotVisible", "Delayed")
        return sum(int(said["Attributes"][f"ApproximateNumberOfMessages{s}"]) for s in states)

    return Place(
        "sqs",
        {
            "queue_url": url,
            "endpoint_url": server.endpoint,
            "region": "us-east-1",
            "access_key_id": values.access_key_id,
            "secret_access_key": values.secret_access_key,
        },
        put,
        count,
    )
