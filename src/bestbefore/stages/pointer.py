"""Asks the store what ``current_pointer`` says."""

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.pointer import MOST_BYTES, Pointer
from bestbefore.domain.policy import ObjectSource
from bestbefore.ports.objects import ObjectLister, StoreError

_NOT_NOW = (FailureClass.THROTTLED, FailureClass.TRANSIENT, FailureClass.CREDENTIALS)


def ask(lister: ObjectLister, source: ObjectSource) -> Pointer | None:
    """What the pointer of *source* says now; None if it has none.

    One that may not be read keeps everything. Raises StoreError where the store as a whole cannot
    be asked at the moment, as the listing and the deletes would then fail too.
    """
    key = source.current_pointer
    if key is None:
        return None
    try:
        return Pointer.of(key, lister.content(source.bucket, key, MOST_BYTES + 1))
    except StoreError as error:
        failure = error.failure
        if failure.whole_source or failure.failure_class in _NOT_NOW:
            raise
        return Pointer(key, problem=f"{key} cannot be read: {failure.error}")
