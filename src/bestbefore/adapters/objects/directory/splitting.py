"""Cutting a prefix into ranges that can be listed side by side, at its folders.

A guess, and only about sizes: ranges follow each other without a gap, so a bad one costs time and
never a key.
"""

from collections.abc import Sequence
from itertools import pairwise

from bestbefore.adapters.objects.directory.folders import Folder
from bestbefore.adapters.objects.directory.keys import folders, octets
from bestbefore.adapters.objects.directory.walk import PAGE
from bestbefore.ports.objects import KeyRange

_MOST_READ = 24
"""Folders that are read for a guess."""


def split(bucket: Folder, prefix: str, parts: int) -> Sequence[KeyRange]:
    """See `ObjectLister.ranges`. Whole levels of folders are cut at, so that all get their part."""
    base, slash, _ = prefix.rpartition("/")
    level, cuts = [base + slash], list[str]()
    seen = read = 0
    while level and len(cuts) < parts and read + len(level) <= _MOST_READ:
        names = [way + name for way in level for name in _names(bucket, way)]
        read += len(level)
        seen += len(names)
        level = [name for name in names if name.endswith("/") and name.startswith(prefix)]
        cuts += level
    if parts <= 1 or len(cuts) < 2 or (seen <= PAGE and not level):
        return [KeyRange(None, None)]
    cuts.sort(key=octets)
    most = 2 * parts
    if len(cuts) >= most:
        cuts = [cuts[n * len(cuts) // most] for n in range(1, most)]
    return [KeyRange(after, until) for after, until in pairwise([None, *cuts, None])]


def _names(bucket: Folder, way: str) -> Sequence[str]:
    there = None
    if (names := folders(way)) is not None:
        there = bucket.descend(names, exact=True)
    if there is None:
        return []
    with there:
        return there.names()
