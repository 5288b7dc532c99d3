"""BullMQ on Redis servers that die, forget, evict or refuse, and consumers that are killed."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from bullmq import Job, Queue

from bestbefore.adapters.queues.bullmq.transport import MOST_STALLS, job_id
from bestbefore.contracts.transport import message, name_of, names_until, receive
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.transport import Transport, TransportFailed
from support.bull import Bull, OwnRedis, bull_on, official
from support.forks import Forks
from support.proxy import Proxy

AT_ONCE = timedelta(0)
SHORT = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

StartRedis = Callable[..., OwnRedis]


def published(transport: Transport, *names: str) -> None:
    assert list(transport.publish([message(name) for name in names])) == [None] * len(names)


def lose(bull: Bull, transport: Transport, most: int = MOST_STALLS) -> None:
    """Have the job that *transport* gets next come back, as from a consumer that died; who looks
    for such jobs gives up after *most* times."""
    receive(transport, 1, timedelta(milliseconds=1))

    async def look(queue: Queue) -> None:
        while not await queue.backend.moveStalledJobsToWait(most, 1):
            pass

    official(bull.settings, look)


@pytest.fixture
def durable(own_redis: StartRedis) -> Iterator[tuple[OwnRedis, Bull]]:
    """A server that has written what it confirmed, and a queue on it."""
    server = own_redis("--appendonly", "yes", "--appendfsync", "always")
    with bull_on(server.url) as bull:
        yield server, bull


def test_a_server_that_is_killed_mid_batch_loses_nothing(durable: tuple[OwnRedis, Bull]) -> None:
    """P4"""
    server, bull = durable
    transport = bull.connect().transport
    names = [f"{n:03}" for n in range(300)]
    published(transport, *names)
    held = receive(transport, 100, timedelta(seconds=5))
    transport.ack(held[:50])

    server.kill()
    with pytest.raises(TransportFailed) as caught:
        transport.ack(held[50:])
    assert caught.value.failure.failure_class is FailureClass.TRANSIENT
    with pytest.raises(TransportFailed):
        transport.receive(10, MINUTE, AT_ONCE)
    with pytest.raises(TransportFailed):
        transport.publish([message("not there")])
    server.start()

    left = set(names) - {name_of(delivery) for delivery in held[:50]}
    assert names_until(transport, left, MINUTE) == Counter(left)


def test_locks_outlive_a_server_that_is_started_again(durable: tuple[OwnRedis, Bull]) -> None:
    """P3: what somebody works on is nobody else's, and can be settled."""
    server, bull = durable
    transport = bull.connect().transport
    published(transport, "held", "left")
    held = [one for one in receive(transport, 2) if name_of(one) == "held"]

    server.kill()
    server.start()

    assert list(transport.extend(held, MINUTE)) == []
    transport.ack(held)
    assert bull.state(job_id(message("held").operation_id)) == "unknown"


def test_a_connection_that_is_cut_comes_back_by_itself(bull: Bull) -> None:
    with Proxy(("127.0.0.1", _port(bull.settings.url))) as proxy:
        transport = bull.connect(f"redis://127.0.0.1:{proxy.port}/0").transport
        published(transport, "a")
        failed: list[TransportFailed] = []
        got: list[str] = []

        def wait() -> None:
            try:
                while True:
                    got.extend(name_of(one) for one in transport.receive(1, MINUTE, MINUTE))
            except TransportFailed as error:
                failed.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not got:
            assert waiting.is_alive()
        proxy.go()
        waiting.join(30)
        assert [one.failure.failure_class for one in failed] == [FailureClass.TRANSIENT]
        with pytest.raises(TransportFailed):
            transport.publish([message("b")])

        proxy.come()

        published(transport, "b")
        assert names_until(transport, {"b"}, MINUTE) == Counter("b")


def test_a_lock_lost_mid_work_is_noticed_and_harms_nobody(bull: Bull) -> None:
    """O-LEASE-01, O-LEASE-02"""
    slow, other = bull.connect().transport, bull.connect().transport
    published(slow, "a")
    late = receive(slow, 1, SHORT)
    held = receive(other, 1)

    assert list(slow.extend(late, MINUTE)) == late
    slow.release(late)
    slow.ack(late)
    assert bull.state(held[0].receipt.job_id) == "active"

    other.ack(held)
    assert bull.state(held[0].receipt.job_id) == "unknown"


