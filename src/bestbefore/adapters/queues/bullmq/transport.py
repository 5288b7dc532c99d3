"""The five verbs over BullMQ's scripts: a worker that fetches, renews and settles by hand."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from bullmq import Job, UnrecoverableError

from bestbefore.adapters.queues.bullmq.jobs import Jobs, all_of, body
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Capabilities, Delivery, Message, TransportFailed

MAX_BODY = 1024 * 1024
"""Bytes. Redis would take 512 MiB, but every consumer and every script pays for what it holds."""

CAPABILITIES = Capabilities(
    max_body=MAX_BODY,
    retention=None,
    leases=True,
    extends=True,
    fences=True,
    deduplicates=True,
    carries_any_bytes=True,
)

MOST_STALLS = 20
"""How often a job may be lost by who works on it before it goes to BullMQ's failed set.

The ledger counts deliveries and stops long before. This is for what never reaches it: a job that
kills a process while it is read.
"""

STALLED_MILLISECONDS = 2_000
"""Between two looks of all consumers together for jobs whose lock has run out."""

_JOB_NAME = "command"
_LONG_AGO = 1
"""Milliseconds of the epoch."""

_PUBLISHED_TOGETHER = 500
_PUBLISHED_BYTES = 4 * 1024 * 1024
_CLAIMED_TOGETHER = 100
_LOOK_AGAIN = 2.0
"""Seconds to sleep at most, as not everything that puts a job back wakes who sleeps."""

_SHORTEST_SLEEP = 0.01
"""Seconds. Older servers round less than a millisecond to none, which is for ever to them."""


_Job = tuple[int, Message, object]
"""The place of a message among those to publish, the message, and its body as data."""


class Held(NamedTuple):
    """A job in our hands: the lock on it has the token as its value."""

    job_id: str
    token: str


class BullTransport:
    """See `bestbefore.ports.transport.Transport`."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._held: dict[str, Held] = {}
        """By token. Changed in the loop's thread only."""
        self._tokens = secrets.token_hex(8)
        self._claims = 0
        self._look_at = 0.0

    @property
    def name(self) -> str:
        return self._jobs.name

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        answers: list[Failure | None] = [None] * len(messages)
        jobs: list[_Job] = []
        for n, message in enumerate(messages):
            data = self._data(message)
            if isinstance(data, Failure):
                answers[n] = data
            else:
                jobs.append((n, message, data))
        stored = 0
        for chunk in _chunks(jobs):
            try:
                self._jobs.run(self._publish(chunk))
            except TransportFailed as failed:
                if not stored:
                    raise
                for n, _, _ in jobs[stored:]:
                    answers[n] = failed.failure
                break
            stored += len(chunk)
        return answers

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        seconds = wait.total_seconds()
        return self._jobs.run(self._receive(limit, _milliseconds(lease), seconds), seconds)

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        if not deliveries:
            return []
        held = [delivery.receipt for delivery in deliveries]
        lost = self._jobs.run(self._extend(held, _milliseconds(lease)))
        return [delivery for delivery in deliveries if delivery.receipt in lost]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._jobs.run(self._settle(self._complete, [one.receipt for one in deliveries]))

    def release(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._jobs.run(self._settle(self._give_back, [one.receipt for one in deliveries]))

    def close(self) -> None:
        """Give back what this process holds, if anybody is there to take it, and end."""
        with contextlib.suppress(TransportFailed):  # then the locks run out
            self._jobs.run(self._settle_all())
        self._jobs.close()

    def _data(self, message: Message) -> object | Failure:
        """The data of the job for *message*; or why no job can carry it, ever."""
        size = len(message.body)
        if size > MAX_BODY:
            why = f"a message of {size:,} bytes; at most {MAX_BODY:,} are published here"
        else:
            try:
                data: object = json.loads(message.body)
            except (ValueError, RecursionError):
                why = f"the message of operation {message.operation_id} is not JSON, as jobs are"
            else:
                return data
        return Failure(FailureClass.MALFORMED, f"{self.name}: {why}")

    async def _publish(self, chunk: Sequence[_Job]) -> None:
        wanted = [job_id(message.operation_id) for _, message, _ in chunk]
        backend = self._jobs.backend
        if await self._jobs.client.exists(*map(backend.toKey, wanted)):
            wanted = await all_of(map(self._free, wanted))
        options = {"removeOnComplete": True, "removeOnFail": False}
        await self._jobs.queue.addBulk(
            [
                {"name": _JOB_NAME, "data": data, "opts": {"jobId": chosen, **options}}
                for (_, _, data), chosen in zip(chunk, wanted, strict=True)
            ]
        )

    async def _free(self, wanted: str) -> str:
        """An id that a job can be added under and be delivered; *wanted*, if that is possible.

        BullMQ ignores a job whose id it knows. That is right while the first one waits. One that
        has failed, or was kept when it was done, is in the way and goes. One that is in somebody's
        hands is about to be settled, and the new one with it, so that comes under another name: two
        messages of one operation are the ledger's business, and none at all would be a loss.
        """
        backend = self._jobs.backend
        number, chosen = 1, wanted
        while (state := await backend.getState(chosen)) == "active":
            number += 1
            chosen = f"{wanted}-{number}"
        if state in {"failed", "completed"}:
            await backend.remove(chosen, False)
        return chosen

    async def _receive(self, limit: int, lease: int, seconds: float) -> list[Delivery]:
        until = self._jobs.now() + seconds
        while True:
            await self._look_for_stalled()
            found = await self._claim(limit, lease)
            left = until - self._jobs.now()
            if found or left <= 0:
                return found
            await self._jobs.backend.waitForJob(min(max(left, _SHORTEST_SLEEP), _LOOK_AGAIN))

    async def _look_for_stalled(self) -> None:
        """Have those wait again that nobody holds any more. BullMQ sees to it that all workers
        together do not look too often; this spares us the question."""
        now = self._jobs.now()
        if now >= self._look_at:
            self._look_at = now + STALLED_MILLISECONDS / 2_000
            await self._jobs.backend.moveStalledJobsToWait(MOST_STALLS, STALLED_MILLISECONDS)

    async def _claim(self, limit: int, lease: int) -> list[Delivery]:
        """Up to *limit* jobs that are there now."""
        found: list[Delivery] = []
        while len(found) < limit:
            *there, delayed = await self._jobs.backend.getCounts(["wait", "prioritized", "delayed"])
            # Asking for one is what moves delayed ones on whose time has come.
            some = min(limit - len(found), max(sum(there), min(delayed, 1)), _CLAIMED_TOGETHER)
            claims = (self._claim_one(lease) for _ in range(some))
            taken = await asyncio.gather(*claims, return_exceptions=True)
            found += [one for one in taken if isinstance(one, Delivery)]
            failed = [one for one in taken if isinstance(one, BaseException)]
            if failed and not found:
                raise failed[0]
            if not taken or failed or None in taken:
                break
        return found

    async def _claim_one(self, lease: int) -> Delivery | None:
        self._claims += 1
        token = f"{self._tokens}:{self._claims}"
        claimed = await self._jobs.backend.moveToActive(token, {"lockDuration": lease})
        fields, found = claimed[0] or {}, claimed[1]
        if not found:
            return None
        held = Held(str(found), token)
        if int(fields.get("stc", 0)) > MOST_STALLS:
            await self._give_up(held)
            return await self._claim_one(lease)
        self._held[token] = held
        return Delivery(body(fields), held)

    async def _give_up(self, held: Held) -> None:
        """Move a job to the failed set: BullMQ counts how often one stalls, and leaves the rest to
        the worker that gets it next."""
        job = Job(self._jobs.queue, _JOB_NAME, None, {}, held.job_id)
        why = f"stalled more than {MOST_STALLS} times"
        await self._unless_lost(
            held, self._jobs.backend.moveToFailed(job, why, False, held.token, False)
        )

    async def _extend(self, held: Sequence[Held], lease: int) -> set[Held]:
        lost: set[Held] = set()
        left = list(dict.fromkeys(held))
        while left:
            # One job twice, once lost and once had again: the answer names jobs, not locks.
            now = {one.job_id: one for one in left}
            gone = await self._jobs.backend.extendLocks(
                list(now), [one.token for one in now.values()], lease
            )
            lost |= {now[gone_id] for gone_id in gone}
            left = [one for one in left if now[one.job_id] is not one]
        for one in lost:
            self._held.pop(one.token, None)
        return lost

    async def _settle_all(self) -> None:
        await self._settle(self._give_back, list(self._held.values()))

    async def _settle(self, settle: Any, held: Iterable[Held]) -> None:
        await all_of(map(settle, held))

    async def _complete(self, held: Held) -> None:
        job = Job(self._jobs.queue, _JOB_NAME, None, {}, held.job_id)
        await self._unless_lost(
            held, self._jobs.backend.moveToCompleted(job, None, True, held.token, False)
        )

    async def _give_back(self, held: Held) -> None:
        # Delayed until long ago, so due whatever anybody's clock says. Moved to "wait" directly it
        # would count as an attempt, by which a Node worker decides how often to try again.
        await self._unless_lost(
            held,
            self._jobs.backend.moveToDelayed(
                held.job_id, _LONG_AGO, 0, held.token, {"skipAttempt": True}
            ),
        )

    async def _unless_lost(self, held: Held, settling: Coroutine[Any, Any, Any]) -> None:
        try:
            await settling
        except TypeError as error:  # BullMQ has no class of its own for these
            if not str(error).startswith(_REFUSED):
                raise
        except UnrecoverableError:
            pass  # somebody's parent whose children failed: it goes the way of what stalls
        self._held.pop(held.token, None)


_REFUSED = ("Missing key", "Missing lock", "Lock mismatch", "Job ")
"""How BullMQ's errors begin for a job that is gone, another's, or in no state for it."""


def job_id(operation_id: str) -> str:
    """The id of an operation's job: never only digits, which BullMQ's Node client refuses."""
    return f"op-{operation_id}"


def _chunks(jobs: Sequence[_Job]) -> Iterator[Sequence[_Job]]:
    """*jobs*, cut where so many, or so large ones, are enough for one transaction."""
    begin, size = 0, 0
    for end, (_, message, _) in enumerate(jobs):
        more = len(message.body)
        full = end - begin == _PUBLISHED_TOGETHER or size + more > _PUBLISHED_BYTES
        if end > begin and full:
            yield jobs[begin:end]
            begin, size = end, 0
        size += more
    if jobs:
        yield jobs[begin:]


def _milliseconds(lease: timedelta) -> int:
    return max(1, round(lease.total_seconds() * 1000))
