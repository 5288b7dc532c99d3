"""A queue of our own beside the configured one, under the same prefix."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bestbefore.adapters.queues.bullmq.client import BullSettings, client
from bestbefore.adapters.queues.bullmq.jobs import Jobs, name_of
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.scratch import BESIDE
from bestbefore.ports.transport import Broker, TransportFailed

_MOST_EVENTS = "10000"
"""As BullMQ's Node client writes it when it opens a queue: there is nothing else of an empty one.
"""


class BullScratch:
    """`bestbefore.ports.scratch.ScratchQueue`; its failed set is part of it. *connect* is the
    adapter's own."""

    def __init__(self, settings: BullSettings, connect: Callable[[BullSettings], Broker]) -> None:
        self._settings = replace(settings, queue=f"{settings.queue}{BESIDE}")
        self._connect = connect
        self.name = name_of(self._settings)

    def exists(self) -> bool:
        """See the port."""
        with self._jobs() as jobs:
            return bool(jobs.run(_keys(jobs)))

    def create(self) -> None:
        """See the port."""
        with self._jobs() as jobs:
            jobs.run(_begun(jobs))

    def connect(self) -> Broker:
        """See the port."""
        return self._connect(self._settings)

    def remove(self) -> None:
        """See the port. Whatever somebody has in hand goes as well."""
        with self._jobs() as jobs:
            jobs.run(jobs.queue.obliterate(force=True))

    @contextmanager
    def _jobs(self) -> Iterator[Jobs]:
        jobs = Jobs(self._settings, client)
        try:
            yield jobs
        except TransportFailed as failed:
            if failed.failure.failure_class is not FailureClass.PERMISSION:
                raise
            error = (
                f"{failed.failure.error}; a scratch queue is made and removed here: give this user "
                f"the same rights on the keys {self._settings.prefix}:{self._settings.queue}:*"
            )
            raise TransportFailed(replace(failed.failure, error=error)) from failed
        finally:
            jobs.close()


async def _keys(jobs: Jobs) -> int:
    """How many of a queue's own keys there are."""
    return int(await jobs.client.exists(*jobs.queue.keys.values()))


async def _begun(jobs: Jobs) -> None:
    await jobs.client.hset(jobs.queue.keys["meta"], "opts.maxLenEvents", _MOST_EVENTS)
