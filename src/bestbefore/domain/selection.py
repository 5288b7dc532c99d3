"""Which listed objects a policy selects. A function of policy, cutoff and listing only."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import translate
from typing import NamedTuple

from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.versions import Version, Versions

MAX_KEY_BYTES = 1024

STANDARD = "STANDARD"
"""The storage class of what a store says nothing about."""


class Listed(NamedTuple):
    """An object as a store lists it. ``etag`` without quotes, ``last_modified`` aware, in UTC.

    ``version`` is None where the objects that readers see are listed. Where all entries are, a
    delete marker is one of no size and an empty ``etag``.
    """

    key: str
    size: int
    etag: str
    last_modified: datetime
    storage_class: str = STANDARD
    version: Version | None = None

    @property
    def version_id(self) -> str | None:
        return self.version and self.version.id

    @property
    def visible(self) -> bool:
        """Whether readers see it."""
        return self.version is None or (self.version.newest and not self.version.marker)


class Verdict(StrEnum):
    """What one object is, seen alone: `OUTSIDE`, `YOUNG`, `ELIGIBLE`, refused or kept."""

    OUTSIDE = "outside"  # not what prefix and pattern describe
    YOUNG = "young"
    CURRENT = "current"  # the newest entry of its key, where only those before it go
    ELIGIBLE = "eligible"
    REFUSED = "refused"  # selected, but no command can carry its key
    SIZE = "size"
    FOLDER_MARKER = "folder_marker"
    STORAGE_CLASS = "storage_class"
    NO_GENERATION = "no_generation"
    POINTER = "pointer"  # the object that names the generation in use
    FUTURE_DATE = "future_date"
    COVERS_KEPT = "covers_kept"  # the newest entry of a key, over others that stay


PROTECTIVE = frozenset(
    {
        Verdict.SIZE,
        Verdict.FOLDER_MARKER,
        Verdict.STORAGE_CLASS,
        Verdict.NO_GENERATION,
        Verdict.POINTER,
        Verdict.FUTURE_DATE,
        Verdict.COVERS_KEPT,
    }
)
"""Verdicts that are counted as protected, under their own name."""

GENERATION = "generation"
KEEP_LAST = "keep_last"
"""Protection reasons that only the whole listing can establish; so can `Verdict.POINTER`."""

HOLD = "hold"
TAGS = "tags"
TAGS_UNREADABLE = "tags_unreadable"
"""Protection reasons that no listing shows."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One source's rules, compiled. *now* tells a date that lies in the future.

    *added_bytes* are what a command makes a key longer by: an archived object has a longer one.
    """

    source: ObjectSource
    cutoff: datetime
    now: datetime
    added_bytes: int
    _matches: Callable[[str], object]
    _generation: re.Pattern[str] | None
    _group: re.Pattern[str] | None

    @classmethod
    def of(
        cls, source: ObjectSource, cutoff: datetime, now: datetime, added_bytes: int = 0
    ) -> "Selector":
        return cls(
            source,
            cutoff,
            now,
            added_bytes,
            _matcher(source),
            re.compile(source.generation) if source.generation else None,
            re.compile(source.keep_last_group) if source.keep_last_group else None,
        )

    def judge(self, item: Listed) -> Verdict:
        """What *item* is, looking at it alone."""
        source = self.source
        key = item.key
        if not key.startswith(source.prefix) or not self._matches(key[len(source.prefix) :]):
            return Verdict.OUTSIDE
        since = item.last_modified
        version = item.version
        if version is not None and source.versions is Versions.NONCURRENT:
            if version.since is not None:
                since = version.since
            elif version.others or not version.marker:
                return Verdict.CURRENT
        if since >= self.cutoff:
            return Verdict.FUTURE_DATE if since > self.now else Verdict.YOUNG
        if version is None or not version.marker:
            if item.size == 0 and key.endswith("/") and not source.folder_markers:
                return Verdict.FOLDER_MARKER
            if item.size < source.min_size or (
                source.max_size is not None and item.size > source.max_size
            ):
                return Verdict.SIZE
            if source.storage_class and item.storage_class not in source.storage_class:
                return Verdict.STORAGE_CLASS
        if self._generation is not None:
            if key == source.current_pointer:
                return Verdict.POINTER
            if self.generation(key) is None:
                return Verdict.NO_GENERATION
        if impossible(key, self.added_bytes) is not None:
            return Verdict.REFUSED
        if version is not None and version.kept:
            return Verdict.COVERS_KEPT
        return Verdict.ELIGIBLE

    def judge_upload(self, key: str, initiated: datetime) -> Verdict:
        """What an unfinished upload is, begun at *initiated*. It has no size yet."""
        source = self.source
        if not key.startswith(source.prefix) or not self._matches(key[len(source.prefix) :]):
            return Verdict.OUTSIDE
        if initiated >= self.cutoff:
            return Verdict.FUTURE_DATE if initiated > self.now else Verdict.YOUNG
        if self._generation is not None:
            if key == source.current_pointer:
                return Verdict.POINTER
            if self.generation(key) is None:
                return Verdict.NO_GENERATION
        return Verdict.REFUSED if impossible(key) else Verdict.ELIGIBLE

    def generation(self, key: str) -> str | None:
        """The generation *key* belongs to, or None where it has none that can be read."""
        if self._generation is None:
            return None
        found = self._generation.search(key)
        return found["generation"] if found else None

    def generation_prefix(self, key: str) -> str:
        """The beginning of *key* up to the end of its generation."""
        found = self._generation.search(key) if self._generation else None
        return key[: found.end("generation")] if found else key

    def keep_last_group(self, key: str) -> str | None:
        """The group *key* is counted in for ``keep_last``; None if it is counted in none."""
        if self._group is None:
            return ""
        found = self._group.search(key)
        if found is None:
            return None
        return found[1] if self._group.groups else found[0]

    def counts_for_keep_last(self, item: Listed) -> bool:
        return item.size >= max(self.source.keep_last_min_size, self.source.min_size)


def impossible(key: str, added_bytes: int = 0) -> str | None:
    """Why no store can hold *key*, or a copy of it whose key is longer by *added_bytes*, or None.

    Stores answer 204 to a DELETE of some of these, so the judgement is ours: S3 keys are 1 to
    1,024 bytes of UTF-8 (docs.aws.amazon.com, "Naming Amazon S3 objects").
    """
    if not key:
        return "the key is empty"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "the key is not valid Unicode"
    if size > MAX_KEY_BYTES:
        return f"the key has {size:,} bytes, and an S3 key at most {MAX_KEY_BYTES:,}"
    if size + added_bytes > MAX_KEY_BYTES:
        return (
            f"the key has {size:,} bytes; its copy's would have {size + added_bytes:,}, and an S3 "
            f"key has at most {MAX_KEY_BYTES:,}"
        )
    return None


@dataclass(frozen=True, slots=True)
class Generation:
    """What a scan saw of one generation."""

    name: str
    youngest: datetime


def newest(generations: Iterable[Generation], keep: int) -> set[str]:
    """The names of the newest *keep* generations.

    Newest by name and newest by youngest object: kept if either says so.
    """
    seen = list(generations)
    by_name = sorted(seen, key=lambda g: g.name, reverse=True)[:keep]
    by_age = sorted(seen, key=lambda g: (g.youngest, g.name), reverse=True)[:keep]
    return {g.name for g in by_name} | {g.name for g in by_age}


def _matcher(source: ObjectSource) -> Callable[[str], object]:
    if source.match is not None:
        return re.compile(translate(source.match)).match
    if source.regex is not None:
        return re.compile(source.regex).fullmatch
    return lambda _: True
