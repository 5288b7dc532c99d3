"""What only a broker with connections does: it is cut off, killed, full, out of memory."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import dead_letter_arguments, queue_arguments
from bestbefore.contracts.transport import AT_ONCE, MINUTE, message, name_of, names_until, receive
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Transport, TransportFailed
from support.forks import until
from support.proxy import Proxy
from support.rabbitmq import Node, Rabbit

SOON = timedelta(seconds=5)
_HOLDER = """
import sys, time
from datetime import timedelta
from bestbefore.adapters.queues.rabbitmq import RabbitSettings, connect
transport = connect(RabbitSettings(*sys.argv[1:])).transport
got = transport.receive(10, timedelta(minutes=1), timedelta(seconds=20))
print(len(got), flush=True)
time.sleep(600)
"""


@pytest.fixture
def proxy(rabbit: Rabbit) -> Iterator[Proxy]:
    with Proxy(rabbit.address) as proxy:
        yield proxy


def _published(transport: Transport, *names: str) -> None:
    assert not any(transport.publish([message(name) for name in names]))


def _tried(transport: Transport, names: list[str]) -> list[str]:
    """Which of *names* the broker has confirmed."""
    answers: Sequence[Failure | None]
    try:
        answers = transport.publish([message(name) for name in names])
    except TransportFailed as failed:
        answers = [failed.failure] * len(names)
    failures = {answer.failure_class for answer in answers if answer is not None}
    assert failures <= {FailureClass.TRANSIENT}
    return [name for name, answer in zip(names, answers, strict=True) if answer is None]


def test_a_message_is_persistent_and_carries_its_operations_id(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    sent = message("a")
    assert not any(rabbit.broker(queue).transport.publish([sent]))

    found = rabbit.look(queue)

    assert found.delivery_mode == 2
    assert found.message_id == sent.operation_id


def test_a_broker_that_is_killed_loses_nothing_that_it_confirmed(
    own_rabbit: Rabbit, rabbitmq_node: Node
) -> None:
    """P4: killed in the middle of a batch, with messages in a worker's hands."""
    queue = own_rabbit.name()
    transport = own_rabbit.broker(queue).transport
    assert not transport.receive(1, MINUTE, AT_ONCE)
    # Which queues it has, 3.10 keeps to itself for minutes: one that is younger is gone with all
    # its messages when the broker is killed.
    rabbitmq_node.restart()
    until(lambda: _works(transport))
    early = [f"early {n}" for n in range(20)]
    _published(transport, *early)
    held = receive(transport, 20)
    confirmed: list[str] = []
    under_way = threading.Event()

    def publish() -> None:
        for batch in range(200):
            names = [f"{batch} {n}" for n in range(50)]
            done = _tried(transport, names)
            confirmed.extend(done)
            under_way.set()
            if len(done) < len(names):
                return

    publishing = threading.Thread(target=publish)
    publishing.start()
    assert under_way.wait(30)
    rabbitmq_node.kill()
    publishing.join(60)
    assert not publishing.is_alive()

    until(lambda: transport.extend(held, MINUTE), what="the loss of the connection")
    assert list(transport.extend(held, MINUTE)) == held
    transport.ack(held)
    transport.release(held)
    with pytest.raises(TransportFailed) as caught:
        transport.receive(1, MINUTE, AT_ONCE)
    assert caught.value.failure.failure_class is FailureClass.TRANSIENT
    rabbitmq_node.start()

    seen = names_until(until(lambda: _works(transport)), {*early, *confirmed}, MINUTE)
    assert {seen[name] for name in early} == {1}


def _works(transport: Transport) -> Transport | None:
    try:
        transport.release(transport.receive(1, MINUTE, AT_ONCE))
    except TransportFailed:
        return None
    return transport


def test_a_connection_that_is_cut_loses_nothing(rabbit: Rabbit, proxy: Proxy) -> None:
    """P4: with messages in hand, and others on their way, of which nobody knows whether they
    arrived."""
    queue = rabbit.name()
    transport = rabbit.broker(queue, url=rabbit.proxied(proxy)).transport
    _published(transport, *(f"held {n}" for n in range(10)))
    held = receive(transport, 10)
    confirmed: list[str] = []
    begun = threading.Event()

    def publish() -> None:
        for batch in range(100):
            names = [f"{batch} {n}" for n in range(100)]
            begun.set()
            done = _tried(transport, names)
            confirmed.extend(done)
            if len(done) < len(names):
                return

    publishing = threading.Thread(target=publish)
    publishing.start()
    assert begun.wait(30)
    proxy.go()
    publishing.join(60)
    assert not publishing.is_alive()
    until(lambda: len(transport.extend(held, MINUTE)) == len(held), what="the loss")

    proxy.come()

    wanted = {*confirmed, *(f"held {n}" for n in range(10))}
    assert names_until(until(lambda: _works(transport)), wanted, MINUTE).keys() >= wanted


