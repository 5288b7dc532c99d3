"""The deleting side of a directory store."""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from bestbefore.adapters.objects.directory.checking import findings
from bestbefore.adapters.objects.directory.errors import DELETING, failure
from bestbefore.adapters.objects.directory.files import etag
from bestbefore.adapters.objects.directory.folders import Folder, Root
from bestbefore.adapters.objects.directory.visits import visit
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import StoreError, Target, Upload

Result: TypeAlias = Outcome | Failure


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
            if (unfit := self._root.unfit(bucket, target.key)) is not None:
                results[target.key] = unfit
            else:
                fit.append(target)
        if fit:
            results |= self._delete(bucket, fit)
        return [results[target.key] for target in targets]

    def abort(self, bucket: str, uploads: Sequence[Upload]) -> Sequence[Outcome | Failure]:  # noqa: ARG002
        """Files have no uploads."""
        return [Outcome.ABSENT] * len(uploads)

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        try:
            with self._root.bucket(bucket) as folder:
                return findings(folder, prefix)
        except StoreError as error:
            code = f"store-{error.failure.failure_class}"
            return [Finding(code, Level.ERROR, str(error), "nothing is planned before it is read")]

    def _delete(self, bucket: str, targets: Sequence[Target]) -> dict[str, Result]:
        by_key = {target.key: target for target in targets}
        results: dict[str, Result] = {}
        try:
            with self._root.bucket(bucket) as top:

                def unlink(folder: Folder, name: str, key: str) -> Result:
                    return _unlink(top, folder, name, by_key[key])

                for key, result in visit(top, list(by_key), unlink):
                    results[key] = result or Outcome.ABSENT
        except StoreError as error:
            return dict.fromkeys(by_key, error.failure) | results
        return results


def _unlink(bucket: Folder, folder: Folder, name: str, target: Target) -> Result:
    """Delete the file *name* in *folder* if it is still what was seen. Raises StoreError."""
    try:
        seen = folder.file(name)
        if seen is None:
            return Outcome.ABSENT
        if etag(seen) != target.etag:
            return Outcome.CHANGED
        os.unlink(name, dir_fd=folder.descriptor)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EISDIR):
            return Outcome.ABSENT
        failed = failure(error, f"{folder.path}/{name}", DELETING)
        return replace(failed, whole_source=error.errno == errno.EROFS and bucket.read_only)
    return Outcome.DELETED
