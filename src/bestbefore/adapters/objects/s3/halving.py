"""What becomes of the targets of a request that failed as a whole.

That says nothing about one of them, so it is sent again in halves, until what fails alone is alone.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from bestbefore.adapters.objects.s3.errors import NO_ANSWER, RequestFailed
from bestbefore.adapters.objects.s3.traits import Traits
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import Target

Result: TypeAlias = Outcome | Failure
Name = TypeVar("Name", bound=Hashable)

ONE_OF_THEM = frozenset({FailureClass.MALFORMED, FailureClass.UNKNOWN})
"""Failures of a whole request that one odd key may cause: looked into down to the single key."""

_NONE_OF_THEM = frozenset({FailureClass.THROTTLED, FailureClass.CREDENTIALS})
"""Failures of a whole request that no key in it causes and that more requests only feed."""


class Tried(NamedTuple, Generic[Name]):
    """What one try came to: *results*, and what is *left* when its request *failed*."""

    results: dict[Name, Result]
    left: Sequence[Target] = ()
    failed: RequestFailed | None = None

    def fails_as(self, failure: Failure) -> bool:
        """Whether its request failed as *failure* did, or a look before it did so for all."""
        ends = self.results.values() if self.failed is None else [self.failed.failure]
        return all(
            isinstance(end, Failure) and end.failure_class is failure.failure_class for end in ends
        )


@dataclass(frozen=True, slots=True)
class Halving(Generic[Name]):
    """One way to send a batch (*try_*) and a single target (*alone*), results by *name*.

    *about* makes a failure of the whole one of a single target.
    """

    name: Callable[[Target], Name]
    try_: Callable[[Sequence[Target]], Tried[Name]]
    alone: Callable[[Target], Result]
    about: Callable[[Target, Failure], Failure]
    traits: Traits

    def settle(self, targets: Sequence[Target]) -> dict[Name, Result]:
        """The result of each of *targets*, after as few requests as it takes to be fair, each of
        no more keys than the store takes."""
        results: dict[Name, Result] = {}
        while targets:
            size = self.traits.batch_limit
            results |= self._settled(self.try_(targets[:size]))
            targets = targets[size:]
        return results

    def _settled(self, tried: Tried[Name]) -> dict[Name, Result]:
        if tried.failed is None:
            return tried.results
        return tried.results | self._divided(tried.left, tried.failed)

    def _divided(self, batch: Sequence[Target], failed: RequestFailed) -> dict[Name, Result]:
        """What becomes of *batch* after the request with all of it has *failed*.

        An outage is told from a bad key by both halves failing as the whole did, and where each
        try costs a timeout already by the first.
        """
        failure = failed.failure
        charged: dict[Name, Result] = {
            self.name(target): self.about(target, failure) for target in batch
        }
        if failure.whole_source or failure.failure_class in _NONE_OF_THEM or failure.retry_after:
            return charged
        if len(batch) == 1:
            if failure.failure_class not in ONE_OF_THEM:
                return charged
            return {self.name(batch[0]): self.alone(batch[0])}
        if len(batch) > self.traits.batch_limit:
            return self.settle(batch)  # which was learnt meanwhile
        middle = len(batch) // 2
        first = self.try_(batch[:middle])
        if failed.code == NO_ANSWER and first.fails_as(failure):
            return charged | first.results
        second = self.try_(batch[middle:])
        if (
            failure.failure_class not in ONE_OF_THEM
            and first.fails_as(failure)
            and second.fails_as(failure)
        ):
            return charged | first.results | second.results
        if failure.failure_class in ONE_OF_THEM and first.failed is second.failed is None:
            self.traits.refused_together(len(batch))
        return self._settled(first) | self._settled(second)
