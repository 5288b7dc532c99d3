"""Whole files in a directory store: what archives of rows are kept in."""

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from bestbefore.adapters.objects.directory.errors import DELETING, NOTHING_THERE, failure, refused
from bestbefore.adapters.objects.directory.folders import Folder, Root
from bestbefore.adapters.objects.directory.keys import folders, readable
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.objects import StoreError

_AS_WE_ARE = os.access in os.supports_effective_ids
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class DirectoryFiles:
    """A `FileStore` over the folders in *root*, for any number of threads.

    A file is written beside its place, made durable, read back, and moved there. What a killed
    process leaves beside it begins with a dot and ends in ``.partial``.
    """

    def __init__(self, root: Path) -> None:
        self._root = Root(root)

    def put(self, bucket: str, key: str, body: bytes) -> None:
        way, name = self._split(bucket, key)
        with self._root.bucket(bucket) as top, _made(top, way) as folder:
            path = f"{folder.path}/{name}"
            beside = f".{name}.{secrets.token_hex(4)}.partial"
            try:
                _write(folder, beside, body)
                if folder.content(beside, len(body) + 1) != body:
                    said = f"{readable(path)}: what was read back is not what was written"
                    raise StoreError(Failure(FailureClass.TRANSIENT, said))
                os.replace(beside, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
                os.fsync(folder.descriptor)
            except OSError as error:
                raise StoreError(failure(error, path, DELETING)) from error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=folder.descriptor)

    def get(self, bucket: str, key: str) -> bytes | None:
        way, name = self._split(bucket, key)
        with self._root.bucket(bucket) as top:
            folder = top.descend(way, exact=True)
            if folder is None:
                return None
            with folder:
                return folder.content(name)

    def remove(self, bucket: str, key: str) -> None:
        way, name = self._split(bucket, key)
        with self._root.bucket(bucket) as top:
            folder = top.descend(way, exact=True)
            if folder is None:
                return
            with folder:
                try:
                    os.unlink(name, dir_fd=folder.descriptor)
                except OSError as error:
                    if error.errno not in NOTHING_THERE:
                        path = f"{folder.path}/{name}"
                        raise StoreError(failure(error, path, DELETING)) from error

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        place = readable(f"{self._root.path}/{bucket}/{prefix}")
        try:
            with self._root.bucket(bucket) as top:
                folder = _deepest(top, folders(prefix) or [])
                with folder:
                    needed, inside = os.W_OK | os.X_OK, folder.descriptor
                    allowed = os.access(".", needed, dir_fd=inside, effective_ids=_AS_WE_ARE)
        except StoreError as error:
            code = f"store-{error.failure.failure_class}"
            return [Finding(code, Level.ERROR, str(error), "nothing can be archived until then")]
        if not allowed:
            said = f"no right to write to {place}"
            return [Finding("archive-denied", Level.ERROR, said, DELETING)]
        return [Finding("archive-reached", Level.INFO, f"{place} can be written to", "")]

    def _split(self, bucket: str, key: str) -> tuple[Sequence[str], str]:
        """The folders on the way to *key*, and the name in the last of them."""
        if (unfit := self._root.unfit(bucket, key)) is not None:
            raise StoreError(unfit)
        *way, name = key.split("/")
        return way, name


def _made(top: Folder, way: Sequence[str]) -> Folder:
    """The folder at the end of *way*, with those made that are missing. Raises StoreError."""
    here = _step(top, ".")
    for name in way:
        with here:
            here = _step(here, name)
    return here


def _step(folder: Folder, name: str) -> Folder:
    """The folder *name* in *folder*, made if there is none."""
    if (found := folder.inner(name)) is not None:
        return found
    path = f"{folder.path}/{name}"
    try:
        os.mkdir(name, dir_fd=folder.descriptor)
        os.fsync(folder.descriptor)
    except FileExistsError:
        pass  # somebody else was faster, or it is no folder
    except OSError as error:
        raise StoreError(failure(error, path, DELETING)) from error
    if (found := folder.inner(name)) is None:
        raise refused(path, "this is no folder, or on another disk; name another prefix")
    return found


def _deepest(top: Folder, way: Sequence[str]) -> Folder:
    """The last folder on *way* that is there."""
    here = _step(top, ".")
    for name in way:
        if (inner := here.inner(name)) is None:
            break
        here.close()
        here = inner
    return here


def _write(folder: Folder, name: str, body: bytes) -> None:
    """Write a new file and wait until the disk has it. Raises OSError."""
    descriptor = os.open(name, _NEW, 0o666, dir_fd=folder.descriptor)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(descriptor)
