"""The user's bucket and the user's database, as scenarios see them: scratch names only."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from bestbefore.domain.failure import Failure
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import RowSource
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Shown
from bestbefore.domain.versions import Versions
from bestbefore.gate.scenario import Broken, NotApplicable
from bestbefore.ports.clock import Clock
from bestbefore.ports.files import FileStore
from bestbefore.ports.objects import (
    UPLOADS,
    KeyRange,
    StoreError,
    Target,
    Upload,
    VersionLister,
)
from bestbefore.ports.scratch import ScratchRow, ScratchTable
from bestbefore.ports.stores import Store

PREFIX = "bestbefore-gate/"
"""All that a gate ever writes into a bucket is under it."""

OBJECT_AGE = Age(0, 1)
ROW_AGE = Age(0, 86_400)

_EVERYTHING = KeyRange(None, None)
_PAGE = 1_000
_LONGEST_RIPENING = 60.0
_TOUCH_SECONDS = 0.1


class ObjectGround:
    """A bucket of the user's, below `PREFIX`."""

    def __init__(
        self, store: Store, name: str, bucket: str, versions: Versions | None, clock: Clock
    ) -> None:
        self.store = store
        self.name = name
        self.bucket = bucket
        self._versions = versions
        self._clock = clock

    @property
    def place(self) -> str:
        """What people call it, with what of its versions goes."""
        mode = f" ({self._versions})" if self._versions else ""
        return f"{self.name}/{self.bucket}/{PREFIX}{mode}"

    def source(self, **more: object) -> ObjectSource:
        """A policy's source that is about it; *more* are fields of `ObjectSource`."""
        given: dict[str, object] = {"prefix": PREFIX, "versions": self._versions, **more}
        return ObjectSource(self.name, self.bucket, **given)  # type: ignore[arg-type]

    @property
    def by_version(self) -> bool:
        """Whether commands name versions over which nobody can write."""
        return self.source().by_version and self._versioning == "Enabled"

    @property
    def _versioning(self) -> str | None:
        return self.store.lister.describe(self.bucket).versioning

    @property
    def files(self) -> FileStore:
        """What writes and reads whole objects."""
        files = self.store.files
        if files is None:
            raise TypeError(f"stores.{self.name} holds no files, and so is no ground")
        return files

    def put(self, names: Iterable[str], body: bytes = b"{}") -> Sequence[str]:
        """Write an object under each of *names*, and return their keys."""
        keys = [PREFIX + name for name in names]
        for key in keys:
            self.files.put(self.bucket, key, body)
        return keys

    def ready(self, names: Iterable[str], body: bytes = b"{}") -> Sequence[str]:
        """Put under each of *names* one thing that the policy takes once it is ripe, and return
        the keys: an object, overwritten once where only what is not current any more goes.

        Raises NotApplicable where nothing that is written ever stops being current.
        """
        keys = self.put(names, body)
        if not self._older:
            return keys
        if self._versioning != "Enabled":
            raise NotApplicable(
                f"{self.bucket} keeps no version of what is written now, as its versioning is "
                f'{self._versioning}, and so has nothing that "{self._versions}" would take'
            )
        return self.put((key.removeprefix(PREFIX) for key in keys), body)

    def due(self, below: str = "") -> Sequence[str]:
        """The key of each thing there that the policy takes once it is ripe, in order."""
        if not self._older:
            return self.keys(below)
        there = (shown for shown in self._shown(PREFIX + below) if not shown.latest)
        return sorted(item.key for item, _ in there if not (item.version and item.version.marker))

    @property
    def _older(self) -> bool:
        return self._versions is Versions.NONCURRENT

    def ripen(self) -> None:
        """Wait until all that is there is old enough for a plan of this second."""
        newest = max((item.last_modified for item in self.listed()), default=None)
        until = time.monotonic() + _LONGEST_RIPENING
        while newest is not None and not newest < self._slot() - timedelta(seconds=1):
            if time.monotonic() > until:
                raise Broken(
                    f"{self.place}: the store's clock is ahead of ours by a minute or more; set "
                    "this machine's clock"
                )
            self._clock.sleep(_TOUCH_SECONDS)

    def _slot(self) -> datetime:
        return self._clock.now().replace(microsecond=0)

    def listed(self, below: str = "") -> Sequence[Listed]:
        """What readers see, by key."""
        return list(self._listed(PREFIX + below))

    def keys(self, below: str = "") -> Sequence[str]:
        """The keys that readers see, in order."""
        return [item.key for item in self.listed(below)]

    def is_empty(self) -> bool:
        """Whether nothing is there: no object, no version, no unfinished upload."""
        if self.keys() or next(self._uploads(), None) is not None:
            return False
        return next(iter(self._entries()), None) is None

    def clear(self) -> None:
        """Remove everything, old versions and markers as well. Raises StoreError where something
        cannot be removed."""
        for entries in _by(_PAGE, self._entries()):
            _all_done(self.store.deleter.delete(self.bucket, entries))
        for key in self.keys():
            self.files.remove(self.bucket, key)
        if uploads := list(self._uploads()):
            _all_done(self.store.deleter.abort(self.bucket, uploads))

    def prove(self) -> None:
        """Write one object and remove it again: a lock by default would keep it. Raises StoreError
        where that does not work."""
        self.put([".removable"])
        self.clear()

    def _listed(self, prefix: str) -> Iterator[Listed]:
        rest: KeyRange | None = _EVERYTHING
        while rest is not None:
            page = self.store.lister.page(self.bucket, prefix, rest)
            yield from page.items
            rest = page.rest

    def _entries(self) -> Iterator[Target]:
        for item, _ in self._shown(PREFIX):
            yield Target(item.key, item.etag, item.last_modified, item.version_id)

    def _shown(self, prefix: str) -> Iterator[Shown]:
        """Every version and marker, where the bucket keeps versions."""
        lister = self.store.lister
        if not isinstance(lister, VersionLister):
            return
        if self._versioning is None:
            return
        rest: KeyRange | None = _EVERYTHING
        behind: str | None = None
        while rest is not None:
            found = lister.versions(self.bucket, prefix, rest, behind)
            yield from found.entries
            rest, behind = found.rest, found.behind

    def _uploads(self) -> Iterator[Upload]:
        rest: KeyRange | None = UPLOADS
        while rest is not None:
            page = self.store.lister.uploads(self.bucket, PREFIX, rest)
            yield from page.uploads
            rest = page.rest