def test_while_nobody_answers_calls_fail_for_now_and_work_again_by_themselves(
    rabbit: Rabbit, proxy: Proxy
) -> None:
    transport = rabbit.broker(rabbit.name(), url=rabbit.proxied(proxy)).transport
    _published(transport, "a")

    proxy.go()
    for _ in range(3):
        with pytest.raises(TransportFailed) as caught:
            transport.receive(1, MINUTE, AT_ONCE)
        assert caught.value.failure.failure_class is FailureClass.TRANSIENT
        assert _tried(transport, ["b"]) == []
    proxy.come()

    until(lambda: _tried(transport, ["c"]))
    assert names_until(transport, {"a", "c"}, MINUTE)["a"] == 1


def test_who_waits_for_a_message_hears_at_once_that_the_connection_is_lost(
    rabbit: Rabbit, proxy: Proxy
) -> None:
    transport = rabbit.broker(rabbit.name(), url=rabbit.proxied(proxy)).transport
    assert not transport.receive(1, MINUTE, AT_ONCE)
    failures: list[TransportFailed] = []

    def wait() -> None:
        try:
            transport.receive(1, MINUTE, timedelta(minutes=5))
        except TransportFailed as failed:
            failures.append(failed)

    waiting = threading.Thread(target=wait)
    waiting.start()
    proxy.go()
    waiting.join(30)

    assert not waiting.is_alive()
    assert [failed.failure.failure_class for failed in failures] == [FailureClass.TRANSIENT]
    proxy.come()
    until(lambda: _works(transport))


def test_what_a_killed_process_had_comes_back(rabbit: Rabbit) -> None:
    """P4"""
    queue = rabbit.name()
    transport = rabbit.broker(queue).transport
    names = [str(n) for n in range(10)]
    _published(transport, *names)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, rabbit.url, queue], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) > 0
        holder.kill()

    seen = names_until(transport, names, MINUTE)

    assert seen == Counter(names)


def test_acks_of_one_thread_touch_nothing_of_another(rabbit: Rabbit) -> None:
    """Many are acked with one frame: up to a number, on a channel that several threads use."""
    queue = rabbit.name()
    broker = rabbit.broker(queue)
    names = [f"{n:02}" for n in range(40)]
    _published(broker.transport, *names)
    hands = [receive(broker.transport, 10) for _ in range(4)]
    first, second, third, fourth = hands
    assert [len(hand) for hand in hands] == [10] * 4

    broker.transport.ack([*second, first[3], fourth[9]])
    broker.transport.ack([*second, *third[:5]])
    broker.transport.ack(first[:3])

    left = {*map(name_of, [*first[4:], *third[5:], *fourth[:9]])}
    broker.close()
    assert names_until(rabbit.broker(queue).transport, left, MINUTE) == Counter(left)


def test_nothing_is_fetched_that_nobody_asked_for(rabbit: Rabbit) -> None:
    """O-LEASE-03, O-LEASE-04: what a process does not work on is another one's at once."""
    queue = rabbit.name()
    busy = rabbit.broker(queue).transport
    names = [f"{n:02}" for n in range(20)]
    _published(busy, *names)
    mine = receive(busy, 5)

    busy.ack(mine[:4])

    others = set(names) - set(map(name_of, mine))
    assert names_until(rabbit.broker(queue).transport, others, MINUTE) == Counter(others)


def test_closing_gives_back_what_is_in_hand_and_can_be_done_twice(rabbit: Rabbit) -> None:
    """O-LEASE-04"""
    queue = rabbit.name()
    broker = rabbit.broker(queue)
    _published(broker.transport, "a", "b")
    assert len(receive(broker.transport, 2)) == 2

    broker.close()
    broker.close()

    until(lambda: rabbit.count(queue) == 2, what="that both are back")
    with pytest.raises(TransportFailed, match="closed"):
        broker.transport.receive(1, MINUTE, AT_ONCE)
    assert not [one for one in threading.enumerate() if "rabbitmq" in one.name]


