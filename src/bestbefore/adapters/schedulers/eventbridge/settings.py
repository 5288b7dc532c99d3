"""Where schedules are kept, and what they call."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from bestbefore.adapters.schedulers.eventbridge.client import Access

_REGION_IN_HOST = re.compile(r"(?:^|\.)([a-z]{2}(?:-[a-z]+)+-\d)\.")


@dataclass(frozen=True, slots=True)
class EventBridgeSettings:
    """One group of schedules, and what they call as *role_arn*: the queue *queue_url*, else
    *target_arn*, something that calls our HTTP endpoint. What could not be delivered goes to
    *dead_letter_arn*, a queue, if there is one.
    """

    role_arn: str
    access: Access
    group: str = "bestbefore"
    queue_url: str | None = None
    target_arn: str | None = None
    dead_letter_arn: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        place = f" at {self.access.endpoint_url}" if self.access.endpoint_url else ""
        return f'EventBridge schedule group "{self.group}"{place}'

    @property
    def region(self) -> str | None:
        """Where it is: as it was said, else where its target is; None leaves that to boto3."""
        if self.access.region is not None:
            return self.access.region
        if self.target_arn is not None:
            return self.target_arn.split(":")[3]
        found = _REGION_IN_HOST.search(urlsplit(self.queue_url or "").hostname or "")
        return found[1] if found else None

    @property
    def target(self) -> str:
        """The ARN of what is called. A queue's is made of its URL,
        ``https://sqs.REGION.amazonaws.com/ACCOUNT/NAME``, as who asks this need not reach it."""
        if self.target_arn is not None:
            return self.target_arn
        there = urlsplit(self.queue_url or "")
        account, _, name = there.path.strip("/").partition("/")
        in_host = _REGION_IN_HOST.search(there.hostname or "")
        region = in_host[1] if in_host else self.region or ""
        return f"arn:{self.partition}:sqs:{region}:{account}:{name}"

    @property
    def partition(self) -> str:
        """Which AWS it is: ``aws``, ``aws-cn``, ``aws-us-gov``."""
        return self.role_arn.split(":")[1]