def test_one_process_that_has_a_job_twice_knows_which_lock_is_lost(bull: Bull) -> None:
    transport = bull.connect().transport
    published(transport, "a")
    late = receive(transport, 1, SHORT)
    held = receive(transport, 1)

    assert list(transport.extend([*late, *held], MINUTE)) == late
    assert list(transport.extend([*held, *late], MINUTE)) == late


def test_what_a_killed_consumer_held_comes_back(bull: Bull, forks: Forks, tmp_path: Path) -> None:
    """P4"""
    transport = bull.connect().transport
    published(transport, *"abcde")
    where = [bull.settings.url, bull.settings.queue, "2"]
    child = forks.start("support.bull:hold", where, cwd=tmp_path)
    while not (child.out.exists() and child.out.read_text().endswith("\n")):
        assert child.running, child.said()
    assert sorted(child.out.read_text().split()) == sorted("abcde")

    child.kill()
    child.wait()

    assert names_until(transport, set("abcde"), MINUTE) == Counter("abcde")


def test_a_consumer_that_ends_gives_back_what_it_holds(bull: Bull) -> None:
    """O-LEASE-04"""
    ending = bull.connect()
    published(ending.transport, *"abc")
    receive(ending.transport, 3, timedelta(minutes=30))

    ending.close()

    assert names_until(bull.connect().transport, set("abc"), MINUTE) == Counter("abc")
    with pytest.raises(TransportFailed, match="it was closed"):
        ending.transport.receive(1, MINUTE, AT_ONCE)


def test_who_waits_is_told_when_its_queue_is_closed(bull: Bull) -> None:
    broker = bull.connect()
    failed: list[TransportFailed] = []

    def wait() -> None:
        try:
            while True:
                broker.transport.receive(1, MINUTE, MINUTE)
        except TransportFailed as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    published(broker.transport, "a")
    broker.close()

    waiting.join(30)
    assert len(failed) == 1


def test_a_job_that_is_lost_too_often_becomes_a_dead_letter(bull: Bull) -> None:
    """O-LEASE-05, O-POISON-01: after MOST_STALLS it is given to nobody."""
    broker = bull.connect()
    transport, dead_letters = broker.transport, broker.dead_letters
    assert dead_letters is not None
    sent = message("a")
    published(transport, "a")
    official(
        bull.settings,
        lambda queue: queue.client.hset(queue.toKey(job_id(sent.operation_id)), "stc", MOST_STALLS),
    )
    lose(bull, transport)
    published(transport, "b")

    assert names_until(transport, {"b"}, MINUTE) == Counter("b")

    (dead,) = dead_letters.receive(10, MINUTE, AT_ONCE)
    assert dead.body == sent.body
    assert list(dead_letters.receive(10, MINUTE, AT_ONCE)) == []
    dead_letters.ack([dead])
    assert bull.state(job_id(sent.operation_id)) == "unknown"
    published(transport, "a")
    assert names_until(transport, {"a"}, MINUTE) == Counter("a")


def test_what_another_client_would_give_up_on_sooner_is_delivered(bull: Bull) -> None:
    """A Node worker's look marks what stalled twice; the ledger has its own count."""
    transport = bull.connect().transport
    published(transport, "a")

    lose(bull, transport, most=0)

    assert names_until(transport, {"a"}, MINUTE) == Counter("a")


def test_dead_letters_are_handed_out_again_after_their_lease(bull: Bull) -> None:
    broker = bull.connect()
    assert broker.dead_letters is not None
    _fail(bull, broker.transport, *(f"{n:03}" for n in range(250)))

    first = broker.dead_letters.receive(200, AT_ONCE, AT_ONCE)
    again = broker.dead_letters.receive(1_000, MINUTE, AT_ONCE)

    assert len({name_of(one) for one in first}) == 200
    assert len({name_of(one) for one in again}) == 250
    broker.dead_letters.ack(again)
    broker.dead_letters.ack(again)
    assert list(broker.dead_letters.receive(10, MINUTE, AT_ONCE)) == []