def test_a_message_beyond_its_delivery_limit_waits_among_the_dead_letters(rabbit: Rabbit) -> None:
    """The broker's own limit is a safety net: nothing that falls into it is gone."""
    queue = rabbit.name()
    settings = rabbit.settings(queue)
    rabbit.declare(settings.dead_letters, dead_letter_arguments())
    rabbit.declare(queue, queue_arguments(settings) | {"x-delivery-limit": 2})
    broker = rabbit.broker(queue)
    assert broker.dead_letters is not None
    poison = b'{"bucket": \xff'
    rabbit.put(queue, poison)

    for _ in range(3):
        broker.transport.release(receive(broker.transport, 1))

    (dead,) = broker.dead_letters.receive(10, MINUTE, timedelta(seconds=20))
    assert dead.body == poison
    broker.dead_letters.ack([dead])
    broker.close()
    assert rabbit.count(queue) == rabbit.count(settings.dead_letters) == 0


def test_a_dead_letter_that_nobody_acked_is_still_there(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    broker = rabbit.broker(queue)
    assert broker.dead_letters is not None
    assert not broker.dead_letters.receive(1, MINUTE, AT_ONCE)
    rabbit.put(f"{queue}.dead", b"a")
    assert len(broker.dead_letters.receive(1, MINUTE, SOON)) == 1

    broker.close()

    until(lambda: rabbit.count(f"{queue}.dead") == 1, what="that it is back")


def test_a_queue_that_is_full_refuses_each_message_by_itself(rabbit: Rabbit) -> None:
    """No batch is all or nothing: what was taken is not published again."""
    queue = rabbit.name()
    rabbit.declare(queue, queue_arguments(rabbit.settings(queue)) | {"x-max-length": 50})
    transport = rabbit.broker(queue).transport
    names = [f"{n:04}" for n in range(2_000)]

    taken = _tried(transport, names)

    assert 50 <= len(taken) < len(names)
    assert names_until(transport, taken, MINUTE) == Counter(taken)


def test_what_nobody_is_there_to_keep_counts_as_failed_and_the_queue_is_made_again(
    rabbit: Rabbit,
) -> None:
    queue = rabbit.name()
    transport = rabbit.broker(queue).transport
    _published(transport, "a")
    rabbit.delete(queue)

    assert _tried(transport, ["b", "c"]) == []

    _published(transport, "d")
    assert names_until(transport, ["d"], MINUTE) == Counter("d")


def test_a_queue_that_was_deleted_under_a_consumer_is_made_again(rabbit: Rabbit) -> None:
    queue = rabbit.name()
    transport = rabbit.broker(queue).transport
    assert not transport.receive(1, MINUTE, AT_ONCE)
    rabbit.delete(queue)

    with pytest.raises(TransportFailed, match=queue):
        transport.receive(1, MINUTE, AT_ONCE)

    assert not transport.receive(1, MINUTE, AT_ONCE)
    assert rabbit.exists(queue)


def test_a_broker_without_memory_throttles_who_publishes_and_nobody_else(
    own_rabbit: Rabbit, rabbitmq_node: Node
) -> None:
    queue = own_rabbit.name()
    _published(own_rabbit.broker(queue).transport, "before")
    transport = own_rabbit.broker(queue, confirm_seconds=1).transport
    rabbitmq_node.ctl("set_vm_memory_high_watermark", "0")

    answers = [transport.publish([message(name)])[0] for name in ("first", "second")]

    for answer in answers:
        assert answer is not None
        assert answer.failure_class is FailureClass.THROTTLED
        assert "memory" in answer.error
    assert names_until(transport, ["before"], MINUTE) == Counter(["before"])
    rabbitmq_node.ctl("set_vm_memory_high_watermark", "0.4")
    until(lambda: _published_now(transport, "after"))
    # More than one where the broker took more than that second to confirm it.
    assert names_until(transport, ["after"], MINUTE)["after"] >= 1


def _published_now(transport: Transport, name: str) -> bool:
    try:
        return not any(transport.publish([message(name)]))
    except TransportFailed:
        return False


def test_no_password_is_in_any_text(rabbit: Rabbit) -> None:
    secret = "correct-horse-battery"
    url = rabbit.url.replace(":guest@", f":{secret}@")
    broker = rabbit.broker(rabbit.name(), url=url)

    with pytest.raises(TransportFailed) as caught:
        broker.transport.publish([message("a")])
    texts = [
        str(caught.value),
        repr(caught.value),
        repr(caught.value.__cause__),
        repr(RabbitSettings(url)),
        broker.transport.name,
        repr(broker.findings()),
    ]

    assert caught.value.failure.failure_class is FailureClass.CREDENTIALS
    assert [finding.code for finding in broker.findings()] == ["queue-credentials"]
    assert not [text for text in texts if secret in text]


def test_no_client_is_imported_before_the_adapter_is(tmp_path: Path) -> None:
    code = "import json, sys, bestbefore.app.system; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=tmp_path
    )

    assert not {"aio_pika", "aiormq"} & set(json.loads(done.stdout))
