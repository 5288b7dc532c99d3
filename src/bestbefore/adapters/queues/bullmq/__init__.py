"""BullMQ on Redis, through its official Python package: jobs that its Node clients read too."""

from bestbefore.adapters.queues.bullmq.client import BullSettings, client
from bestbefore.adapters.queues.bullmq.failed import FailedSet
from bestbefore.adapters.queues.bullmq.findings import findings
from bestbefore.adapters.queues.bullmq.jobs import Jobs
from bestbefore.adapters.queues.bullmq.scratch import BullScratch
from bestbefore.adapters.queues.bullmq.transport import BullTransport
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import Broker

__all__ = ["BullSettings", "connect", "scratch"]


def connect(settings: BullSettings) -> Broker:
    """The queue that *settings* say. Sends nothing yet."""
    jobs = Jobs(settings, client)
    transport = BullTransport(jobs)
    return Broker(transport, FailedSet(jobs), lambda: findings(jobs), transport.close)


def scratch(settings: BullSettings) -> ScratchQueue:
    """A queue of our own beside the one that *settings* name; nothing is made yet."""
    return BullScratch(settings, connect)