def test_neither_a_failed_nor_a_kept_job_is_in_the_way_of_a_new_one(bull: Bull) -> None:
    transport = bull.connect().transport
    _fail(bull, transport, "failed")
    published(transport, "kept")
    (kept,) = receive(transport, 1)

    async def keep(queue: Queue) -> None:
        job = Job(queue, "command", None, {}, kept.receipt.job_id)
        await queue.backend.moveToCompleted(job, None, False, kept.receipt.token, False)

    official(bull.settings, keep)
    assert bull.state(kept.receipt.job_id) == "completed"

    published(transport, "failed", "kept")

    assert names_until(transport, {"failed", "kept"}, MINUTE) == Counter(["failed", "kept"])


def test_what_is_published_while_its_last_message_is_in_somebodys_hands_arrives(bull: Bull) -> None:
    """A retry can be due before the message of the last try is acked: it must not go with it."""
    transport = bull.connect().transport
    published(transport, "a")
    first = receive(transport, 1)
    published(transport, "a")
    second = receive(transport, 1)
    published(transport, "a")
    published(transport, "a")

    transport.ack([*first, *second])

    assert names_until(transport, {"a"}, MINUTE) == Counter("a")
    assert transport.receive(1, MINUTE, AT_ONCE) == []


def test_a_job_without_data_is_a_message_without_bytes(bull: Bull) -> None:
    """O-MSG-01"""
    transport = bull.connect().transport

    async def orphan(queue: Queue) -> None:
        await queue.client.lpush(queue.toKey("wait"), "nobody")

    official(bull.settings, orphan)
    published(transport, "a")

    got = receive(transport, 2, ack=True)

    assert sorted(delivery.body for delivery in got) == [b"", message("a").body]
    assert bull.state("nobody") == "unknown"


def test_a_message_that_is_not_json_is_refused_alone(bull: Bull) -> None:
    transport = bull.connect().transport
    odd = message("odd")._replace(body=b"hello")

    first, refused = transport.publish([message("a"), odd])

    assert first is None
    assert refused is not None
    assert refused.failure_class is FailureClass.MALFORMED
    assert "not JSON" in refused.error
    assert names_until(transport, {"a"}, MINUTE) == Counter("a")


def test_a_paused_queue_gives_nothing_until_it_is_resumed(bull: Bull) -> None:
    transport = bull.connect().transport
    official(bull.settings, lambda queue: queue.pause())
    published(transport, "a")

    assert transport.receive(1, MINUTE, AT_ONCE) == []

    official(bull.settings, lambda queue: queue.resume())
    assert names_until(transport, {"a"}, MINUTE) == Counter("a")


def test_a_full_server_takes_nothing_and_loses_nothing(own_redis: StartRedis) -> None:
    server = own_redis("--maxmemory-policy", "noeviction")
    with bull_on(server.url) as bull:
        transport = bull.connect().transport
        published(transport, "a")
        server.command("CONFIG", "SET", "maxmemory", "1")

        with pytest.raises(TransportFailed) as caught:
            transport.publish([message("b")])
        assert caught.value.failure.failure_class is FailureClass.TRANSIENT
        assert "memory" in caught.value.failure.error
        assert "filling" not in caught.value.failure.error

        server.command("CONFIG", "SET", "maxmemory", "0")
        published(transport, "b")
        assert names_until(transport, {"a", "b"}, MINUTE) == Counter("ab")


def _fail(bull: Bull, transport: Transport, *names: str) -> None:
    """Move messages to the failed set, as a worker of somebody else would."""
    published(transport, *names)
    got = receive(transport, len(names))

    async def fail(queue: Queue) -> None:
        for delivery in got:
            job = Job(queue, "command", None, {}, delivery.receipt.job_id)
            token = delivery.receipt.token
            await queue.backend.moveToFailed(job, "no idea", False, token, False)

    official(bull.settings, fail)


def _port(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.connection_pool.connection_kwargs.get("port", 6379))
