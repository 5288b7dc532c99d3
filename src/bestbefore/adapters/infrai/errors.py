"""What Infrai's answers mean, in the product's words: by status first, by code for one of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bestbefore.domain.failure import Failure, FailureClass, parse_retry_after
from bestbefore.domain.printable import printable

INSUFFICIENT_CREDIT = "INSUFFICIENT_CREDIT"
"""The one code of theirs that is documented."""

_PAYMENT_REQUIRED = 402
_LONGEST_TEXT = 300

_STATUSES: Mapping[int, FailureClass] = {
    401: FailureClass.CREDENTIALS,
    402: FailureClass.CREDENTIALS,
    403: FailureClass.PERMISSION,
    408: FailureClass.TRANSIENT,
    425: FailureClass.TRANSIENT,
    429: FailureClass.THROTTLED,
}
_REMEDIES: Mapping[int, str] = {
    401: "check the key that infrai.api_key_env names",
    402: "top up on their billing page, or with POST /v1/account/topup",
    403: "give the key the right to do that",
    404: "create it, or correct its name",
}


class InfraiError(Exception):
    """A call that came to nothing. ``failure`` is why, ``status`` and ``code`` what was answered,
    where something was. ``decisive`` says that another call would end in the same way now."""

    def __init__(
        self,
        failure: Failure,
        status: int | None = None,
        code: str | None = None,
        *,
        decisive: bool = False,
    ) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.status = status
        self.code = code
        self.decisive = decisive


class Drift(InfraiError):
    """A capability is not what this version knows: nothing was sent.

    Raised too for one that the vendor says is not available.
    """

    def __init__(self, capability: str, expected: str, found: str, remedy: str) -> None:
        text = f"{capability}: expected {expected}, found {found}; {remedy}"
        super().__init__(Failure(FailureClass.UNKNOWN, printable(text)), decisive=True)
        self.capability = capability
        self.expected = expected
        self.found = found
        self.remedy = remedy


def no_answer(what: str, why: str) -> InfraiError:
    """Nobody answered, or not as this API does: a timeout, a lost connection, a gateway's page."""
    return InfraiError(Failure(FailureClass.TRANSIENT, f"{what}: {shortened(why)}"), decisive=True)


def refusal(
    what: str, status: int, error: object, retry_after: str | None, now: datetime
) -> InfraiError:
    """A call that was answered, and not done. *error* is what stands under that name in the body:
    an object with ``code``, ``message`` and ``hint``, each of which may be missing."""
    said: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    code = said.get("code")
    code = shortened(str(code)) if code else None
    meaning = _PAYMENT_REQUIRED if code == INSUFFICIENT_CREDIT else status
    texts = [shortened(str(said[k])) for k in ("message", "hint") if said.get(k)]
    if remedy := _REMEDIES.get(meaning):
        texts.append(remedy)
    head = f"{what}: status {status}" + (f" {code}" if code else "")
    failure = Failure(
        _class(meaning),
        ": ".join([head, "; ".join(texts)]) if texts else head,
        parse_retry_after(retry_after, now),
    )
    return InfraiError(failure, status, code, decisive=meaning in {*_STATUSES, 404})


def shortened(text: str) -> str:
    """Their text, on one line and not without end."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_TEXT else line[:_LONGEST_TEXT] + "…"


def _class(status: int) -> FailureClass:
    if status >= 500:
        return FailureClass.TRANSIENT
    # What else they refuse may be ours or theirs, and may change: no message is bad for good.
    return _STATUSES.get(status, FailureClass.UNKNOWN)
