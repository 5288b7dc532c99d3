"""What the HTTP side remembers: tokens, deliveries it had, answers it gave."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.access import Token


class Reply(NamedTuple):
    """An answer that may be given again: its status and its body."""

    status: int
    body: bytes


class Begun(NamedTuple):
    """What is known of a request that may be a repetition.

    ``mine`` says that nobody had it and that this caller is the one to carry it out; ``same`` that
    the known one said the same. ``reply`` is None until the known one was answered.
    """

    mine: bool
    same: bool = True
    reply: Reply | None = None


class Access(Protocol):
    """The tokens of one ledger. Every change is one transaction and written down as an event."""

    def tokens(self) -> Sequence[Token]:
        """Every token that was not revoked, also those that have ended, by name."""
        ...

    def token(self, digest: bytes, now: datetime) -> Token | None:
        """The token with this digest, unless it has ended."""
        ...

    def add_token(self, token: Token, digest: bytes) -> None:
        """Have *digest* stand for *token*. Raises LedgerError where its name is taken."""
        ...

    def revoke_token(self, name: str, by: str, now: datetime) -> Token:
        """End a token at once. Raises NotInLedger where there is none of that name."""
        ...


class Deliveries(Protocol):
    """Signed deliveries by the id their sender gave them, for all processes of one ledger."""

    def first(self, sender_id: str, until: datetime, now: datetime) -> bool:
        """Whether nobody had this one before; remembers it until *until*."""
        ...

    def forget(self, sender_id: str) -> None:
        """Have it count as never had: it led to nothing, and its sender may try again."""
        ...


class Answers(Protocol):
    """Answers by the key that their callers chose, for all processes of one ledger."""

    def begin(self, key: bytes, request: bytes, now: datetime, lease: timedelta) -> Begun:
        """Take *key* for *request*, unless it is known; both are digests.

        Whoever took it has *lease* to answer; after that it counts as never had.
        """
        ...

    def finish(self, key: bytes, request: bytes, reply: Reply, until: datetime) -> None:
        """Keep the answer to *request* until *until*."""
        ...

    def forget(self, key: bytes) -> None:
        """Have *key* count as never had, unless it was answered."""
        ...
