"""The looking side of a directory store."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bestbefore.adapters.objects.directory.errors import READING, failure
from bestbefore.adapters.objects.directory.files import listed
from bestbefore.adapters.objects.directory.folders import Folder, Root
from bestbefore.adapters.objects.directory.keys import readable
from bestbefore.adapters.objects.directory.splitting import split
from bestbefore.adapters.objects.directory.visits import visit
from bestbefore.adapters.objects.directory.walk import Walk
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import BucketFacts, KeyRange, Page, StoreError

_GOOD_FOR_SECONDS = 60.0
_MOST_WALKS = 64


class _Paused(NamedTuple):
    walk: Walk
    since: float


class DirectoryLister:
    """An `ObjectLister` over the folders in *root*, for any number of threads.

    A walk pauses at the end of a page and goes on with the next one, so that a folder's names are
    read and sorted once. A page that no paused walk leads up to descends to where it begins.
    """

    def __init__(self, root: Path) -> None:
        self._root = Root(root)
        self._paused: dict[tuple[str, str, KeyRange], _Paused] = {}
        self._lock = threading.Lock()

    def describe(self, bucket: str) -> BucketFacts:
        """The endpoint names the file system too: the same folder without its disk is another
        place. A disk that keeps its id is the same one under any device name."""
        with self._root.bucket(bucket) as folder:
            try:
                disk = os.fstatvfs(folder.descriptor).f_fsid
            except OSError as error:
                raise StoreError(failure(error, folder.path, READING)) from error
        return BucketFacts(f"fs-{disk:x}:{readable(str(self._root.path))}", None, None)

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        with self._root.bucket(bucket) as folder:
            return split(folder, prefix, parts)

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        walk = self._resumed((bucket, prefix, keys)) or Walk(prefix, keys)
        with self._root.bucket(bucket) as folder:
            page = walk.page(folder)
        if page.rest is not None:
            self._pause((bucket, prefix, page.rest), walk)
        return page

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        seen: dict[str, Listed | Failure | None] = {}
        fit: list[str] = []
        for key in keys:
            if (unfit := self._root.unfit(bucket, key)) is not None:
                seen[key] = unfit
            else:
                fit.append(key)
        with self._root.bucket(bucket) as folder:
            seen |= visit(folder, fit, _look)
        return seen

    def uploads(self, bucket: str, prefix: str, keys: KeyRange) -> Page:  # noqa: ARG002
        """Files have none."""
        return Page([], None)

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        """Files have none, and what cannot be asked is no empty answer."""
        said = readable(f"{self._root.path}/{bucket}: files in folders have no tags")
        return dict.fromkeys(keys, Failure(FailureClass.MALFORMED, said))

    def content(self, bucket: str, key: str, most: int) -> bytes | None:
        if (unfit := self._root.unfit(bucket, key)) is not None:
            raise StoreError(unfit)
        with self._root.bucket(bucket) as top:
            ((_, found),) = visit(top, [key], lambda folder, name, _: folder.content(name, most))
        if isinstance(found, Failure):
            raise StoreError(found)
        return found

    def _resumed(self, place: tuple[str, str, KeyRange]) -> Walk | None:
        with self._lock:
            paused = self._paused.pop(place, None)
        fresh = paused is not None and time.monotonic() - paused.since < _GOOD_FOR_SECONDS
        return paused.walk if paused is not None and fresh else None

    def _pause(self, place: tuple[str, str, KeyRange], walk: Walk) -> None:
        now = time.monotonic()
        with self._lock:
            # The oldest come first. Nobody asked for the rest of these in time.
            while self._paused:
                oldest = next(iter(self._paused))
                young = now - self._paused[oldest].since < _GOOD_FOR_SECONDS
                if young and len(self._paused) < _MOST_WALKS:
                    break
                del self._paused[oldest]
            self._paused[place] = _Paused(walk, now)


def _look(folder: Folder, name: str, key: str) -> Listed | None:
    seen = folder.file(name)
    return None if seen is None else listed(key, seen)
