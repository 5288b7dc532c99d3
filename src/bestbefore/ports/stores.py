"""One configured object store, whole: what an adapter of another package returns."""

from collections.abc import Callable
from dataclasses import dataclass

from bestbefore.ports.files import FileStore
from bestbefore.ports.objects import ObjectCopier, ObjectDeleter, ObjectLister


@dataclass(frozen=True, slots=True)
class Store:
    """The sides of one object store. Not every kind can copy, or holds files of rows.

    ``close`` ends its connections, once nobody uses it any more.
    """

    lister: ObjectLister
    deleter: ObjectDeleter
    copier: ObjectCopier | None = None
    files: FileStore | None = None
    close: Callable[[], None] = lambda: None
