"""What Redis' errors mean, in the product's words."""

from redis import exceptions as redis

from bestbefore.adapters.queues.bullmq.loop import LoopClosed
from bestbefore.domain.failure import Failure, FailureClass

_CLASSES: tuple[tuple[type[Exception], FailureClass], ...] = (
    (redis.AuthenticationError, FailureClass.CREDENTIALS),
    (redis.AuthorizationError, FailureClass.CREDENTIALS),
    (redis.NoPermissionError, FailureClass.PERMISSION),
    (redis.ConnectionError, FailureClass.TRANSIENT),
    (redis.TimeoutError, FailureClass.TRANSIENT),
    (redis.OutOfMemoryError, FailureClass.TRANSIENT),
    (redis.ReadOnlyError, FailureClass.TRANSIENT),
    (OSError, FailureClass.TRANSIENT),  # TimeoutError is one
    (LoopClosed, FailureClass.TRANSIENT),
)
"""From the special to the general."""

_WORDS = (
    ("NOPERM", FailureClass.PERMISSION),
    ("No permissions", FailureClass.PERMISSION),
    ("OOM ", FailureClass.TRANSIENT),
    ("READONLY", FailureClass.TRANSIENT),
    ("MISCONF", FailureClass.TRANSIENT),
    ("NOREPLICAS", FailureClass.TRANSIENT),
    ("BUSY ", FailureClass.TRANSIENT),
)
"""How an error from within a script or a transaction is known, which has no class of its own."""

_LONGEST = 300


def failure(error: Exception, name: str) -> Failure:
    """*error* as the failure of a call on the queue *name*."""
    return Failure(_class(error), f"{name}: {said(error)}")


def said(error: Exception) -> str:
    """The text of *error*, without the command that caused it."""
    if isinstance(error, LoopClosed):
        return "it was closed"
    text = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "")
    # Of a command among several it says "Command # 7 (…all its arguments…) … caused error: …".
    text = text.rpartition("caused error: ")[2].partition("\n")[0]
    return text[:_LONGEST] or type(error).__name__


def _class(error: Exception) -> FailureClass:
    for kind, failure_class in _CLASSES:
        if isinstance(error, kind):
            return failure_class
    text = str(error)
    return next((known for word, known in _WORDS if word in text), FailureClass.UNKNOWN)
