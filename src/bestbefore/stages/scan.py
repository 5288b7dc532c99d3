"""Read a policy's part of a bucket and write what is eligible into a ledger, page by page.

Used by planning, by dry runs and by verification, which differ in the ledger they write to. It
looks and never deletes: it holds no deleter.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Held
from bestbefore.domain.identity import ObjectIds, upload_operation
from bestbefore.domain.known import Disposition, Known, disposition
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.prefixes import PrefixCounts
from bestbefore.domain.run import Run
from bestbefore.domain.selection import (
    HOLD,
    PROTECTIVE,
    TAGS,
    TAGS_UNREADABLE,
    Listed,
    Selector,
    Verdict,
    impossible,
)
from bestbefore.domain.skew import clock_problem
from bestbefore.domain.tags import kept_by_tags
from bestbefore.ports.ledger import (
    Claim,
    Entry,
    GenerationSeen,
    Kept,
    PlannedPage,
)
from bestbefore.ports.objects import (
    UPLOADS,
    KeyRange,
    ObjectLister,
    Page,
    StoreError,
    Upload,
    unfit,
)
from bestbefore.ports.threads import Threads
from bestbefore.stages import pointer
from bestbefore.stages.entries import by_version, entry_page
from bestbefore.stages.patience import patiently, worth_another_try
from bestbefore.stages.survey import LEASE, Errand, PlanRefused, Stopped

T = TypeVar("T")

PARTS = 8
_TO_BE_PLANNED = (Disposition.NEW, Disposition.AGAIN, Disposition.REAPPEARED)

Tags = Mapping[str, str] | Failure | None


class _Asked(NamedTuple):
    """A page, and when it was asked for: what happened since may not be in it."""

    asked_at: datetime
    page: Page


@dataclass(frozen=True, slots=True)
class ObjectSurvey:
    """`stages.survey.Survey` of a store."""

    lister: ObjectLister
    threads: Threads = ThreadPoolExecutor

    def target(self, policy: Policy, now: datetime) -> str:
        source = policy.objects
        facts = self.lister.describe(source.bucket)
        if (problem := unfit(facts, source)) is not None:
            raise PlanRefused(f"policies.{policy.name}.objects.versions: {problem}")
        if problem := clock_problem(now, facts.server_time, facts.endpoint):
            raise PlanRefused(f"policies.{policy.name}: {problem}")
        return facts.target(source.bucket, source.prefix)

    def doubt(self, policy: Policy, ended: Callable[[], Sequence[bytes]]) -> str | None:  # noqa: ARG002
        return None  # what a restored store shows again is counted as reappeared

    def scan(self, errand: Errand) -> "ObjectScan":
        return ObjectScan(errand, self.lister, self.threads)


@dataclass(frozen=True, slots=True)
class ObjectScan:
    """`stages.survey.Scanning` of one policy's part of a bucket."""

    errand: Errand
    lister: ObjectLister
    threads: Threads

    def run(self, claim: Claim, run: Run, cursors: Sequence[KeyRange] | None) -> None:
        """Scan what is left of *run*'s ranges. Raises StoreError, PlanTakenOver and Stopped."""
        errand = self.errand
        policy, source = errand.policy, errand.policy.objects
        if cursors is None:
            cursors = self._patiently(lambda: self._ranges()(source.bucket, source.prefix, PARTS))
            if source.abort_incomplete_uploads:
                cursors = [*cursors, UPLOADS]
        selector = Selector.of(source, run.cutoff, errand.clock.now(), policy.added_bytes)
        drawing = _Drawing(policy, selector, errand.held)
        for pages, left in self._pages(cursors, selector):
            drawn = drawing.draw(pages, left, errand.known)
            if source.reads_tags:
                self._keep_by_tags(drawn)
            now = errand.clock.now()
            errand.on_page(errand.ledger.write_page(claim, drawn, source.keep_last, now, LEASE))
            if errand.stopping():
                raise Stopped

    def pointer(self) -> Pointer | None:
        """What ``current_pointer`` says now, if the policy has one. Raises StoreError."""
        return self._patiently(lambda: pointer.ask(self.lister, self.errand.policy.objects))

    def _keep_by_tags(self, drawn: PlannedPage) -> None:
        """Take out of *drawn* what its tags protect: read last, of what would be planned."""
        wanted = [entry for entry in drawn.entries if entry.disposition in _TO_BE_PLANNED]
        tags = self._tags([entry.item.key for entry in wanted])
        kept = set()
        for entry in wanted:
            found = tags[entry.item.key]
            if found is None or isinstance(found, Failure):
                reason = TAGS_UNREADABLE
            elif kept_by_tags(self.errand.policy.objects, found) is not None:
                reason = TAGS
            else:
                continue
            kept.add(entry.operation_id)
            drawn.protected[reason] = drawn.protected.get(reason, 0) + 1
            prefix = self.errand.policy.objects.prefix
            _note_what_stays(drawn, prefix, reason, entry.item.key, entry.item.size)
        drawn.entries = [entry for entry in drawn.entries if entry.operation_id not in kept]

    def _tags(self, keys: Sequence[str]) -> Mapping[str, Tags]:
        """The tags of each of *keys*; raises StoreError where it is not about single keys."""
        read: dict[str, Tags] = {}

        def ask() -> None:
            left = [key for key in keys if not _is_settled(read.get(key, _UNASKED))]
            read.update(self.lister.tags(self.errand.policy.objects.bucket, left) if left else {})
            failures = [found for found in read.values() if isinstance(found, Failure)]
            for failure in failures:
                if failure.whole_source or failure.failure_class is FailureClass.CREDENTIALS:
                    raise StoreError(failure)
            for failure in failures:
                if worth_another_try(failure):
                    raise StoreError(failure)

        try:
            self._patiently(ask)
        except StoreError as error:
            alone = error.failure.failure_class is FailureClass.TRANSIENT
            if not alone or all(isinstance(found, Failure) for found in read.values()):
                raise
        return read

    def _ranges(self) -> Callable[[str, str, int], Sequence[KeyRange]]:
        if self.errand.policy.objects.by_version:
            return by_version(self.lister).version_ranges
        return self.lister.ranges

    def _pages(
        self, ranges: Sequence[KeyRange], selector: Selector
    ) -> Iterator[tuple[list[_Asked], list[KeyRange]]]:
        """Pages of all *ranges*, several in flight, with what is left once they are written.

        The next page of a range is asked for while this one is being written; pages that are
        there by then share a transaction.
        """
        left: dict[int, KeyRange] = dict(enumerate(ranges))
        with self.threads(max(1, len(ranges)), "list") as pool:
            asked: dict[Future[_Asked], int] = {
                pool.submit(self._page, keys, selector): part for part, keys in left.items()
            }
            try:
                while asked:
                    done, _ = wait(asked, return_when=FIRST_COMPLETED)
                    if self.errand.policy.objects.reads_tags:
                        # A thousand more requests a page: the lease is renewed after each.
                        done = {next(iter(done))}
                    pages = []
                    for future in done:
                        part = asked.pop(future)
                        pages.append(future.result())
                        rest = pages[-1].page.rest
                        if rest is None:
                            del left[part]
                        else:
                            left[part] = rest
                            asked[pool.submit(self._page, rest, selector)] = part
                    yield pages, list(left.values())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _page(self, keys: KeyRange, selector: Selector) -> _Asked:
        source = self.errand.policy.objects
        asked_at = self.errand.clock.now()
        if source.by_version and keys.upload is None:
            page = self._patiently(lambda: entry_page(self.lister, source, keys, selector))
        else:
            ask = self.lister.page if keys.upload is None else self.lister.uploads
            page = self._patiently(lambda: ask(source.bucket, source.prefix, keys))
        return _Asked(asked_at, page)

    def _patiently(self, ask: Callable[[], T]) -> T:
        errand = self.errand
        return patiently(ask, errand.clock, errand.spread, errand.stopping)


