"""What the client's and the broker's errors mean, in the product's words."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiormq.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    InvalidFrameError,
    ProbableAuthenticationError,
)

from bestbefore.adapters.queues.rabbitmq.loop import LoopClosed
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import TransportFailed

ERRORS = (AMQPError, OSError, RuntimeError, LoopClosed)
"""What the client raises when it cannot go on. A TimeoutError is an OSError; a channel that was
used after its end is a RuntimeError."""

_NO_VIRTUAL_HOST = "the virtual host is missing, or this user may not use it"
_WORDS = (
    (_NO_VIRTUAL_HOST, FailureClass.PERMISSION),
    ("NOT_ALLOWED", FailureClass.PERMISSION),
    ("ACCESS_REFUSED - Login", FailureClass.CREDENTIALS),
    ("ACCESS_REFUSED", FailureClass.PERMISSION),
)
"""How an error is known whose class says nothing, from the special to the general."""

_CLASSES: tuple[tuple[type[Exception], FailureClass], ...] = (
    (ProbableAuthenticationError, FailureClass.CREDENTIALS),
    (AuthenticationError, FailureClass.CREDENTIALS),
    (ChannelAccessRefused, FailureClass.PERMISSION),
    (ChannelNotFoundEntity, FailureClass.MALFORMED),
    (ChannelLockedResource, FailureClass.MALFORMED),
)

_LONGEST = 300


def failure(error: BaseException, name: str) -> Failure:
    """*error* as the failure of a call on what is called *name*."""
    failure_class = _class(error)
    whole = failure_class is FailureClass.MALFORMED
    return Failure(failure_class, f"{name}: {said(error)}", whole_source=whole)


def said(error: BaseException) -> str:
    """The text of *error*: the broker's own words, where it used any."""
    if isinstance(error, LoopClosed):
        return "it was closed"
    if isinstance(error, asyncio.CancelledError):
        return "the connection was lost"
    text = " ".join(map(str, error.args)) or str(error)
    if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in text:
        # The broker closes the connection and says why; the client does not pass that on.
        return _NO_VIRTUAL_HOST
    if isinstance(error, TimeoutError) and not text:
        return "no answer in time"
    return text.partition("\n")[0][:_LONGEST] or type(error).__name__


def broken(name: str, what: str, failure_class: FailureClass) -> TransportFailed:
    """A call on *name* that came to nothing, in our own words."""
    whole = failure_class is FailureClass.MALFORMED
    return TransportFailed(Failure(failure_class, f"{name}: {what}", whole_source=whole))


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Raise what the client raises as the failure of a call on what is called *name*."""
    try:
        yield
    except asyncio.CancelledError as error:
        if cancelled():
            raise
        raise TransportFailed(failure(error, name)) from None
    except ERRORS as error:
        raise TransportFailed(failure(error, name)) from error


def cancelled() -> bool:
    """Whether it is this task that has to end; else the client gave up what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _class(error: BaseException) -> FailureClass:
    text = said(error)
    for words, failure_class in _WORDS:
        if words in text:
            return failure_class
    for kind, failure_class in _CLASSES:
        if isinstance(error, kind):
            return failure_class
    return FailureClass.TRANSIENT
