"""What RabbitMQ's queues have to be: made where they are missing, compared, and never changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.adapters.queues.rabbitmq.judging import queue_findings, server_findings
from bestbefore.adapters.queues.rabbitmq.server import Server
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import (
    Existing,
    dead_letter_arguments,
    queue_arguments,
)
from bestbefore.contracts.transport import AT_ONCE, MINUTE, message
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.transport import Broker, TransportFailed
from support.rabbitmq import Node, Rabbit

QUORUM = {"x-queue-type": "quorum"}
DEBIAN = Server("RabbitMQ", "3.10.8", confirms=True)
NEWER = Server("RabbitMQ", "4.1.3", confirms=True)


def _codes(findings: Sequence[Finding], level: Level | None = None) -> list[str]:
    return [found.code for found in findings if level is None or found.level is level]


def _found(broker: Broker, code: str) -> Finding:
    (found,) = [finding for finding in broker.findings() if finding.code == code]
    return found


def _used(broker: Broker) -> Broker:
    broker.transport.receive(1, MINUTE, AT_ONCE)
    return broker


def test_what_is_made_has_nothing_to_complain_about(rabbit: Rabbit) -> None:
    queue = rabbit.name()

    findings = _used(rabbit.broker(queue)).findings()

    assert {finding.level for finding in findings} == {Level.INFO}
    rabbit.declare(queue, queue_arguments(rabbit.settings(queue)))
    rabbit.declare(f"{queue}.dead", dead_letter_arguments())


def test_a_check_makes_nothing(rabbit: Rabbit) -> None:
    queue = rabbit.name()

    findings = rabbit.broker(queue).findings()

    assert _codes(findings).count("queue-missing") == 2
    assert not _codes(findings, Level.ERROR)
    assert not rabbit.exists(queue)
    assert not rabbit.exists(f"{queue}.dead")


def test_what_is_missing_is_not_made_where_that_is_not_wanted(rabbit: Rabbit) -> None:
    """O-DLQ-03"""
    queue = rabbit.name()
    broker = rabbit.broker(queue, declare=False)

    with pytest.raises(TransportFailed, match="there is no such queue; create it") as caught:
        broker.transport.publish([message("a")])

    assert caught.value.failure.failure_class is FailureClass.MALFORMED
    assert caught.value.failure.whole_source
    assert _codes(broker.findings(), Level.ERROR) == [
        "queue-missing",
        "queue-dead-letter-queue-missing",
    ]
    assert not rabbit.exists(queue)


def test_a_queue_without_one_for_its_dead_letters_works_and_says_so(rabbit: Rabbit) -> None:
    """O-DLQ-03: they stay where they are."""
    queue = rabbit.name()
    rabbit.declare(queue, queue_arguments(rabbit.settings(queue)))
    broker = rabbit.broker(queue, declare=False)
    assert broker.dead_letters is not None

    assert not any(broker.transport.publish([message("a")]))

    assert _codes(broker.findings(), Level.ERROR) == ["queue-dead-letter-queue-missing"]
    with pytest.raises(TransportFailed, match=f"{queue}.dead"):
        broker.dead_letters.receive(1, MINUTE, AT_ONCE)


def test_only_what_is_missing_is_made(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    rabbit.declare(queue, QUORUM)

    assert not any(rabbit.broker(queue).transport.publish([message("a")]))

    rabbit.declare(queue, QUORUM)  # it would be refused if it were anything else by now
    assert rabbit.exists(f"{queue}.dead")


@pytest.mark.parametrize(
    ("arguments", "how", "said"),
    [
        ({}, {}, "x-queue-type is 'classic', expected 'quorum'"),
        ({"x-queue-type": "classic", "x-max-priority": 5}, {}, "x-queue-type is 'classic'"),
        ({}, {"durable": False}, "it is not durable"),
        ({}, {"auto_delete": True}, "it is auto-delete"),
    ],
)
def test_a_queue_that_keeps_nothing_safely_is_refused_and_explained(
    rabbit: Rabbit, arguments: dict[str, Any], how: dict[str, Any], said: str
) -> None:
    queue = rabbit.name()
    rabbit.declare(queue, arguments, **how)
    broker = rabbit.broker(queue)

    with pytest.raises(TransportFailed, match=said) as caught:
        broker.transport.publish([message("a")])

    assert caught.value.failure.failure_class is FailureClass.MALFORMED
    assert "name another queue" in str(caught.value)
    unfit = _found(broker, "queue-unfit")
    assert unfit.level is Level.ERROR
    assert said in unfit.message
    assert rabbit.count(queue) == 0


def test_a_queue_of_another_kind_of_dead_lettering_is_explained_with_the_policy_to_set(
    rabbit: Rabbit,
) -> None:
    queue = rabbit.name()
    rabbit.declare(queue, QUORUM | {"x-dead-letter-exchange": "", "x-overflow": "drop-head"})

    findings = rabbit.broker(queue).findings()

    said = {finding.message: finding.remedy for finding in findings if "least-once" in finding.code}
    strategy, overflow = sorted(said, key=lambda text: "x-overflow" in text)
    assert "x-dead-letter-strategy = 'at-least-once'" in strategy
    assert "rabbitmqctl set_policy" in said[strategy]
    assert "x-overflow is 'drop-head', expected 'reject-publish'" in overflow
    assert "name another queue" in said[overflow]
    assert _codes(findings, Level.ERROR) == ["queue-dead-letter-queue-other"]


def test_a_message_ttl_is_the_retention_and_is_said(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    arguments = queue_arguments(rabbit.settings(queue))
    rabbit.declare(queue, arguments | {"x-message-ttl": 7_200_000, "x-delivery-limit": 7})
    broker = _used(rabbit.broker(queue))

    assert broker.transport.capabilities.retention == timedelta(hours=2)
    assert "2 h (x-message-ttl)" in _found(broker, "queue-retention").message
    assert "after 7 deliveries" in _found(broker, "queue-delivery-limit").message


def test_queues_that_lose_what_nobody_worked_on_are_named(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    rabbit.declare(
        queue,
        QUORUM | {"x-expires": 3_600_000, "x-max-length": 10, "x-single-active-consumer": True},
    )

    codes = _codes(rabbit.broker(queue).findings(), Level.WARNING)

    assert {"queue-expires", "queue-length", "queue-single-consumer"} <= set(codes)


def test_the_capabilities_follow_the_version() -> None:
    old, new = DEBIAN.capabilities(None), NEWER.capabilities(timedelta(days=1))

    assert old.max_body == 128 * 1024 * 1024
    assert new.max_body == 16 * 1024 * 1024
    assert new.retention == timedelta(days=1)
    assert old.fences
    assert not old.leases
    assert not old.deduplicates


def test_the_default_limit_of_version_4_is_named() -> None:
    settings = RabbitSettings("amqp://guest:guest@localhost/")
    arguments = queue_arguments(settings)
    del arguments["x-delivery-limit"]

    assert "queue-delivery-limit" not in _codes([*_of(settings, DEBIAN, arguments)])
    (limit,) = [
        found for found in _of(settings, NEWER, arguments) if found.code == "queue-delivery-limit"
    ]
    assert "20 deliveries (the default of this version)" in limit.message
    assert '{"delivery-limit": 1000}' in limit.remedy


def _of(settings: RabbitSettings, server: Server, arguments: dict[str, Any]) -> list[Finding]:
    return list(queue_findings(settings, server, Existing(arguments)))


@pytest.mark.parametrize(
    ("server", "codes"),
    [
        (DEBIAN, {"queue-version": Level.INFO}),
        (Server("RabbitMQ", "3.9.1", confirms=True), {"queue-version": Level.WARNING}),
        (
            Server("LavinMQ", "2.4", confirms=False),
            {
                "queue-server": Level.WARNING,
                "queue-confirms": Level.ERROR,
                "queue-version": Level.WARNING,
            },
        ),
    ],
)
def test_what_a_server_lacks_is_said(server: Server, codes: dict[str, Level]) -> None:
    findings = server_findings(RabbitSettings("amqp://localhost/"), server)

    assert {finding.code: finding.level for finding in findings} == codes


def test_a_login_or_a_virtual_host_that_is_refused_is_named(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    urls = {
        "queue-credentials": rabbit.url.replace(":guest@", ":wrong@"),
        "queue-vhost": f"{rabbit.url.rstrip('/')}/there-is-none",
        "queue-unreachable": rabbit.at("127.0.0.1", 1),
    }
    classes = {
        "queue-credentials": FailureClass.CREDENTIALS,
        "queue-vhost": FailureClass.PERMISSION,
        "queue-unreachable": FailureClass.TRANSIENT,
    }

    for code, url in urls.items():
        broker = rabbit.broker(queue, url=url)
        assert _codes(broker.findings(), Level.ERROR) == [code]
        with pytest.raises(TransportFailed) as caught:
            broker.transport.receive(1, MINUTE, AT_ONCE)
        assert caught.value.failure.failure_class is classes[code]


def test_rights_that_are_missing_are_named(own_rabbit: Rabbit, rabbitmq_node: Node) -> None:
    """A user who may only read and write works on what is there; one who may not write is told."""
    queue = own_rabbit.name()
    _used(own_rabbit.broker(queue))
    url = own_rabbit.url.replace("guest:guest@", "worker:worker@")
    rabbitmq_node.ctl("add_user", "worker", "worker")
    try:
        rabbitmq_node.ctl("set_permissions", "worker", "^$", ".*", ".*")
        broker = own_rabbit.broker(queue, url=url)
        assert not any(broker.transport.publish([message("a")]))
        assert len(broker.transport.receive(1, MINUTE, timedelta(seconds=5))) == 1
        assert _codes(broker.findings(), Level.WARNING) == ["queue-not-compared"] * 2

        elsewhere = own_rabbit.broker(own_rabbit.name(), url=url)
        with pytest.raises(TransportFailed, match="may not create it") as caught:
            elsewhere.transport.publish([message("a")])
        assert caught.value.failure.failure_class is FailureClass.PERMISSION

        rabbitmq_node.ctl("set_permissions", "worker", ".*", "^$", ".*")
        silent = own_rabbit.broker(queue, url=url)
        assert "queue-right-denied" in _codes(silent.findings(), Level.ERROR)
        answers = silent.transport.publish([message("a"), message("b")])
        assert {answer and answer.failure_class for answer in answers} == {FailureClass.PERMISSION}
    finally:
        rabbitmq_node.ctl("delete_user", "worker")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"url": "http://localhost/"}, "queue.url"),
        ({"url": "amqp:///"}, "queue.url"),
        ({"url": "amqp://user:s3cret@host:port/"}, "queue.url"),
        ({"queue": ""}, "queue.queue"),
        ({"queue": "amq.mine"}, "queue.queue"),
        ({"queue": "a", "dead_letter_queue": "a"}, "another queue than 'a' itself"),
        ({"dead_letter_queue": "x" * 256}, "queue.dead_letter_queue"),
    ],
)
def test_settings_that_cannot_work_are_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        RabbitSettings(**{"url": "amqp://guest:guest@localhost/"} | how)

    assert "s3cret" not in str(caught.value)
