"""Infrai: on a stand-in, beside the loop of single calls that somebody would write with httpx."""

import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx

from bench.queues import LEASE, Ours, Side
from bestbefore.adapters.queues.infrai import InfraiQueueSettings, connect
from bestbefore.adapters.queues.infrai.mailbox import AT_A_TIME
from bestbefore.ports.transport import Message


@contextmanager
def sides() -> Iterator[dict[str, Side]]:
    """See the package. The vendor itself is not measured: what it takes is the network's."""
    from support.infrai_process import infrai_process, new_queue

    with ExitStack() as stack:
        base_url = stack.enter_context(infrai_process())
        broker = connect(new_queue(base_url))
        stack.callback(broker.close)
        client = stack.enter_context(httpx.Client(timeout=30))
        threads = stack.enter_context(ThreadPoolExecutor(AT_A_TIME))
        yield {
            "bestbefore": Anew(broker.transport),
            f"httpx, {AT_A_TIME} threads": Bare(client, new_queue(base_url), threads),
        }


class Anew(Ours):
    """Ours, each round of which publishes the same operations once more."""

    def publish(self, messages: Sequence[Message]) -> None:
        edition = uuid.uuid4().hex
        super().publish([message._replace(edition=edition) for message in messages])


class Bare:
    """Call after call, in as many threads as ours; nothing is looked up, nor checked."""

    def __init__(
        self, client: httpx.Client, settings: InfraiQueueSettings, threads: ThreadPoolExecutor
    ) -> None:
        self._client = client
        self._settings = settings
        self._threads = threads

    def publish(self, messages: Sequence[Message]) -> None:
        def send(message: Message) -> None:
            self._call("publish", {"payload": message.body.decode()}, uuid.uuid4().hex)

        list(self._threads.map(send, messages))

    def settle(self, number: int) -> None:
        lock, left = threading.Lock(), [number]
        asked = {"max_messages": 25, "visibility_timeout": int(LEASE.total_seconds())}

        def work(_: int) -> None:
            while left[0] > 0:
                got = self._call("consume", asked)["messages"]
                for one in got:
                    key = f"ack-{one['message_id']}"
                    self._call("ack", {"message_id": one["message_id"]}, key)
                if not got:
                    return
                with lock:
                    left[0] -= len(got)

        list(self._threads.map(work, range(AT_A_TIME)))
        assert left == [0], left

    def _call(self, verb: str, body: dict[str, Any], key: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._settings.api_key}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        answer = self._client.post(
            f"{self._settings.base_url}/queue/{verb}",
            json={"queue": self._settings.queue} | body,
            headers=headers,
        )
        answer.raise_for_status()
        said = answer.json()
        assert said["ok"], said
        return said["data"]
