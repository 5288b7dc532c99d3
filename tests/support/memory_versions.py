"""An object store in memory that keeps versions, and notices whatever comes back to life."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bestbefore.domain.failure import NEVER, Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Shown, unstack
from bestbefore.domain.versions import NULL, Version
from bestbefore.ports.objects import BucketFacts, Entries, KeyRange, Page, Target

LEGAL = NEVER
"""A lock without a date."""


@dataclass(frozen=True)
class Kept:
    """One entry; of a delete marker the ETag is empty."""

    id: str
    etag: str
    size: int
    modified: datetime

    @property
    def marker(self) -> bool:
        return not self.etag


class MemoryVersions:
    """Both sides of a store with versions over a dict of stacks, the newest entry first."""

    def __init__(self, page_size: int = 1000) -> None:
        self.stacks: dict[str, list[Kept]] = {}
        self.page_size = page_size
        self.versioning = "Enabled"
        self.refuse: Callable[[str, str], Failure | None] = lambda key, id_: None
        self.locks: dict[tuple[str, str], datetime] = {}
        self.now: Callable[[], datetime] = lambda: NEVER
        self.resurrected: list[str] = []
        self.deleted: list[tuple[str, str]] = []
        self._serial = 0
        self._serials: dict[tuple[str, str], int] = {}

    def put(self, key: str, modified: datetime, *, marker: bool = False) -> str:
        """Write a version, or a delete marker; returns its id."""
        self._serial += 1
        id_ = f"v{self._serial:05}" if self.versioning == "Enabled" else NULL
        self._serials[key, id_] = self._serial
        etag = "" if marker else f"etag-{self._serial}"
        stack = [entry for entry in self.stacks.get(key, []) if entry.id != id_]
        self.stacks[key] = [Kept(id_, etag, 0 if marker else 10, modified), *stack]
        return id_

    def describe(self, bucket: str) -> BucketFacts:
        return BucketFacts("memory", self.versioning, None)

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        return [KeyRange(None, None)]

    version_ranges = ranges

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        items = [
            Listed(key, stack[0].size, stack[0].etag, stack[0].modified)
            for key, stack in sorted(self.stacks.items())
            if not stack[0].marker and key.startswith(prefix)
        ]
        return Page(items, None)

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        there = {item.key: item for item in self.page(bucket, "", KeyRange(None, None)).items}
        return {key: there.get(key) for key in keys}

    def versions(self, bucket: str, prefix: str, keys: KeyRange, behind: str | None) -> Entries:
        shown: list[Shown] = []
        after = keys.after or ""
        for key, stack in sorted(self.stacks.items()):
            if key < after or (key == after and behind is None) or not key.startswith(prefix):
                continue
            newest = stack[0]
            rest = stack
            if key == after:
                seen = self._serials[key, behind or ""]
                rest = [entry for entry in stack if self._serials[key, entry.id] < seen]
            for entry in rest:
                if len(shown) == self.page_size:
                    last = shown[-1].item
                    return Entries(shown, KeyRange(last.key, None), last.version_id)
                shown.append(Shown(_item(key, entry), entry is newest))
            if len(shown) >= self.page_size:
                return Entries(shown, KeyRange(key, None), None)
        return Entries(shown, None, None)

    def look_at(
        self, bucket: str, wanted: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Listed | Failure | None]:
        found: dict[tuple[str, str], Listed | Failure | None] = {}
        for key, id_ in wanted:
            stack = self.stacks.get(key, [])
            shown = [Shown(_item(key, entry), entry is stack[0]) for entry in stack]
            items, _ = unstack(shown, None, lambda _: True, unfinished=False)
            found[key, id_] = next((i for i in items if i.version_id == id_), None)
        return found

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        return [self._delete(target) for target in targets]

    def _delete(self, target: Target) -> Outcome | Failure:
        key, id_ = target.key, target.version or ""
        if (failure := self.refuse(key, id_)) is not None:
            return failure
        stack = self.stacks.get(key, [])
        if target.version is None:
            if not stack or stack[0].marker:
                return Outcome.ABSENT
            if stack[0].etag != target.etag:
                return Outcome.CHANGED
            self.put(key, self.now(), marker=True)
            return Outcome.DELETED
        entry = next((entry for entry in stack if entry.id == id_), None)
        if entry is None:
            return Outcome.ABSENT
        if id_ == NULL and (entry.etag, entry.modified) != (target.etag, target.last_modified):
            return Outcome.CHANGED
        lock = self.locks.get((key, id_))
        if lock is not None and (lock is LEGAL or lock > self.now()):
            until = None if lock is LEGAL else lock
            return Failure(FailureClass.HELD, "locked", until=until)
        if stack[0] is entry and len(stack) > 1 and not stack[1].marker:
            self.resurrected.append(key)
        self.stacks[key] = [other for other in stack if other is not entry]
        if not self.stacks[key]:
            del self.stacks[key]
        self.deleted.append((key, id_))
        return Outcome.DELETED


def _item(key: str, entry: Kept) -> Listed:
    version = Version(entry.id, entry.marker)
    return Listed(key, entry.size, entry.etag, entry.modified, version=version)
