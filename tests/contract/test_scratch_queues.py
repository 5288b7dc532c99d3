"""Scratch queues beside configured ones, of each of the adapters."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.adapters.queues import bullmq, infrai, rabbitmq, sqs
from bestbefore.contracts.scratch import ScratchQueueContract, ScratchWorld
from bestbefore.contracts.transport import MINUTE, message
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import Broker, TransportFailed
from support.bull import Bull
from support.infrai import Infrai
from support.infrai_documents import COMMON, VARIANTS
from support.rabbitmq import Node, Rabbit
from support.sqs_moods import Moody, refuses
from support.sqs_servers import SqsServer

SECOND = timedelta(seconds=1)
ALL = {"AttributeNames": ["All"]}


@contextmanager
def beside(
    settings: Any, connect: Callable[[Any], Broker], scratch: Callable[[Any], ScratchQueue]
) -> Iterator[ScratchWorld]:
    broker = connect(settings)
    yield ScratchWorld(lambda: scratch(settings), broker)
    broker.close()


class OnSqs(ScratchQueueContract):
    def test_it_is_made_as_the_configured_queue_is(
        self, world: ScratchWorld, server: SqsServer
    ) -> None:
        made = world.scratch()
        made.create()
        broker = made.connect()

        assert broker.transport.capabilities == world.configured.transport.capabilities
        broker.transport.publish([message("dies")])
        for _ in range(3):
            broker.transport.release(broker.transport.receive(1, MINUTE, SECOND))
        assert broker.dead_letters is not None
        assert len(broker.dead_letters.receive(1, MINUTE, SECOND)) == 1
        broker.close()

    @pytest.fixture
    def world(self, server: SqsServer) -> Iterator[ScratchWorld]:
        dead = server.arn(server.queue())
        policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": "2"})
        url = server.queue(
            RedrivePolicy=policy, MessageRetentionPeriod="86400", MaximumMessageSize="65536"
        )
        with beside(server.settings(url), sqs.connect, sqs.scratch) as world:
            yield world


class TestScratchOnMoto(OnSqs):
    @pytest.fixture
    def server(self, moto_queues: SqsServer) -> SqsServer:
        return moto_queues


class TestScratchOnFauxqs(OnSqs):
    @pytest.fixture
    def server(self, fauxqs_queues: SqsServer) -> SqsServer:
        return fauxqs_queues


class TestScratchOnRabbit(ScratchQueueContract):
    @pytest.fixture
    def world(self, rabbit: Rabbit) -> Iterator[ScratchWorld]:
        settings = rabbit.settings(rabbit.name())
        with beside(settings, rabbitmq.connect, rabbitmq.scratch) as world:
            yield world


class TestScratchOnBullmq(ScratchQueueContract):
    @pytest.fixture
    def world(self, bull: Bull) -> Iterator[ScratchWorld]:
        with beside(bull.settings, bullmq.connect, bullmq.scratch) as world:
            yield world


class TestScratchOnInfrai(ScratchQueueContract):
    @pytest.fixture(params=["common", "article"])
    def vendor(self, request: pytest.FixtureRequest) -> Iterator[Infrai]:
        with Infrai(VARIANTS[request.param]) as running:
            yield running

    @pytest.fixture
    def world(self, vendor: Infrai) -> Iterator[ScratchWorld]:
        vendor.queue("work")
        with beside(vendor.settings("work"), infrai.connect, infrai.scratch) as world:
            yield world

    def test_it_can_be_made_again_on_the_same_day(self, world: ScratchWorld) -> None:
        for _ in range(2):
            made = world.scratch()
            made.create()
            assert made.exists()
            made.remove()
            assert not made.exists()


def test_where_infrai_deletes_no_queues_an_empty_one_counts_as_none() -> None:
    with Infrai(COMMON) as vendor:
        del vendor.documents["queue.delete"]
        vendor.queue("work")
        made = infrai.scratch(vendor.settings("work"))
        made.create()
        broker = made.connect()
        broker.transport.publish([message("left")])
        broker.close()
        assert made.exists()

        vendor.advance(60)  # nobody has it any more
        made.remove()

        assert not made.exists()
        made.create()


@pytest.mark.parametrize(
    ("operation", "code", "remedy"),
    [
        ("CreateQueue", "QueueDeletedRecently", "wait a minute"),
        ("CreateQueue", "AccessDenied", "allow sqs:CreateQueue"),
        ("GetQueueAttributes", "AccessDenied", "work-bestbefore-gate*"),
    ],
)
def test_sqs_says_what_to_do_where_no_queue_can_be_made(
    moto_queues: SqsServer, operation: str, code: str, remedy: str
) -> None:
    url = moto_queues.queue("work")
    with Moody(moto_queues.endpoint) as moody:
        moody.on(operation, refuses(code))
        made = sqs.scratch(moto_queues.settings(url, endpoint_url=moody.endpoint))
        with pytest.raises(TransportFailed, match=re.escape(remedy)):
            made.create()


def test_sqs_leaves_none_in_an_account_that_the_queue_is_not_of(moto_queues: SqsServer) -> None:
    url = moto_queues.queue("theirs")
    here, name = url.rsplit("/", 2)[0], url.rsplit("/", 1)[1]
    with Moody(moto_queues.endpoint) as moody:
        moody.on("GetQueueAttributes", lambda _, real: real({"QueueUrl": url, **ALL}))
        settings = moto_queues.settings(f"{here}/999999999999/{name}", endpoint_url=moody.endpoint)
        with pytest.raises(TransportFailed, match="of another account"):
            sqs.scratch(settings).create()

    assert not sqs.scratch(moto_queues.settings(url)).exists()


def test_a_fifo_queue_has_none_beside_it(moto_queues: SqsServer) -> None:
    made = sqs.scratch(moto_queues.settings(f"{moto_queues.endpoint}/123456789012/work.fifo"))
    with pytest.raises(TransportFailed, match="expected a standard queue"):
        made.exists()


def test_a_name_that_leaves_no_room_for_another_is_refused(moto_queues: SqsServer) -> None:
    url = f"{moto_queues.endpoint}/123456789012/{'n' * 60}"
    with pytest.raises(ValueError, match="queue_url: no name is left"):
        sqs.scratch(moto_queues.settings(url))


def test_rabbitmq_says_which_rights_a_scratch_queue_takes(
    own_rabbit: Rabbit, rabbitmq_node: Node
) -> None:
    rabbitmq_node.ctl("add_user", "narrow", "narrow")
    try:
        rabbitmq_node.ctl("set_permissions", "narrow", "^work$", ".*", ".*")
        url = own_rabbit.url.replace("guest:guest", "narrow:narrow")
        made = rabbitmq.scratch(own_rabbit.settings("work", url=url))
        with pytest.raises(TransportFailed, match="configure, write and read on queues called"):
            made.create()
    finally:
        rabbitmq_node.ctl("delete_user", "narrow")
