"""Folders by descriptor: no link, and no folder swapped for one meanwhile, leads out of the root.

Whatever is asked of a folder is asked of its descriptor, and every step down is one name, opened
without following links. Only the way to the root itself may hold links: it is the operator's.
"""

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path
from stat import S_ISREG
from typing import Self

from bestbefore.adapters.objects.directory.errors import (
    CLASSES,
    NOTHING_THERE,
    READING,
    failure,
    refused,
)
from bestbefore.adapters.objects.directory.keys import other_spellings, readable, unfit
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_ITSELF = _FOLDER | os.O_NOFOLLOW
_UNREAD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe must not wait for a writer


class Folder:
    """An open folder; close it, or use it in ``with``. Not for two threads at once.

    ``path`` is for messages only. Another file system mounted inside is not entered: it is not
    what the root's place in a run describes, and it may be unmounted tomorrow.
    """

    __slots__ = ("descriptor", "device", "path")

    def __init__(self, descriptor: int, path: str, device: int) -> None:
        self.descriptor = descriptor
        self.path = path
        self.device = device

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    @property
    def read_only(self) -> bool:
        """Whether it is reached through a read-only mount."""
        try:
            return bool(os.fstatvfs(self.descriptor).f_flag & os.ST_RDONLY)
        except OSError as error:
            raise StoreError(failure(error, self.path, READING)) from error

    def inner(self, name: str) -> "Folder | None":
        """The folder *name* in this one; None where there is none on this file system."""
        path = self.path if name == "." else f"{self.path}/{name}"
        try:
            inner = _opened(name, path, _ITSELF, self.descriptor)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            raise StoreError(failure(error, path, READING)) from error
        if inner.device == self.device:
            return inner
        inner.close()
        return None

    def descend(self, way: Sequence[str], *, exact: bool) -> "Folder | None":
        """The folder at the end of *way*, opened anew; None where there is none.

        *exact* takes names only as the disk spells them. What was just listed need not be asked.
        """
        here = self
        for name in way or ["."]:
            try:
                there = here.inner(name) if not (exact and way) or here.spelled([name]) else None
            finally:
                if here is not self:
                    here.close()
            if there is None:
                return None
            here = there
        return here

    def file(self, name: str) -> os.stat_result | None:
        """The file *name* as it is now; None where there is none. A link or a device is none."""
        found = self._stat(name)
        return found if found is not None and S_ISREG(found.st_mode) else None

    def content(self, name: str, most: int | None = None) -> bytes | None:
        """The first *most* bytes of the file *name*, or all; None where there is none."""
        try:
            descriptor = os.open(name, _UNREAD, dir_fd=self.descriptor)
            try:
                return _read(descriptor, most)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            needed = "this user needs the right to read it"
            raise StoreError(failure(error, f"{self.path}/{name}", needed)) from error

    def names(self) -> list[str]:
        """The names of its files and, with "/" behind them, of its folders; in no order."""
        names: list[str] = []
        try:
            with os.scandir(self.descriptor) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        names.append(entry.name)
                    elif entry.is_dir(follow_symlinks=False):
                        names.append(entry.name + "/")
        except OSError as error:
            raise StoreError(failure(error, self.path, READING)) from error
        return names

    def spelled(self, names: Collection[str]) -> Collection[str]:
        """Those of *names* that this folder, if it finds them, spells exactly so.

        Where case or normal forms are ignored one file is found under many names, and must not
        be taken for many files. Only there the whole folder is read to tell.
        """
        if not self._ignores_spelling(names):
            return names
        wanted = {*names, *(name + "/" for name in names)}
        return {name.removesuffix("/") for name in self.names() if name in wanted}

    def _ignores_spelling(self, names: Collection[str]) -> bool:
        """Whether one of *names* is also found under another spelling.

        Asked once of a name in ASCII, for case, and once of another one, for normal forms.
        """
        asked: set[bool] = set()
        for name in names:
            if name.isascii() in asked or not (others := other_spellings(name)):
                continue
            if (found := self._peek(name)) is None:
                continue
            asked.add(name.isascii())
            for other in others:
                same = self._peek(other)
                if same is not None and os.path.samestat(found, same):
                    return True
        return False

    def _peek(self, name: str) -> os.stat_result | None:
        """`_stat` for a guess: what is wrong with a name shows when its own turn comes."""
        try:
            return self._stat(name)
        except StoreError:
            return None

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except OSError as error:
            if error.errno in NOTHING_THERE:
                return None
            raise StoreError(failure(error, f"{self.path}/{name}", READING)) from error


@dataclass(frozen=True, slots=True)
class Root:
    """The folder whose folders are the buckets."""

    path: Path

    def unfit(self, bucket: str, key: str) -> Failure | None:
        """Why *key* names no file in *bucket*, if it does not."""
        if (reason := unfit(key)) is None:
            return None
        path = readable(f"{self.path}/{bucket}/{key}")
        return Failure(FailureClass.MALFORMED, f"{path}: {reason}")

    def bucket(self, name: str) -> Folder:
        """The bucket *name*, opened. Raises StoreError, for the whole source where it has to.

        What is missing may be a disk that is not mounted, which must not look like an empty one.
        """
        path = f"{self.path}/{name}"
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise refused(path, f"a bucket is a folder right in {self.path}: write its bare name")
        if sys.getfilesystemencoding() != "utf-8":
            raise refused(path, "names are not read as UTF-8 in this locale; set PYTHONUTF8=1")
        try:
            with _opened(str(self.path), str(self.path), _FOLDER, None) as root:
                # Also through its own mount point: what a run remembers is the bucket's place.
                found = root.spelled([name]) and _opened(name, path, _ITSELF, root.descriptor)
        except OSError as error:
            raise _unusable(error, path if error.filename == name else str(self.path)) from error
        if not found:
            raise refused(path, "there is no folder of exactly this name; correct its spelling")
        return found


def _read(descriptor: int, most: int | None) -> bytes | None:
    seen = os.fstat(descriptor)  # and not of the name, which may be another file's by now
    if not S_ISREG(seen.st_mode):
        return None
    most = seen.st_size if most is None else most
    read = b""
    while len(read) < most and (more := os.read(descriptor, most - len(read))):
        read += more
    return read


def _opened(name: str, path: str, flags: int, inside: int | None) -> Folder:
    descriptor = os.open(name, flags, dir_fd=inside)
    try:
        return Folder(descriptor, path, os.fstat(descriptor).st_dev)
    except BaseException:
        os.close(descriptor)
        raise


def _unusable(error: OSError, path: str) -> StoreError:
    if error.errno in NOTHING_THERE:
        missing = "there is no such folder; is its disk mounted?"
        other = "this is no folder, and a link to one is not followed; name the folder itself"
        return refused(path, missing if error.errno == ENOENT else other)
    failed = failure(error, path, READING)
    denied = CLASSES.get(error.errno or 0) is FailureClass.PERMISSION
    return StoreError(replace(failed, whole_source=denied))
