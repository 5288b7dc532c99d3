"""What was found out about the endpoint of a store, kept from one process to the next.

So that the next process does not begin with the same refused request. Only what costs speed when
it is out of date may be kept: that a store does *not* do something. That it does (honour
conditions, above all) is found out by each process for itself.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class Learnt(NamedTuple):
    """One finding. ``bucket`` is empty where it holds for all of the endpoint; ``server`` is how
    the endpoint called itself at that time, empty if it did not say."""

    bucket: str
    capability: str
    value: str
    server: str
    learnt_at: datetime


class EndpointMemory(Protocol):
    """Never raises: what cannot be kept is found out again."""

    def recall(self, endpoint: str, since: datetime) -> Sequence[Learnt]:
        """Everything known of *endpoint* that was learnt *since* then; what is older is gone."""
        ...

    def remember(self, endpoint: str, learnt: Learnt) -> None:
        """Keep a finding, in place of an earlier one about the same."""
        ...

    def forget(self, endpoint: str) -> None:
        """Drop everything about *endpoint*: it is not what it was."""
        ...
