"""The deleting side of a directory store."""

import errno
import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from bestbefore.adapters.objects.directory.checking import findings
from bestbefore.adapters.objects.directory.errors import DELETING, failure
from bestbefore.adapters.objects.directory.files import etag
from bestbefore.adapters.objects.directory.folders import Folder, Root
from bestbefore.adapters.objects.directory.keys import by_folder, folders, readable, unfit
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import StoreError, Target

Result: TypeAlias = Outcome | Failure

_OUTAGE = 3
"""So many files in a row, in trouble that passes, and the rest of a batch is not tried: each may
have waited for a server's timeout, and a batch has to end within its lease."""


class DirectoryDeleter:
    """An `ObjectDeleter` over the folders in *root*, for any number of threads.

    There is no conditional unlink, so each file is looked at right before; what is put in its
    place in the moment between the two goes with it.
    """

    def __init__(self, root: Path) -> None:
        self._root = Root(root)

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        results: dict[str, Result] = {}
        fit: list[Target] = []
        for target in targets:
            if (reason := unfit(target.key)) is not None:
                path = readable(f"{self._root.path}/{bucket}/{target.key}")
                results[target.key] = Failure(FailureClass.MALFORMED, f"{path}: {reason}")
            else:
                fit.append(target)
        if fit:
            results |= self._delete(bucket, fit)
        return [results[target.key] for target in targets]

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        try:
            with self._root.bucket(bucket) as folder:
                return findings(folder, prefix)
        except StoreError as error:
            code = f"store-{error.failure.failure_class}"
            return [Finding(code, Level.ERROR, str(error), "nothing is planned before it is read")]

    def _delete(self, bucket: str, targets: Sequence[Target]) -> dict[str, Result]:
        results: dict[str, Result] = {}
        try:
            with self._root.bucket(bucket) as folder, closing(_each(folder, targets)) as each:
                in_a_row = 0
                for key, result in each:
                    results[key] = result
                    if not isinstance(result, Failure):
                        in_a_row = 0
                        continue
                    in_a_row += result.failure_class is FailureClass.TRANSIENT
                    if result.whole_source or in_a_row == _OUTAGE:
                        said = replace(result, error=f"not tried, as before it {result.error}")
                        return dict.fromkeys((t.key for t in targets), said) | results
        except StoreError as error:
            return dict.fromkeys((t.key for t in targets), error.failure) | results
        return results


def _each(bucket: Folder, targets: Sequence[Target]) -> Generator[tuple[str, Result], None, None]:
    """Delete *targets* folder by folder."""
    by_key = {target.key: target for target in targets}
    for way, names in by_folder(by_key).items():
        try:
            folder = bucket.descend(folders(way) or [], exact=True)
            if folder is None:
                yield from ((way + name, Outcome.ABSENT) for name in names)
                continue
            with folder:
                spelled = folder.spelled(names)
                for name in names:
                    key = way + name
                    if name in spelled:
                        yield key, _unlink(bucket, folder, name, by_key[key])
                    else:
                        yield key, Outcome.ABSENT
        except StoreError as error:
            yield from ((way + name, error.failure) for name in names)


def _unlink(bucket: Folder, folder: Folder, name: str, target: Target) -> Result:
    """Delete the file *name* in *folder* if it is still what was seen."""
    try:
        seen = folder.file(name)
        if seen is None:
            return Outcome.ABSENT
        if etag(seen) != target.etag:
            return Outcome.CHANGED
        os.unlink(name, dir_fd=folder.descriptor)
    except StoreError as error:
        return error.failure
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EISDIR):
            return Outcome.ABSENT
        failed = failure(error, f"{folder.path}/{name}", DELETING)
        return replace(failed, whole_source=error.errno == errno.EROFS and bucket.read_only)
    return Outcome.DELETED
