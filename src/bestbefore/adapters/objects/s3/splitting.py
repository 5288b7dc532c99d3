"""Cutting a prefix into ranges of keys that can be listed side by side.

A guess, and only ever a guess about sizes: ranges follow each other without a gap from the first
key to the last, so a bad one costs time and never a key.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.ports.objects import KeyRange

_MOST_PROBES = 24
_LAST = "\U0010fffd"
"""Comes after whatever a key is likely to go on with."""


def split(pages: Pages, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
    """See `ObjectLister.ranges`."""
    whole = [KeyRange(None, None)]
    if parts <= 1:
        return whole
    first = pages.part(bucket, prefix)
    if not first.truncated:
        return whole
    probe = _Probe(pages, bucket)
    bounds = sorted(set(_bounds(probe, prefix, first.items[0].key, parts)), key=first.order.rank)
    return _ranges(_evenly(bounds, 2 * parts - 1))


class _Probe:
    """Small listings under a budget; `spent` tells when it is used up."""

    def __init__(self, pages: Pages, bucket: str) -> None:
        self._pages = pages
        self._bucket = bucket
        self._left = _MOST_PROBES

    @property
    def spent(self) -> bool:
        return self._left <= 0

    def folders(self, prefix: str) -> Sequence[str]:
        """The folders right under *prefix*; the first thousand of them."""
        self._left -= 1
        return self._pages.part(self._bucket, prefix, delimiter="/").folders

    def following(self, prefix: str, after: str) -> str | None:
        """The first key under *prefix* that does not begin with *after*, in order."""
        self._left -= 1
        part = self._pages.part(self._bucket, prefix, after=after + _LAST, most=1)
        return part.items[0].key if part.items else None


def _bounds(probe: _Probe, prefix: str, first: str, parts: int) -> Sequence[str]:
    """Keys, existing or not, that cut *prefix* into about *parts*."""
    base = prefix
    folders = probe.folders(base)
    while len(folders) == 1 and not probe.spent and first.startswith(folders[0]):
        base = folders[0]
        folders = probe.folders(base)
    if len(folders) < 2:
        return _by_character(probe, base, first, parts)
    bounds = list(folders)
    # Too few folders for so many parts: cut the first ones again by what is inside.
    for folder in folders:
        if len(bounds) >= parts or probe.spent:
            break
        bounds += probe.folders(folder)
    return bounds


def _by_character(probe: _Probe, prefix: str, first: str, parts: int) -> Sequence[str]:
    """Cut a flat *prefix*, of which *first* is the first key, where its keys begin to differ.

    Groups are cut again, the oldest first, until there are enough.
    """
    groups = deque([(prefix, first)])
    whole: list[str] = []
    while groups and len(groups) + len(whole) < parts and not probe.spent:
        beginning, key = groups.popleft()
        cut = _groups(probe, beginning, key)
        if len(cut) > 1:
            groups.extend(cut)
        else:
            whole.append(beginning)
    ends = sorted([*whole, *(beginning for beginning, _ in groups)])
    return [beginning + _LAST for beginning in ends[:-1]]


def _groups(probe: _Probe, prefix: str, first: str) -> Sequence[tuple[str, str]]:
    """The keys under *prefix* by the first character they differ in: each beginning, and the
    first key that has it."""
    stem = _stem(probe, prefix, first)
    groups: list[tuple[str, str]] = []
    key: str | None = first
    while key is not None and len(key) > len(stem):
        group = key[: len(stem) + 1]
        groups.append((group, key))
        key = None if probe.spent else probe.following(stem, group)
    return groups


def _stem(probe: _Probe, prefix: str, first: str) -> str:
    """What all keys under *prefix* begin with, by bisection.

    The longer a beginning of the first key is, the more keys lie behind those that share it.
    """
    shared, differing = len(prefix), len(first)
    while differing - shared > 1 and not probe.spent:
        middle = (shared + differing) // 2
        if probe.following(prefix, first[:middle]) is None:
            shared = middle
        else:
            differing = middle
    return first[:shared]


def _evenly(bounds: Sequence[str], most: int) -> Sequence[str]:
    if len(bounds) <= most:
        return bounds
    return [bounds[(i + 1) * len(bounds) // (most + 1)] for i in range(most)]


def _ranges(bounds: Sequence[str]) -> Sequence[KeyRange]:
    edges = [None, *bounds, None]
    return [KeyRange(after, until) for after, until in pairwise(edges)]
