"""What a server may do to a transaction: break it off. Who asked for it tries again."""

import functools
import inspect
import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bestbefore.ports.ledger import LedgerError

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.05


class Interrupted(LedgerError):
    """The server chose a transaction to be rolled back, or the connection broke.

    ``undone`` says that nothing of it was kept; otherwise it broke during the commit, and nobody
    knows.
    """

    def __init__(self, message: str, *, undone: bool) -> None:
        super().__init__(message)
        self.undone = undone


def replays(*harmless: str) -> Callable[[type[T]], type[T]]:
    """Have each public method of a class, being one transaction, tried again when interrupted.

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
        for n in range(_TRIES - 1):
            try:
                return method(*args, **kwargs)
            except Interrupted as error:
                if not (harmless or error.undone):
                    raise
                log.warning("trying again: %s", error)
            time.sleep(_FIRST_WAIT_SECONDS * 2**n)
        return method(*args, **kwargs)

    return wrapped
