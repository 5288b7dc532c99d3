"""What may happen to a transaction that is no fault of it: a server breaks it off, or there is no
space left. Who asked for it tries again."""

import functools
import inspect
import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bestbefore.ports.ledger import LedgerUnavailable

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.05


class Interrupted(LedgerUnavailable):
    """The server chose a transaction to be rolled back, or the connection broke.

    ``undone`` says that nothing of it was kept; otherwise it broke during the commit, and nobody
    knows.
    """

    def __init__(self, message: str, *, undone: bool) -> None:
        super().__init__(message)
        self.undone = undone


class Full(LedgerUnavailable):
    """No space is left for the ledger, and nothing of the transaction was kept.

    ``wait`` passes the time until it may be tried again; False where nobody waits for that.
    """

    def __init__(self, message: str, wait: Callable[[], bool]) -> None:
        super().__init__(message)
        self.wait = wait


def replays(*harmless: str) -> Callable[[type[T]], type[T]]:
    """Have each public method of a class, being one transaction, tried again when interrupted, and
    for as long as there is no space where somebody waits for some.

    Those named *harmless* are even where the first try may have been kept: they change only what
    they find under its own condition, so that a second time finds nothing to do, or end in what
    a lost claim leads to.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.isfunction(method):
                setattr(cls, name, replayed(method, harmless=name in harmless))
        return cls

    return decorate


def replayed(method: Callable[P, R], *, harmless: bool = True) -> Callable[P, R]:
    """*method*, tried again when interrupted; see `replays`."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        tried = 0
        while True:
            try:
                return method(*args, **kwargs)
            except Full as error:
                if not error.wait():
                    raise
            except Interrupted as error:
                tried += 1
                if tried == _TRIES or not (harmless or error.undone):
                    raise
                log.warning("trying again: %s", error)
                time.sleep(_FIRST_WAIT_SECONDS * 2 ** (tried - 1))

    return wrapped
