"""What `check` says about the Redis behind a BullMQ queue, and that it never shows a secret."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from bullmq import Queue

from bestbefore.adapters.queues.bullmq import BullSettings
from bestbefore.contracts.transport import message, receive
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.transport import TransportFailed
from support.bull import Bull, OwnRedis, bull_on, official

StartRedis = Callable[..., OwnRedis]
_DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec")
_SECRET = "correct-horse"


def findings(server: OwnRedis, url: str | None = None) -> dict[str, Finding]:
    with bull_on(server.url) as bull:
        return by_code(bull.connect(url).findings())


def by_code(found: Sequence[Finding]) -> dict[str, Finding]:
    assert len({one.code for one in found}) == len(found)
    return {one.code: one for one in found}


def test_nothing_is_wrong_with_a_server_that_keeps_what_it_is_given(own_redis: StartRedis) -> None:
    found = findings(own_redis(*_DURABLE))

    assert {one.level for one in found.values()} == {Level.INFO}
    assert "loses a second of published commands" in found["redis-durable"].message
    assert found["redis-version"].message.endswith("answers")
    assert "no other client said what it is" in found["bullmq-peers"].message


@pytest.mark.parametrize(
    ("options", "code", "level", "says"),
    [
        ((), "redis-not-durable", Level.WARNING, "nothing is kept on disk"),
        (
            ("--save", "3600 1"),
            "redis-not-durable",
            Level.WARNING,
            "publishes them again, an hour after",
        ),
        (
            ("--appendonly", "yes", "--appendfsync", "no"),
            "redis-not-synced",
            Level.WARNING,
            "appendfsync is no",
        ),
        (
            ("--appendonly", "yes", "--appendfsync", "always"),
            "redis-durable",
            Level.INFO,
            "loses no published commands",
        ),
        (
            (*_DURABLE, "--maxmemory-policy", "allkeys-lru"),
            "redis-evicts",
            Level.ERROR,
            "maxmemory-policy is allkeys-lru",
        ),
    ],
)
def test_what_can_cost_commands_is_said(
    own_redis: StartRedis, options: Sequence[str], code: str, level: Level, says: str
) -> None:
    found = findings(own_redis(*options))[code]

    assert found.level is level
    assert says in found.message
    assert bool(found.remedy) == (level is not Level.INFO)


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_server_that_hides_its_configuration_leaves_it_open(
    own_redis: StartRedis, policy: str
) -> None:
    """As where Redis is rented. What it drops it tells all the same."""
    server = own_redis(*_DURABLE, "--maxmemory-policy", policy, "--rename-command", "CONFIG", "")

    found = findings(server)

    assert "nobody can say what a crash costs" in found["redis-durability-unknown"].message
    assert "append-only file is on" in found["redis-durability-unknown"].message
    assert ("redis-evicts" in found) == (policy != "noeviction")


def test_a_replica_is_no_place_for_a_queue(own_redis: StartRedis) -> None:
    primary = own_redis()
    replica = own_redis("--replicaof", "127.0.0.1", str(primary.port))

    assert findings(primary, replica.url)["redis-replica"].level is Level.ERROR


def test_failed_jobs_and_a_pause_are_shown(bull: Bull) -> None:
    async def trouble(queue: Queue) -> None:
        await queue.pause()
        await queue.client.zadd(queue.toKey("failed"), {"a": 1, "b": 2})

    official(bull.settings, trouble)

    found = by_code(bull.connect().findings())

    assert found["bullmq-failed"].message.endswith("2 jobs are in its failed set")
    assert "dlq absorb" in found["bullmq-failed"].remedy
    assert found["bullmq-paused"].level is Level.WARNING


def test_a_client_of_another_age_is_pointed_out(bull: Bull) -> None:
    official(
        bull.settings,
        lambda queue: queue.client.hset(queue.toKey("meta"), "version", "bullmq-pro:4.0.1"),
    )

    found = by_code(bull.connect().findings())["bullmq-peers"]

    assert found.level is Level.WARNING
    assert "another client is bullmq-pro:4.0.1" in found.message


@pytest.mark.parametrize(
    ("user", "failure_class"),
    [
        (f"default:not-{_SECRET}", FailureClass.CREDENTIALS),
        (f"reader:{_SECRET}", FailureClass.PERMISSION),
    ],
)
def test_who_is_not_let_in_is_told_without_the_secret(
    own_redis: StartRedis, user: str, failure_class: FailureClass
) -> None:
    server = own_redis(
        *("--user", "default", "on", f">{_SECRET}", "~*", "&*", "+@all"),
        *("--user", "reader", "on", f">{_SECRET}", "~*", "&*", "+@read", "+@connection"),
    )
    url = server.url.replace("redis://", f"redis://{user}@")
    bull = Bull(server.url)
    try:
        broker = bull.connect(url)
        with pytest.raises(TransportFailed) as caught:
            broker.transport.receive(1, timedelta(minutes=1), timedelta(0))
        assert caught.value.failure.failure_class is failure_class
        (found,) = broker.findings()

        assert found.code == f"queue-{failure_class}"
        assert found.level is Level.ERROR
        assert broker.transport.name in found.message
        said = f"{caught.value}{found}{broker.transport.name}{BullSettings(url)!r}"
        assert _SECRET not in said
    finally:
        bull.close()


def test_a_user_with_the_rights_that_the_page_names_can_do_everything(
    own_redis: StartRedis,
) -> None:
    server = own_redis(*_DURABLE)
    with bull_on(server.url) as bull:
        keys = f"~{bull.settings.prefix}:{bull.settings.queue}:*"
        rights = "+@read +@write +@connection +@scripting +@transaction +info +config|get"
        server.command("ACL", "SETUSER", "cleanup", "on", f">{_SECRET}", keys, *rights.split())
        broker = bull.connect(server.url.replace("redis://", f"redis://cleanup:{_SECRET}@"))
        transport = broker.transport

        assert list(transport.publish([message("a"), message("b")])) == [None, None]
        assert list(transport.publish([message("a")])) == [None]
        kept, back = receive(transport, 2)
        assert list(transport.extend([kept], timedelta(minutes=1))) == []
        transport.release([back])
        transport.ack([kept])
        transport.ack(receive(transport, 1))
        assert transport.receive(1, timedelta(minutes=1), timedelta(seconds=0.1)) == []
        assert broker.dead_letters is not None
        assert list(broker.dead_letters.receive(1, timedelta(minutes=1), timedelta(0))) == []
        assert {one.level for one in broker.findings()} == {Level.INFO}
