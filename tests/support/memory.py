"""An object store in memory, quick enough to measure everything around it."""

import bisect
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import BucketFacts, KeyRange, Page, StoreError, Target


class MemoryStore:
    """Both sides of an object store over a dict, with a hook for what should fail.

    ``refuse(key)`` may return a Failure for a delete. ``deleted`` holds the keys in order.
    ``tagged`` has the tags of keys, ``untold`` why those of others cannot be read, ``texts`` what
    is in an object, or why that cannot be read. ``listing()`` is called before each page.
    """

    def __init__(self, objects: Sequence[Listed] = (), page_size: int = 1000) -> None:
        self.objects = {item.key: item for item in objects}
        self.page_size = page_size
        self.deleted: list[str] = []
        self.attempts: list[str] = []
        self.refuse: Callable[[str], Failure | None] = lambda key: None
        self.listing: Callable[[], None] = lambda: None
        self.server_time: datetime | None = None
        self.versioning: str | None = None
        self.endpoint = "memory"
        self.tagged: dict[str, dict[str, str]] = {}
        self.untold: dict[str, Failure] = {}
        self.texts: dict[str, bytes | Failure] = {}
        self._lock = threading.Lock()
        self._order: list[str] | None = None

    def put(self, item: Listed) -> None:
        with self._lock:
            self.objects[item.key] = item
            self._order = None

    def describe(self, bucket: str) -> BucketFacts:
        return BucketFacts(self.endpoint, self.versioning, self.server_time)

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        return [KeyRange(None, None)]

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        self.listing()
        with self._lock:
            if self._order is None:
                self._order = sorted(self.objects)
            start = bisect.bisect_right(self._order, keys.after) if keys.after is not None else 0
            start = max(start, bisect.bisect_left(self._order, prefix))
            names = self._order[start : start + self.page_size]
            items = [
                self.objects[name]
                for name in names
                if name in self.objects
                and name.startswith(prefix)
                and (keys.until is None or name <= keys.until)
            ]
        more = len(names) == self.page_size and names[-1].startswith(prefix)
        return Page(items, KeyRange(names[-1], keys.until) if more else None)

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        with self._lock:
            return {key: self.objects.get(key) for key in keys}

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        with self._lock:
            return {
                key: self.tagged.get(key, {}) if key in self.objects else None for key in keys
            } | {key: self.untold[key] for key in keys if key in self.untold}

    def content(self, bucket: str, key: str, most: int) -> bytes | None:
        said = self.texts.get(key)
        if isinstance(said, Failure):
            raise StoreError(said)
        return None if said is None else said[:most]

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        with self._lock:
            return [self._delete(target) for target in targets]

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        return []

    def _delete(self, target: Target) -> Outcome | Failure:
        self.attempts.append(target.key)
        failure = self.refuse(target.key)
        if failure is not None:
            return failure
        found = self.objects.get(target.key)
        if found is None:
            return Outcome.ABSENT
        if found.etag != target.etag:
            return Outcome.CHANGED
        del self.objects[target.key]
        self.deleted.append(target.key)
        return Outcome.DELETED
