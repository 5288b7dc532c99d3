"""A file as an object: what a listing says of it, and what tells it from any other."""

import os
from datetime import UTC, datetime, timedelta

from bestbefore.domain.selection import Listed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE = datetime.max.replace(tzinfo=UTC)


def etag(seen: os.stat_result) -> str:
    """What changes when the file is replaced, rewritten or touched."""
    return f"{seen.st_ino}-{seen.st_size}-{seen.st_mtime_ns}"


def listed(key: str, seen: os.stat_result) -> Listed:
    """The file *seen* under *key*."""
    return Listed(key, seen.st_size, etag(seen), _moment(seen.st_mtime_ns))


def _moment(nanoseconds: int) -> datetime:
    """*nanoseconds* since 1970, cut to the microsecond.

    A date that no calendar has is as good as one that lies in the future: the file is kept.
    """
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1_000)
    except OverflowError:
        return _UNREADABLE
