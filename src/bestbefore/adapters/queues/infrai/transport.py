"""`bestbefore.ports.transport.Transport` over Infrai's queue."""

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

from bestbefore.adapters.infrai import Drift, InfraiClient, InfraiError
from bestbefore.adapters.queues.infrai.control import MOST_RETENTION_DAYS
from bestbefore.adapters.queues.infrai.mailbox import Mailbox, Receipt
from bestbefore.adapters.queues.infrai.payloads import (
    MOST_BODY,
    MOST_BYTES,
    SURELY_FITS,
    WRAPPED,
    as_object,
    as_text,
    body_of,
    encoded_size,
)
from bestbefore.adapters.queues.infrai.uses import NACK, PUBLISH
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Capabilities, Delivery, Message, TransportFailed

CAPABILITIES = Capabilities(
    max_body=MOST_BODY,
    retention=timedelta(days=MOST_RETENTION_DAYS),
    leases=True,
    extends=False,
    fences=False,
    deduplicates=False,
    carries_any_bytes=False,
)
"""As far as it is documented: each queue's retention is what it was created with."""


class InfraiTransport(Mailbox):
    """Every message is a call of its own, several at a time. There is a batch call as well, of
    which neither the limits nor the answer are known, and whose one key could not be the same
    whenever some of its messages are tried again."""

    def __init__(
        self,
        client: InfraiClient,
        queue: str,
        closing: threading.Event,
        ensure: Callable[[], None],
        retention: Callable[[], timedelta],
    ) -> None:
        super().__init__(client, queue, closing, ensure)
        self._retention = retention
        self._nacks: bool | None = None

    @property
    def capabilities(self) -> Capabilities:
        """See the port. A message is acked by its id, so whoever lost it can still do that."""
        try:
            longest = self.longest_lease()
        except InfraiError as error:
            raise self.failed(error) from error
        return replace(
            CAPABILITIES,
            retention=self._retention(),
            longest_lease=None if longest is None else timedelta(seconds=longest),
        )

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        """See the port. However often one publishing is tried, they store it once."""
        if not messages:
            return []
        self.ready()
        answers = self.round().all(self._publish, messages)
        answers = [None if one is None else self.named(one) for one in answers]
        failures = [one for one in answers if one is not None]
        if len(failures) == len(answers) and all(
            one.failure_class is not FailureClass.MALFORMED for one in failures
        ):
            raise TransportFailed(failures[0])
        return answers

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:  # noqa: ARG002
        """Nothing: no call of theirs does this. What takes longer is delivered again meanwhile,
        and the ledger knows who has it."""
        return []

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. Where they have no nack that we know, the message is published again and
        the one in hand acked, in this order."""
        if not deliveries:
            return
        try:
            nacks = self._can_nack(deliveries[0].receipt)
        except InfraiError as error:
            raise self.failed(error) from error
        self._settle(deliveries, self._nack if nacks else self._put_back, "given back")

    def _publish(self, message: Message) -> Failure | None:
        if (size := len(message.body)) > MOST_BODY:
            return Failure(
                FailureClass.MALFORMED, f"a body has at most {MOST_BODY:,} bytes, this one {size:,}"
            )
        try:
            payload, text = as_object(message.body), as_text(message.body)
        except UnicodeDecodeError:
            return Failure(FailureClass.MALFORMED, "a body is UTF-8, this one is not")
        if size > SURELY_FITS:
            size = max(encoded_size(payload), encoded_size(text))
        if size > MOST_BYTES:
            return Failure(
                FailureClass.MALFORMED,
                f"a body has at most {MOST_BODY:,} bytes, and {MOST_BYTES:,} once its quotes are "
                f"escaped; this one {size:,}",
            )
        self.client.call(
            PUBLISH,
            {"queue": self.queue, "object": payload, "text": text},
            key=publish_key(self.queue, message),
            tries=1,
        )
        return None

    # -- giving back -------------------------------------------------------------------------

    def _can_nack(self, receipt: Receipt) -> bool:
        if self._nacks is None:
            values = self._nack_values(receipt) | {"key": receipt.nonce}
            try:
                self.client.chosen(NACK, values, tries=1)
            except Drift:
                self._nacks = False
            else:
                self._nacks = True
        return self._nacks

    def _nack_values(self, receipt: Receipt) -> dict[str, str | int | None]:
        return {**self.known_by(receipt), "delay": 0, "why": "given back"}

    def _nack(self, receipt: Receipt) -> None:
        # The nonce, as the same message may be given back again after its next delivery.
        key = f"nack-{receipt.nonce}"
        self.client.call(NACK, self._nack_values(receipt), key=key, tries=1)

    def _put_back(self, receipt: Receipt) -> None:
        text = body_of(receipt.payload).decode("utf-8", "surrogatepass")
        payload = receipt.payload if isinstance(receipt.payload, dict) else {WRAPPED: text}
        self.client.call(
            PUBLISH,
            {"queue": self.queue, "object": payload, "text": text},
            # By the message's id: given back twice, it is still stored once.
            key=f"back-{receipt.message_id or receipt.nonce}",
            tries=1,
        )
        self._ack(receipt)


def publish_key(queue: str, message: Message) -> str:
    """What one publishing is known by: the operation, and a digest of *queue* and edition, as keys
    are an account's and not a queue's. Without an edition each is another, as a message that they
    swallowed would be missed, and one too many is not."""
    edition = message.edition or secrets.token_hex(8)
    rest = sha256(f"{len(queue)}:{queue},{edition}".encode()).hexdigest()[:12]
    return f"{message.operation_id}-{rest}"
