"""SQS: on fauxqs, beside the loop of batches that somebody would write with boto3."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.queues import LEASE, LeftOut, Ours, Side
from bestbefore.adapters.queues.sqs import connect
from bestbefore.adapters.queues.sqs.crew import SIZE
from bestbefore.ports.transport import Message


@contextmanager
def sides() -> Iterator[dict[str, Side]]:
    """See the package."""
    from support.node import NoNode
    from support.sqs_servers import bare_client, fauxqs

    with ExitStack() as stack:
        try:
            server = stack.enter_context(fauxqs())
        except NoNode as why:
            raise LeftOut(str(why)) from why
        broker = connect(server.settings(server.queue()))
        stack.callback(broker.close)
        client = bare_client(server.endpoint, connections=SIZE)
        stack.callback(client.close)
        threads = stack.enter_context(ThreadPoolExecutor(SIZE))
        yield {
            "bestbefore": Ours(broker.transport),
            f"boto3, {SIZE} threads": Bare(client, server.queue(), threads),
        }


class Bare:
    """Batches of ten, in as many threads as ours."""

    def __init__(self, client: Any, url: str, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._url = url
        self._threads = threads

    def publish(self, messages: Sequence[Message]) -> None:
        def send(start: int) -> None:
            entries = [
                {"Id": str(n), "MessageBody": one.body.decode()}
                for n, one in enumerate(messages[start : start + 10])
            ]
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
            assert not answer.get("Failed")

        list(self._threads.map(send, range(0, len(messages), 10)))

    def settle(self, number: int) -> None:
        lock = threading.Lock()
        left = [number]

        def work(_: int) -> None:
            while left[0] > 0:
                answer = self._client.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=10,
                    VisibilityTimeout=int(LEASE.total_seconds()),
                )
                got = answer.get("Messages", [])
                if not got:
                    return
                entries = [
                    {"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]}
                    for n, one in enumerate(got)
                ]
                answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
                assert not answer.get("Failed")
                with lock:
                    left[0] -= len(got)

        list(self._threads.map(work, range(SIZE)))
        assert left == [0], left
