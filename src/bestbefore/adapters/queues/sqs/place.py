"""Where a queue is: what its URL says, and what people may be shown of it."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_REGIONAL = re.compile(
    r"(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws|vpce\.amazonaws\.com)$"
)
_LEGACY = re.compile(r"^(?:([a-z0-9-]+)\.)?queue\.amazonaws\.com$")
"""Names that older SDKs were given. They belong to a protocol that newer ones do not speak."""


@dataclass(frozen=True, slots=True)
class Place:
    """A queue's address, without the user and password that its URL may have been written with."""

    url: str

    @classmethod
    def of(cls, url: str, key: str) -> "Place":
        """The place at *url*, which the setting *key* holds; raises ValueError."""
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/")
        if parts.scheme not in ("http", "https") or not host or not path:
            shown = f"{parts.scheme}://{host}{parts.path}" if host else "no address"
            raise ValueError(
                f"{key}: expected a queue's URL like "
                f"https://sqs.eu-west-1.amazonaws.com/123456789012/cleanup, got {shown}"
            )
        return cls(f"{parts.scheme}://{host}{path}")

    @property
    def name(self) -> str:
        """What people call it."""
        return f"sqs {self.url}"

    @property
    def queue(self) -> str:
        """The queue's own name."""
        return self.url.rpartition("/")[2]

    @property
    def fifo(self) -> bool:
        """Whether it is a FIFO queue: SQS wants their names to end that way."""
        return self.url.endswith(".fifo")

    @property
    def region(self) -> str | None:
        """The region that the URL names; None where it is not AWS's, or does not tell."""
        host = urlsplit(self.url).hostname or ""
        if found := _REGIONAL.search(host):
            return found[1]
        if found := _LEGACY.match(host):
            return found[1] or "us-east-1"
        return None

    @property
    def endpoint(self) -> str | None:
        """Whom to ask about it: its own host. None leaves that to botocore."""
        parts = urlsplit(self.url)
        if _LEGACY.match(parts.hostname or ""):
            return None
        return f"{parts.scheme}://{parts.netloc}"

    def beside(self, arn: str) -> "Place":
        """The queue of this *arn*. SQS has a queue's dead letters in its own account and region,
        so that only the name differs, and nobody needs the right to ask for it."""
        return self.named(arn.rpartition(":")[2])

    def named(self, queue: str) -> "Place":
        """The queue of that name in the same account and region."""
        return Place(f"{self.url.rpartition('/')[0]}/{queue}")
