"""BullMQ's failed set: what its own limits, or a Node worker's processor, gave up on."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from bestbefore.adapters.queues.bullmq.jobs import Jobs, all_of, body
from bestbefore.ports.transport import Delivery

_PAGE = 100


class FailedJob(NamedTuple):
    """A job in the set since a moment, in BullMQ's milliseconds."""

    job_id: str
    failed_at: str


class FailedSet:
    """See `bestbefore.ports.transport.DeadLetterQueue`.

    Nobody can have a failed job for a while, as BullMQ knows no lease there. So one process does
    not hand out again what it handed out, until the lease is over; another process might, and then
    the ledger sees it twice.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._out: dict[FailedJob, float] = {}
        """Until when, in the loop's time. Changed in its thread only."""

    @property
    def name(self) -> str:
        return f"{self._jobs.name}, failed jobs"

    def receive(
        self,
        limit: int,
        lease: timedelta,
        wait: timedelta,  # noqa: ARG002 - failing is rare; nobody sleeps over it
    ) -> Sequence[Delivery]:
        return self._jobs.run(self._receive(limit, lease.total_seconds()))

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._jobs.run(self._remove([delivery.receipt for delivery in deliveries]))

    async def _receive(self, limit: int, lease: float) -> list[Delivery]:
        now = self._jobs.now()
        self._out = {job: until for job, until in self._out.items() if until > now}
        found: list[Delivery] = []
        begin = 0
        while len(found) < limit:
            ids = await self._jobs.backend.getRanges(["failed"], begin, begin + _PAGE - 1, True)
            if not ids:
                break
            for job_id, fields in zip(ids, await self._fields(ids), strict=True):
                job = FailedJob(job_id, _failed_at(fields))
                if len(found) < limit and job not in self._out:
                    self._out[job] = now + lease
                    found.append(Delivery(body(fields), job))
            begin += _PAGE
        return found

    async def _remove(self, jobs: Sequence[FailedJob]) -> None:
        fields = await self._fields([job.job_id for job in jobs])
        # What was retried, or published again, meanwhile is another matter now.
        there = [
            job for job, now in zip(jobs, fields, strict=True) if _failed_at(now) == job.failed_at
        ]
        await all_of(self._jobs.backend.remove(job.job_id, False) for job in there)
        for job in jobs:
            self._out.pop(job, None)

    async def _fields(self, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        found = await all_of(self._jobs.backend.getJobData(job_id) for job_id in ids)
        return [fields or {} for fields in found]


def _failed_at(fields: Mapping[str, Any]) -> str:
    return str(fields.get("finishedOn", ""))
