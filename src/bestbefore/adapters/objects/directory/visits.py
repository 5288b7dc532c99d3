"""Doing something about many keys, folder by folder, each failure staying with its own."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from bestbefore.adapters.objects.directory.folders import Folder
from bestbefore.adapters.objects.directory.keys import by_folder, folders
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError

_Result = TypeVar("_Result")
Act = Callable[[Folder, str, str], _Result]

_PATIENCE_SECONDS = 15.0
"""What trouble that passes may cost a batch. One call to a server that is gone can last a minute,
and a thousand of them outlast any lease. What fails at once is tried for each key."""


def visit(
    bucket: Folder, keys: Sequence[str], act: Act[_Result]
) -> Generator[tuple[str, _Result | Failure | None], None, None]:
    """``act(folder, name, key)`` by key, for *keys* that are all fit.

    None where there is no such folder, or the folder spells no such name; a Failure where *act*,
    or the way to the folder, raised StoreError. Raises StoreError for the keys that are left once
    trying them makes no sense.
    """
    until = monotonic() + _PATIENCE_SECONDS
    for key, result in _each(bucket, keys, act):
        yield key, result
        if isinstance(result, Failure) and (
            result.whole_source
            or (result.failure_class is FailureClass.TRANSIENT and monotonic() > until)
        ):
            said = f"not tried, as before it {result.error}"
            raise StoreError(replace(result, error=said))


def _each(
    bucket: Folder, keys: Sequence[str], act: Act[_Result]
) -> Generator[tuple[str, _Result | Failure | None], None, None]:
    for way, names in by_folder(keys).items():
        try:
            folder = bucket.descend(folders(way) or [], exact=True)
            if folder is None:
                yield from ((way + name, None) for name in names)
                continue
            with folder:
                spelled = set(folder.spelled(names))
                for name in names:
                    key = way + name
                    yield key, _tried(act, folder, name, key) if name in spelled else None
        except StoreError as error:
            yield from ((way + name, error.failure) for name in names)


def _tried(act: Act[_Result], folder: Folder, name: str, key: str) -> _Result | Failure:
    try:
        return act(folder, name, key)
    except StoreError as error:
        return error.failure