_UNASKED = Failure(FailureClass.TRANSIENT, "not asked yet")


def _is_settled(found: Tags) -> bool:
    """Whether asking again would not tell more."""
    return not isinstance(found, Failure) or not worth_another_try(found)


class _Drawing:
    """Turns listing pages into pages of a plan."""

    def __init__(self, policy: Policy, selector: Selector, held: Held) -> None:
        self._policy = policy
        self._source = policy.objects
        self._held = held
        self._selector = selector
        self._ids = ObjectIds(policy.name, policy.version, policy.objects.bucket)

    def draw(
        self,
        pages: Sequence[_Asked],
        left: Sequence[KeyRange],
        known: Callable[[Sequence[bytes]], Mapping[bytes, Known]],
    ) -> PlannedPage:
        """One page of the plan from *pages*, all as old as the oldest of them."""
        judge, ids = self._selector.judge, self._ids
        held = self._held.over if self._held.holds else None
        asked_at = min(asked.asked_at for asked in pages)
        drawn = PlannedPage(asked_at, left)
        stays = partial(_note_what_stays, drawn, self._source.prefix)
        eligible: dict[bytes, Listed] = {}
        for item in chain.from_iterable(asked.page.items for asked in pages):
            drawn.scanned += 1
            verdict = judge(item)
            if verdict is not Verdict.ELIGIBLE:
                stays(verdict, item.key, item.size)
            if verdict is Verdict.OUTSIDE:
                continue
            drawn.in_scope += 1
            operation_id = None
            if verdict is Verdict.ELIGIBLE:
                if held is None or held(item.key) is None:
                    operation_id = ids.of(item.key, item.etag, item.last_modified, item.version_id)
                    eligible[operation_id] = item
                else:
                    drawn.protected[HOLD] = drawn.protected.get(HOLD, 0) + 1
                    stays(HOLD, item.key, item.size)
            elif verdict is Verdict.REFUSED:
                drawn.refused += 1
            elif verdict in PROTECTIVE:
                drawn.protected[verdict] = drawn.protected.get(verdict, 0) + 1
            # What no command can carry cannot be one of those that are kept for sure either.
            # Nor can what readers do not see any more.
            if self._source.keeps_some and item.visible and impossible(item.key) is None:
                self._note_what_is_kept(drawn, item, operation_id)
        for group, kept in drawn.newest.items():
            drawn.newest[group] = heapq.nlargest(
                self._source.keep_last, kept, key=lambda k: (k.last_modified, k.key)
            )
        uploads: dict[bytes, str] = {}
        for upload in chain.from_iterable(asked.page.uploads for asked in pages):
            if (operation_id := self._draw_upload(drawn, upload)) is not None:
                eligible[operation_id] = Listed(upload.key, 0, "", upload.initiated)
                uploads[operation_id] = upload.upload_id
        found = known(list(eligible))
        drawn.entries = [
            Entry(
                operation_id,
                item,
                disposition(found.get(operation_id), asked_at),
                self._selector.generation(item.key),
                uploads.get(operation_id),
            )
            for operation_id, item in eligible.items()
        ]
        return drawn

    def _draw_upload(self, drawn: PlannedPage, upload: Upload) -> bytes | None:
        """Count one unfinished upload, like an object; its operation if it is eligible."""
        drawn.scanned += 1
        drawn.uploads += 1
        verdict = self._selector.judge_upload(upload.key, upload.initiated)
        drawn.in_scope += verdict is not Verdict.OUTSIDE
        drawn.refused += verdict is Verdict.REFUSED
        held = verdict is Verdict.ELIGIBLE and self._held.over(upload.key) is not None
        if held or verdict in PROTECTIVE:
            reason = HOLD if held else verdict
            drawn.protected[reason] = drawn.protected.get(reason, 0) + 1
        if held or verdict is not Verdict.ELIGIBLE:
            _note_what_stays(drawn, self._source.prefix, HOLD if held else verdict, upload.key, 0)
            return None
        policy = self._policy
        return bytes.fromhex(
            upload_operation(
                policy.name, policy.version, policy.objects.bucket, upload.key, upload.upload_id
            )
        )

    def _note_what_is_kept(
        self, drawn: PlannedPage, item: Listed, operation_id: bytes | None
    ) -> None:
        """Whatever its age, an object can make its generation, or itself, one of the newest."""
        selector = self._selector
        generation = selector.generation(item.key)
        if generation is not None:
            seen = drawn.generations.get(generation)
            if seen is None:
                prefix = selector.generation_prefix(item.key)
                drawn.generations[generation] = GenerationSeen(item.last_modified, prefix)
            else:
                seen.youngest = max(seen.youngest, item.last_modified)
        if self._source.keep_last and selector.counts_for_keep_last(item):
            group = selector.keep_last_group(item.key)
            if group is not None:
                kept = Kept(item.last_modified, item.key, operation_id)
                drawn.newest.setdefault(group, []).append(kept)


def _note_what_stays(drawn: PlannedPage, prefix: str, reason: str, key: str, size: int) -> None:
    """Count one key that stays. What is not even under *prefix* is none of this policy's."""
    if key.startswith(prefix):
        drawn.stays.setdefault(reason, PrefixCounts(prefix)).add(key, size)
