"""Holds: what nobody may delete for now, whatever a policy says."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bestbefore.domain.identity import instant, operation_id
from bestbefore.domain.policy import Policy


class Scope(NamedTuple):
    """What a hold is about: everything of one *policy*, or the keys of a *bucket* that begin with
    *prefix*, whatever policy they belong to.

    ``place`` says where the store of that name was when the hold was added, as another name may
    stand for the same place.
    """

    policy: str | None = None
    store: str | None = None
    place: str | None = None
    bucket: str | None = None
    prefix: str = ""

    def concerns(self, policy: Policy, place: str) -> bool:
        """Whether it can hold anything of *policy*, whose store is at *place*."""
        if self.policy is not None:
            return self.policy == policy.name
        if policy.about_rows:
            return False
        source = policy.objects
        return (
            self.bucket == source.bucket
            and (self.store == source.store or self.place == place)
            and (self.prefix.startswith(source.prefix) or source.prefix.startswith(self.prefix))
        )

    def __str__(self) -> str:
        if self.policy is not None:
            return f"policy {self.policy}"
        return f"{self.store}: {self.bucket}/{self.prefix}"


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold. Without ``until`` it ends when a person removes it."""

    scope: Scope
    reason: str
    until: datetime | None
    by: str
    at: datetime

    @property
    def hold_id(self) -> str:
        """Its public name (12 hex digits): the same hold added twice is one.

        Another reason or another end is another hold, so that nobody's hold ends by somebody
        else's.
        """
        where = [self.scope.policy or "", self.scope.store or "", self.scope.bucket or ""]
        until = "" if self.until is None else instant(self.until)
        return operation_id("hold", *where, self.scope.prefix, self.reason, until)[:12]

    def __str__(self) -> str:
        until = "" if self.until is None else f", until {instant(self.until)}"
        return f"{self.hold_id} by {self.by} ({self.reason}{until})"


@dataclass(frozen=True, slots=True)
class Held:
    """The holds that concern one policy."""

    holds: tuple[Hold, ...] = ()

    @classmethod
    def among(cls, holds: Iterable[Hold], policy: Policy, place: str) -> "Held":
        """Those of *holds* that can hold anything of *policy*, whose store is at *place*."""
        return cls(tuple(hold for hold in holds if hold.scope.concerns(policy, place)))

    def over(self, key: str) -> Hold | None:
        """A hold that *key* is under: keys compare as they are, character by character."""
        for hold in self.holds:
            if hold.scope.policy is not None or key.startswith(hold.scope.prefix):
                return hold
        return None
