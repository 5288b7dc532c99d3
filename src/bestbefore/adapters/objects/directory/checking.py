"""What deleting below a prefix may rely on, read from the folders themselves. Writes nothing."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from stat import S_ISVTX

from bestbefore.adapters.objects.directory.errors import DELETING, READING, failure
from bestbefore.adapters.objects.directory.folders import Folder
from bestbefore.adapters.objects.directory.keys import folders, readable
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.objects import StoreError

_MOST_FOLDERS = 1_000
_MOST_NAMES = 100_000
_AS_WE_ARE = os.access in os.supports_effective_ids


@dataclass(slots=True)
class _Seen:
    """Paths of what was met: folders that hold files, those among them where we may not delete
    all, and what is no file and no folder of ours."""

    holding: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    sticky: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    mounted: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    folders: int = 0
    names: int = 0

    @property
    def enough(self) -> bool:
        return self.folders >= _MOST_FOLDERS or self.names >= _MOST_NAMES


def findings(bucket: Folder, prefix: str) -> Sequence[Finding]:
    """What can be said about deleting under *prefix*. Raises StoreError where it cannot look."""
    if bucket.read_only:
        said = f"{readable(bucket.path)} is mounted read-only"
        return [Finding("read-only", Level.ERROR, said, "mount it read-write")]
    seen = _Seen()
    base, slash, stem = prefix.rpartition("/")
    left = deque([base + slash] if folders(prefix) is not None else [])
    while left and not seen.enough:
        way = left.popleft()
        folder = bucket.descend(folders(way) or [], exact=not seen.folders)
        if folder is not None:
            with folder:
                left += [way + name for name in _look_into(folder, stem, seen)]
        stem = ""
    return list(_said(seen, readable(f"{bucket.path}/{prefix}"), partly=bool(left)))


def _look_into(folder: Folder, stem: str, seen: _Seen) -> Sequence[str]:
    """Note what is in *folder* and begins with *stem*; returns the folders to go on with."""
    inner: list[str] = []
    holds_files = False
    seen.folders += 1
    try:
        with os.scandir(folder.descriptor) as entries:
            for entry in entries:
                if not entry.name.startswith(stem):
                    continue
                seen.names += 1
                path = readable(f"{folder.path}/{entry.name}")
                if entry.is_file(follow_symlinks=False):
                    holds_files = True
                elif entry.is_symlink():
                    seen.links.append(path)
                elif not entry.is_dir(follow_symlinks=False):
                    seen.others.append(path)
                elif entry.stat(follow_symlinks=False).st_dev != folder.device:
                    seen.mounted.append(path)
                else:
                    inner.append(entry.name + "/")
        if holds_files:
            _judge(folder, seen)
    except OSError as error:
        raise StoreError(failure(error, folder.path, READING)) from error
    return inner


def _judge(folder: Folder, seen: _Seen) -> None:
    path = readable(folder.path)
    seen.holding.append(path)
    needed = os.W_OK | os.X_OK
    if not os.access(".", needed, dir_fd=folder.descriptor, effective_ids=_AS_WE_ARE):
        seen.denied.append(path)
    itself = os.fstat(folder.descriptor)
    if itself.st_mode & S_ISVTX and os.geteuid() not in (0, itself.st_uid):
        seen.sticky.append(path)


def _said(seen: _Seen, place: str, *, partly: bool) -> Iterator[Finding]:
    looked = f"folders looked at: {seen.folders:,}" + (", not all there are" if partly else "")
    if not seen.folders:
        yield Finding("prefix-missing", Level.WARNING, f"{place}: there is no such folder yet", "")
    elif seen.denied:
        level = Level.ERROR if seen.denied == seen.holding else Level.WARNING
        said = f"no right to delete in {_many(seen.denied, 'folders')} ({looked})"
        yield Finding("delete-denied", level, said, DELETING)
    else:
        said = f"what {place} holds may be deleted ({looked})"
        yield Finding("delete-allowed", Level.INFO, said, "")
    if seen.sticky:
        said = f"a sticky bit keeps others' files in {_many(seen.sticky, 'folders')}"
        yield Finding("sticky-folder", Level.WARNING, said, "run as the owner of the files")
    for paths, what in (
        (seen.links, "links"),
        (seen.mounted, "other file systems"),
        (seen.others, "pipes, sockets or devices"),
    ):
        if paths:
            said = f"never listed and never deleted: {_many(paths, what)}"
            yield Finding("not-listed", Level.INFO, said, "")


def _many(paths: Sequence[str], what: str) -> str:
    return f"{what}: {len(paths):,} ({paths[0]}{', …' if len(paths) > 1 else ''})"
