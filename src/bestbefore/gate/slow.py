"""A store or a database that tells little at a time, and nothing more until it is let go on."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from bestbefore.app.connecting import Tables
from bestbefore.domain.rows import RowSource
from bestbefore.domain.stack import Shown
from bestbefore.gate.otherwise import Otherwise
from bestbefore.ports.objects import Entries, KeyRange, ObjectLister, Page, VersionLister
from bestbefore.ports.rows import RowReader, Slice, TableFacts
from bestbefore.ports.stores import Store

_OBJECTS = 5
_ROWS = 50
_LONGEST_SECONDS = 60


class Slow:
    """What is told first comes at once, all else waits for ``going``."""

    def __init__(self) -> None:
        self.going = threading.Event()
        self._told = False

    def store(self, store: Store) -> Store:
        """*store*, listed so slowly. See `gate.setup.Stores`."""
        lister = store.lister
        of = _SlowVersions if isinstance(lister, VersionLister) else _SlowLister
        return replace(store, lister=cast("ObjectLister", of(lister, self._turn)))

    def tables(self, tables: Tables) -> Tables:
        """*tables*, read so slowly. See `gate.setup.Deleters`."""
        return replace(tables, reader=cast("RowReader", _SlowReader(tables.reader, self._turn)))

    def _turn(self) -> None:
        if self._told:
            self.going.wait(_LONGEST_SECONDS)
        self._told = True


class _SlowLister(Otherwise[Any]):
    def __init__(self, inner: Any, turn: Callable[[], None]) -> None:
        super().__init__(inner)
        self._turn = turn

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        self._turn()
        found: Page = self._inner.page(bucket, prefix, keys)
        some = found.items[:_OBJECTS]
        if len(some) == len(found.items):
            return found
        return found._replace(items=some, rest=keys._replace(after=some[-1].key))


class _SlowVersions(_SlowLister):
    """A `VersionLister`, which tells all entries of a key together."""

    def version_ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        ranges: Sequence[KeyRange] = self._inner.version_ranges(bucket, prefix, parts)
        return ranges

    def versions(self, bucket: str, prefix: str, keys: KeyRange, behind: str | None) -> Entries:
        self._turn()
        found: Entries = self._inner.versions(bucket, prefix, keys, behind)
        some = _whole_keys(found.entries)
        if len(some) == len(found.entries):
            return found
        return Entries(some, keys._replace(after=some[-1].item.key), None)

    def look_at(self, bucket: str, wanted: Sequence[tuple[str, str]]) -> Any:
        return self._inner.look_at(bucket, wanted)


def _whole_keys(entries: Sequence[Shown]) -> Sequence[Shown]:
    """The first few of *entries*, and what else there is of the last one's key."""
    some = entries[:_OBJECTS]
    behind = (one for one in entries[_OBJECTS:] if one.item.key == some[-1].item.key)
    return [*some, *behind]


class _SlowReader(Otherwise[RowReader]):
    """A `RowReader`."""

    def __init__(self, inner: RowReader, turn: Callable[[], None]) -> None:
        super().__init__(inner)
        self._turn = turn

    def slice(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, gap: KeyRange, size: int,
        most: int, apart: Sequence[tuple[str, str]] = (),
    ) -> Slice:  # fmt: skip
        self._turn()
        return self._inner.slice(source, facts, cutoff, gap, size, min(most, _ROWS), apart)
