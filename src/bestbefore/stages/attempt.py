"""What one worker thread does with one batch: confirm, look again, archive if so asked, delete.

What fails is a result, never an exception, unless it is the ledger.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Held
from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.policy import Policy
from bestbefore.domain.selection import HOLD, TAGS, Verdict
from bestbefore.domain.tags import kept_by_tags
from bestbefore.domain.versions import Versions
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError, Operation, WorkLedger
from bestbefore.ports.objects import ObjectDeleter, ObjectLister, StoreError, Target, Upload
from bestbefore.stages.archive import Archiving, Depot
from bestbefore.stages.confirm import Confirmed
from bestbefore.stages.entries import by_version

log = logging.getLogger(__name__)

TRUSTED_FOR = timedelta(minutes=5)
"""How old a listing may be before an object is looked at again: an identical re-upload keeps its
ETag, so only its LastModified tells that it is not what was seen."""

Result = Outcome | Failure | Spared


@dataclass(slots=True)
class Attempts:
    """Attempts on the objects of one store. Safe to share between threads.

    ``depot`` opens the store that a policy archives to, by its name.
    """

    lister: ObjectLister
    deleter: ObjectDeleter
    ledger: WorkLedger
    clock: Clock
    depot: Callable[[str], Depot]
    holds: Callable[[Policy], Held] = lambda _: Held()
    _confirmed: Confirmed = field(init=False)
    _archiving: Archiving = field(init=False)

    def __post_init__(self) -> None:
        self._confirmed = Confirmed(self.lister, self.ledger, self.clock)
        self._archiving = Archiving(
            self.deleter, self.ledger, self.clock, self.depot, self._settled
        )

    def make(self, policy: Policy, operations: Sequence[Operation]) -> list[Result]:
        """One result per operation, in their order.

        They are of one run, and distinct by key and version.

        Raises LedgerError where the ledger cannot be read: that is no failure of any object.
        """
        try:
            return self._make(policy, operations)
        except LedgerError:
            raise
        except StoreError as error:
            return [error.failure] * len(operations)
        except Exception as error:  # a fault of ours must not take 999 neighbours with it
            if len(operations) > 1:
                half = len(operations) // 2
                return [
                    *self.make(policy, operations[:half]),
                    *self.make(policy, operations[half:]),
                ]
            about = {"operation_id": operations[0].operation_id.hex(), "key": operations[0].key}
            log.exception("an attempt failed in a way nobody foresaw", extra=about)
            return [Failure(FailureClass.UNKNOWN, f"{type(error).__name__}: {error}")]

    def _make(self, policy: Policy, operations: Sequence[Operation]) -> list[Result]:
        results = self._spared(policy, operations)
        remaining = _without(operations, results)
        if uploads := [o for o in remaining if o.upload_id is not None]:
            results |= self._abort(policy, uploads)
            remaining = _without(remaining, results)
        if policy.archive is None:
            results |= self._delete(policy, remaining)
        elif remaining:
            results |= self._archiving.make(policy, policy.archive, remaining)
        return [results[operation.row] for operation in operations]

    def _delete(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        results = self._look_once_more(policy, operations)
        remaining = _without(operations, results)
        if remaining:
            source = policy.objects
            hides, bypass = source.versions is Versions.MARKER, source.bypass_governance
            targets = [
                Target(o.key, o.etag, o.last_modified, o.version, hides, bypass) for o in remaining
            ]
            deleted = self.deleter.delete(policy.objects.bucket, targets)
            results |= {o.row: result for o, result in zip(remaining, deleted, strict=True)}
        return results

    def _spared(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Results of those that are on hold, or that what the plan relied on keeps."""
        run = operations[0].run
        if (failure := self._confirmed.place(policy, run)) is not None:
            return {operation.row: failure for operation in operations}
        held = self.holds(policy)
        results: dict[int, Result] = {
            o.row: Spared(HOLD, str(hold))
            for o in operations
            if (hold := held.over(o.key)) is not None
        }
        return results | self._confirmed.protected(policy, run, _without(operations, results))

    def _settled(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Results of those that are not to be touched any more, for whatever reason."""
        results = self._spared(policy, operations)
        return results | self._look_once_more(policy, _without(operations, results))

    def _look_once_more(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Results of those that are not what the plan saw, or that their tags keep."""
        results = self._look_again(policy, operations)
        if policy.objects.reads_tags:
            results |= self._kept_by_tags(policy, _without(operations, results))
        return results

    def _abort(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Abort unfinished uploads, which nobody can overwrite: an id is given once."""
        uploads = [Upload(o.key, o.upload_id or "", o.last_modified) for o in operations]
        ends = self.deleter.abort(policy.objects.bucket, uploads)
        return {o.row: end for o, end in zip(operations, ends, strict=True)}

    def _look_again(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Results of those that a second look settles; the rest is still what the plan saw."""
        if policy.objects.by_version:
            return self._look_at_versions(policy, operations)
        now = self.clock.now()
        doubtful = [
            o for o in operations if o.failed or o.deliveries > 1 or now - o.seen_at > TRUSTED_FOR
        ]
        if not doubtful:
            return {}
        seen = self.lister.look(policy.objects.bucket, [o.key for o in doubtful])
        results: dict[int, Result] = {}
        for operation in doubtful:
            match seen[operation.key]:
                case None:
                    results[operation.row] = Outcome.ABSENT
                case Failure() as failure:
                    results[operation.row] = failure
                case found if found.etag != operation.etag or instant(
                    found.last_modified
                ) != instant(operation.last_modified):
                    results[operation.row] = Outcome.CHANGED
        return results

    def _look_at_versions(
        self, policy: Policy, operations: Sequence[Operation]
    ) -> dict[int, Result]:
        """The same for single versions.

        An id stays what was seen however old the listing is. But what goes last is made sure of:
        whatever the ledger holds, it stays while the store shows anything under it.
        """
        doubtful = [o for o in operations if o.follows or o.failed or o.deliveries > 1]
        if not doubtful:
            return {}
        seen = by_version(self.lister).look_at(
            policy.objects.bucket, [(o.key, o.version or "") for o in doubtful]
        )
        results: dict[int, Result] = {}
        for operation in doubtful:
            match seen[operation.key, operation.version or ""]:
                case None:
                    results[operation.row] = Outcome.ABSENT
                case Failure() as failure:
                    results[operation.row] = failure
                case found if (
                    policy.objects.versions is Versions.PURGE
                    and found.version is not None
                    and found.version.last_to_go
                ):
                    why = "others still lie under it, and would come back"
                    results[operation.row] = Spared(Verdict.COVERS_KEPT, why)
        return results

    def _kept_by_tags(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Results of those that their tags settle: a tag is how people protect an object that a
        plan has selected already."""
        found = self.lister.tags(policy.objects.bucket, [o.key for o in operations])
        results: dict[int, Result] = {}
        for operation in operations:
            match found[operation.key]:
                case None:
                    results[operation.row] = Outcome.ABSENT
                case Failure() as failure:
                    results[operation.row] = failure
                case tags if (why := kept_by_tags(policy.objects, tags)) is not None:
                    results[operation.row] = Spared(TAGS, why)
        return results


def _without(operations: Sequence[Operation], settled: Mapping[int, Result]) -> list[Operation]:
    return [operation for operation in operations if operation.row not in settled]
