"""The files of a range of keys, in byte order of their keys, a page at a time.

In memory are the names of one folder for each level of the way down, never those of the tree.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from bestbefore.adapters.objects.directory.files import listed
from bestbefore.adapters.objects.directory.folders import Folder
from bestbefore.adapters.objects.directory.keys import folders, octets
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import KeyRange, Page

PAGE = 1_000
_MOST_STEPS = 10_000
"""Names a page may pass by: a forest of empty folders must not outlast a planner's lease."""
_MOST_OPEN = 16
"""Levels whose folders stay open below a page. A deeper one is opened anew on the way back up."""


@dataclass(slots=True)
class _Level:
    """One folder on the way down: ``base`` begins all its keys, ``names[at]`` is next."""

    base: str
    names: Sequence[str]
    folder: Folder | None
    at: int

    def opened(self, bucket: Folder) -> Folder | None:
        """The folder, opened anew if need be; None where it is gone."""
        if self.folder is None:
            self.folder = bucket.descend(folders(self.base) or [], exact=False)
        return self.folder

    def release(self) -> None:
        if self.folder is not None:
            self.folder.close()
            self.folder = None


@dataclass(slots=True)
class Walk:
    """A walk through *keys* under *prefix*. Between its pages no folder is open."""

    prefix: str
    keys: KeyRange
    _levels: list[_Level] | None = field(default=None, init=False)

    def page(self, bucket: Folder) -> Page:
        """The next files: 1,000, or fewer where much else had to be passed by."""
        if self._levels is None:
            self._levels = self._begin(bucket)
        try:
            return self._page(bucket, self._levels)
        finally:
            for level in self._levels:
                level.release()

    def _begin(self, bucket: Folder) -> list[_Level]:
        way = folders(self.prefix)
        there = None if way is None else bucket.descend(way, exact=True)
        if there is None:
            return []
        base, slash, stem = self.prefix.rpartition("/")
        return [self._level(base + slash, there, stem)]

    def _page(self, bucket: Folder, levels: list[_Level]) -> Page:
        items: list[Listed] = []
        steps = 0
        while levels:
            level = levels[-1]
            folder = level.opened(bucket) if level.at < len(level.names) else None
            if folder is None:
                level.release()
                levels.pop()
                continue
            name = level.names[level.at]
            key = level.base + name
            inside = name.endswith("/")
            if not inside:
                level.at += 1
                if (seen := folder.file(name)) is not None:
                    items.append(listed(key, seen))
            # Not the way down to where the range begins, or a page could end before it.
            steps += not (inside and (self.keys.after or "").startswith(key))
            if len(items) == PAGE or steps >= _MOST_STEPS:
                # A folder is not entered yet, and what is in it comes after its own name.
                return Page(items, KeyRange(key, self.keys.until))
            if inside:
                level.at += 1
                if (inner := folder.inner(name[:-1])) is not None:
                    levels.append(self._level(key, inner))
                    if len(levels) > _MOST_OPEN:
                        level.release()
        return Page(items, None)

    def _level(self, base: str, folder: Folder, stem: str = "") -> _Level:
        """The names of *folder* that begin with *stem* and may lead to keys of the range."""
        try:
            names = [name for name in folder.names() if name.startswith(stem)]
        except BaseException:
            folder.close()
            raise
        names.sort(key=octets)
        del names[self._last(octets(base), names) :]
        return _Level(base, names, folder, self._first(octets(base), names))

    def _first(self, base: bytes, names: Sequence[str]) -> int:
        """Where in *names* what comes after the range's beginning starts."""
        if self.keys.after is None:
            return 0
        after = octets(self.keys.after)
        if not after.startswith(base):
            return len(names) if after > base else 0
        rest = after[len(base) :]
        at = bisect_right(names, rest, key=octets)
        # The folder that the beginning lies in is right before: no name sorts between the two.
        before = names[at - 1] if at else ""
        return at - 1 if before.endswith("/") and rest.startswith(octets(before)) else at

    def _last(self, base: bytes, names: Sequence[str]) -> int:
        """Where in *names* what comes after the range's end starts."""
        if self.keys.until is None:
            return len(names)
        until = octets(self.keys.until)
        if not until.startswith(base):
            return len(names) if until > base else 0
        rest = until[len(base) :]
        # All that is in a folder comes after the folder's own name.
        return (bisect_left if rest.endswith(b"/") else bisect_right)(names, rest, key=octets)