class RowGround:
    """A database of the user's, with a small table of our own."""

    def __init__(self, table: ScratchTable, name: str, clock: Clock) -> None:
        self.table = table
        self.name = name
        self._clock = clock

    @property
    def place(self) -> str:
        """What people call it."""
        return f"{self.name}/{self.table.name}"

    def leftovers(self) -> Sequence[str]:
        """What people call those of its tables that are there."""
        table = self.table
        tables = (table, table.cascade, table.set_null)
        return [f"{self.name}/{one.name}" for one in tables if one.exists()]

    def source(self) -> RowSource:
        """The policy's source that is about it: batches of ten."""
        return self.table.source()

    def fill(self, old: int, young: int = 0, start: int = 1) -> None:
        """Add *old* rows of two days ago, numbered from *start*, and *young* ones of now behind
        them."""
        now = self._clock.now().replace(microsecond=0)
        numbers = range(start, start + old + young)
        self.table.insert(
            [
                ScratchRow(
                    number,
                    now - timedelta(days=2) + timedelta(seconds=number)
                    if number < start + old
                    else now,
                    "old" if number < start + old else "young",
                )
                for number in numbers
            ]
        )

    def ids(self) -> Sequence[int]:
        """The numbers of the rows that are there."""
        return [row.id for row in self.table.rows()]


def _all_done(results: Sequence[Outcome | Failure]) -> None:
    for result in results:
        if isinstance(result, Failure):
            raise StoreError(result)


def _by(size: int, targets: Iterable[Target]) -> Iterator[list[Target]]:
    batch: list[Target] = []
    for target in targets:
        batch.append(target)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
