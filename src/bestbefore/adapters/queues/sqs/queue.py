"""The five verbs, by the ten and side by side.

SQS numbers no holders: whoever has a receipt may ack, late or not, and a late ack may or may not
do something. So this queue does not fence; the ledger does.
"""

import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple

from bestbefore.adapters.queues.sqs.attributes import Attributes, attributes
from bestbefore.adapters.queues.sqs.batches import MOST_ENTRIES, batches, tens
from bestbefore.adapters.queues.sqs.client import Connection
from bestbefore.adapters.queues.sqs.errors import LOST, ONE_MESSAGE, CallFailed, Refusal, entries
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Capabilities, Delivery, Message, TransportFailed

LONGEST_LEASE = timedelta(hours=12)
_LONGEST_SECONDS = int(LONGEST_LEASE.total_seconds())
_ALWAYS_ALLOWED = 262_144
"""Bytes that a batch could hold at all times; now it is 1 MiB, where the queue takes that."""

_UNSENDABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot carry, SQS does not."""


class Receipt(NamedTuple):
    """What one delivery is settled by. ``since`` is our clock before it was received: the limit
    of twelve hours counts from then, however often a lease is extended."""

    handle: str
    since: float


class _Letter(NamedTuple):
    """A message on its way: its position among those given, and its body."""

    position: int
    text: str
    size: int


CAPABILITIES = Capabilities(
    max_body=1024 * 1024,
    retention=timedelta(days=4),
    leases=True,
    extends=True,
    fences=False,
    deduplicates=False,
    carries_any_bytes=False,
    longest_lease=LONGEST_LEASE,
)
"""Of a new queue; each can be set to less, and to 14 days."""


class SqsQueue:
    """`bestbefore.ports.transport.Transport` on one standard queue."""

    def __init__(self, connection: Connection, place: Place) -> None:
        self._connection = connection
        self._place = place
        self._crew = connection.crew
        self._lock = threading.Lock()
        self._capabilities: Capabilities | None = None
        self._plenty = False
        """Whether the last receive got all it wanted, so that the next one need not ask first."""

    @property
    def name(self) -> str:
        """See the port."""
        return self._place.name

    @property
    def capabilities(self) -> Capabilities:
        """See the port. Who may not ask the queue for its limits gets along with SQS's defaults."""
        with self._lock:
            if self._capabilities is None:
                try:
                    said = attributes(self._connection, self._place)
                except CallFailed as failed:
                    if failed.failure.failure_class is not FailureClass.PERMISSION:
                        raise
                    said = Attributes()
                self._capabilities = replace(
                    CAPABILITIES, max_body=said.max_size, retention=said.retention
                )
            return self._capabilities

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        """See the port."""
        if not messages:
            return []
        self._refuse_fifo()
        most = self.capabilities.max_body
        answers: list[Failure | None] = [None] * len(messages)
        letters = []
        for position, message in enumerate(messages):
            letter = self._letter(position, message.body, most)
            if isinstance(letter, _Letter):
                letters.append(letter)
            else:
                answers[position] = letter
        together = max(most, _ALWAYS_ALLOWED)
        sent = list(batches(letters, lambda letter: letter.size, together))
        lost: CallFailed | None = None
        for batch, said in zip(sent, self._crew.each(self._send, sent), strict=True):
            if isinstance(said, CallFailed):
                lost = lost or said
                said = [said.failure] * len(batch)
            for letter, answer in zip(batch, said, strict=True):
                answers[letter.position] = answer
        for answer in answers:
            # What is wrong with the queue is no message's fault, and is not held against one.
            if answer is not None and answer.whole_source:
                raise TransportFailed(answer)
        if lost is not None and None not in answers:
            raise lost
        return answers

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        """See the port. Without a *wait* SQS asks only some of its servers, so that of a few
        messages it may find none."""
        if limit <= 0:
            return []
        self._refuse_fifo()
        until = monotonic() + wait.total_seconds()
        found: list[Delivery] = []
        if self._plenty and limit > MOST_ENTRIES:
            found = self._sweep(limit, lease)
        while not found:
            left = until - monotonic()
            seconds = min(self._connection.longest_poll, math.ceil(left)) if left > 0 else 0
            found = self._poll(min(limit, MOST_ENTRIES), lease, seconds)
            if len(found) == MOST_ENTRIES < limit:
                found += self._sweep(limit - MOST_ENTRIES, lease, begun=True)
            if until - monotonic() < 1:  # the unit that SQS waits in
                break
        self._plenty = len(found) == limit > MOST_ENTRIES
        return found

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        """See the port. What has been held for twelve hours is as good as lost."""
        now = monotonic()
        wanted = _seconds(lease)
        lost = set()
        changes = []
        for position, delivery in enumerate(deliveries):
            left = _LONGEST_SECONDS - math.ceil(now - delivery.receipt.since)
            if left > 0:
                changes.append((position, delivery.receipt.handle, min(wanted, left)))
            else:
                lost.add(position)
        lost |= self._change(changes)
        return [delivery for position, delivery in enumerate(deliveries) if position in lost]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See the port."""
        handles = [delivery.receipt.handle for delivery in deliveries]

        def delete(some: Sequence[str]) -> list[Refusal | None]:
            return self._batch("DeleteMessageBatch", [{"ReceiptHandle": handle} for handle in some])

        self._settled(delete, tens(handles))

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See the port."""
        self._change([(n, delivery.receipt.handle, 0) for n, delivery in enumerate(deliveries)])

    def _letter(self, position: int, body: bytes, most: int) -> _Letter | Failure:
        if len(body) > most:
            return self._too_large(len(body), most)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return self._impossible("it takes text, and this is no UTF-8")
        if not text or _UNSENDABLE.search(text):
            return self._impossible("it takes neither nothing nor characters that XML cannot carry")
        return _Letter(position, text, len(body))

    def _too_large(self, size: int, most: int) -> Failure:
        return self._impossible(f"{size:,} bytes are more than the {most:,} it takes")

    def _impossible(self, why: str) -> Failure:
        return Failure(FailureClass.MALFORMED, f"{self.name}: {why}")

    def _send(self, letters: Sequence[_Letter]) -> list[Failure | None]:
        """Each letter's own answer. Raises CallFailed for what is about none of them."""
        try:
            refusals = self._batch(
                "SendMessageBatch", [{"MessageBody": letter.text} for letter in letters]
            )
        except CallFailed as failed:
            if failed.code not in ONE_MESSAGE:
                raise
            if len(letters) == 1:
                return [self._doubted(letters[0], failed)]
            # One of them spoils the batch, and nobody says which.
            return [answer for letter in letters for answer in self._send([letter])]
        return [None if refusal is None else self._failure(refusal) for refusal in refusals]

    def _doubted(self, letter: _Letter, failed: CallFailed) -> Failure:
        """Why *letter* was refused all alone: the limit was lowered meanwhile, or nobody knows, and
        then it is not given up for good."""
        if failed.code == "InvalidMessageContents":
            return failed.failure
        with self._lock:
            self._capabilities = None
        if letter.size > (most := self.capabilities.max_body):
            return self._too_large(letter.size, most)
        return replace(failed.failure, failure_class=FailureClass.UNKNOWN)

    def _poll(self, number: int, lease: timedelta, seconds: int) -> list[Delivery]:
        since = monotonic()
        answer = self._connection.call(
            "ReceiveMessage",
            self._place,
            MaxNumberOfMessages=number,
            VisibilityTimeout=_seconds(lease),
            WaitTimeSeconds=seconds,
        )
        return [
            # Lone surrogates are no text, but an emulator may hand them out.
            Delivery(
                message.get("Body", "").encode(errors="surrogatepass"),
                Receipt(message["ReceiptHandle"], since),
            )
            for message in answer.get("Messages") or ()
        ]

    def _sweep(self, number: int, lease: timedelta, *, begun: bool = False) -> list[Delivery]:
        """Up to *number* of what is there, by many requests until one comes back empty.

        Raises CallFailed if nothing came of it; not where it was *begun* with something in hand.
        """
        empty = threading.Event()

        def some(size: int) -> list[Delivery]:
            if empty.is_set():
                return []
            got = self._poll(size, lease, 0)
            if not got:
                empty.set()
            return got

        sizes = [len(ten) for ten in tens(range(number))]
        found: list[Delivery] = []
        failed: CallFailed | None = None
        for got in self._crew.each(some, sizes):
            if isinstance(got, CallFailed):
                failed = got
            else:
                found += got
        if failed is not None and not found and not begun:
            raise failed
        return found

    def _change(self, changes: Sequence[tuple[int, str, int]]) -> set[int]:
        """Set visibilities, in seconds from now; returns the positions of what was lost."""

        def change(some: Sequence[tuple[int, str, int]]) -> list[Refusal | None]:
            return self._batch(
                "ChangeMessageVisibilityBatch",
                [
                    {"ReceiptHandle": handle, "VisibilityTimeout": seconds}
                    for _, handle, seconds in some
                ],
            )

        lost = self._settled(change, tens(changes))
        return {changes[n][0] for n in lost}

    def _settled(
        self, settle: Callable[[Any], list[Refusal | None]], some: Sequence[Sequence[Any]]
    ) -> list[int]:
        """Settle all, whatever becomes of some; returns the positions of what was lost already.

        Raises TransportFailed at the end if anything else went wrong.
        """
        lost: list[int] = []
        failure: Failure | None = None
        position = 0
        for batch, refusals in zip(some, self._crew.each(settle, some), strict=True):
            if isinstance(refusals, CallFailed):
                failure = refusals.failure
            else:
                for n, refusal in enumerate(refusals):
                    if refusal is not None and refusal.code in LOST:
                        lost.append(position + n)
                    elif refusal is not None:
                        failure = self._failure(refusal)
            position += len(batch)
        if failure is not None:
            raise TransportFailed(failure)
        return lost

    def _batch(self, operation: str, what: Iterable[Mapping[str, object]]) -> list[Refusal | None]:
        numbered = [{"Id": str(n), **entry} for n, entry in enumerate(what)]
        answer = self._connection.call(operation, self._place, Entries=numbered)
        return entries(answer, len(numbered))

    def _failure(self, refusal: Refusal) -> Failure:
        return refusal.failure(self.name, self._connection.region)

    def _refuse_fifo(self) -> None:
        if self._place.fifo:
            raise TransportFailed(
                Failure(FailureClass.MALFORMED, f"{self.name}: {WHY_NO_FIFO}", whole_source=True)
            )


WHY_NO_FIFO = (
    "it is a FIFO queue, where one message that is not done holds up all behind it, and what is "
    "published again within five minutes is dropped; expected a standard queue"
)


def _seconds(lease: timedelta) -> int:
    """*lease* as SQS counts it: never nothing, which would be none at all."""
    return max(1, min(_LONGEST_SECONDS, math.ceil(lease.total_seconds())))
