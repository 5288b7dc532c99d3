"""What only the dashboard needs of the ledger: who is signed in, and how a backlog went."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.access import Token

BACKLOGS_KEPT = timedelta(hours=25)
"""How long it is remembered how much was left to do."""


class Backlog(NamedTuple):
    """The most that was left to do in some minutes from ``at`` on."""

    at: datetime
    n: int


class Sessions(Protocol):
    """Who is signed in, for all processes of one ledger. A session is known by a digest (32 bytes)
    of its secret."""

    def begin(self, session: bytes, token: bytes, until: datetime, now: datetime) -> None:
        """Have *session* stand for the token with the digest *token*; forgets those that ended."""
        ...

    def holder(self, session: bytes, now: datetime) -> Token | None:
        """The token that *session* stands for, unless either has ended."""
        ...

    def end(self, session: bytes) -> None:
        """Forget *session*."""
        ...


class Backlogs(Protocol):
    """How much was left to do, by policy and minute."""

    def note(self, now: datetime) -> None:
        """Remember what is left to do, unless somebody did in this minute; forgets what is older
        than `BACKLOGS_KEPT`."""
        ...

    def since(self, moment: datetime, step: timedelta) -> Mapping[str, Sequence[Backlog]]:
        """By policy, the most that was left in each *step* that somebody noted, oldest first."""
        ...
