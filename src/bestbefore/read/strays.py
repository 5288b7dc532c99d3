"""Documents about messages that execute nothing, beside those about dead letters."""

from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress

from bestbefore.domain.failure import FailureClass
from bestbefore.ports.ledger import DeadFilter, DeadLetters, NotInLedger
from bestbefore.ports.strays import StrayRecord, Strays
from bestbefore.read.documents import Document, when
from bestbefore.read.operations import dead_letter_document

_LISTED_BYTES = 1_000


def stray_document(stray: StrayRecord, *, whole: bool = False) -> Document:
    """A message that executes nothing, in the shape of a dead letter: of no run and no policy, its
    ``command`` the text of its bytes. *whole* adds all of them that are kept."""
    document: Document = {
        "operation_id": stray.stray_id.hex(),
        "policy": None,
        "policy_version": None,
        "owner": None,
        "superseded": False,
        "run_id": None,
        "command": _text(stray.body if whole else stray.body[:_LISTED_BYTES], stray.size),
        "failure_class": FailureClass.MALFORMED.value,
        "error": stray.error,
        "attempts": stray.received,
        "redriven": 0,
        "first_failed_at": when(stray.first_at),
        "last_failed_at": when(stray.last_at),
    }
    if whole:
        document |= {
            "history": [],
            "archive": None,
            "size": stray.size,
            "body_base64": b64encode(stray.body).decode(),
        }
    return document


def dead_letter_documents(
    letters: DeadLetters,
    strays: Strays,
    which: DeadFilter,
    limit: int | None = None,
    after: bytes | None = None,
) -> list[Document]:
    """The dead letters *which* selects, oldest failure first, and after the last of them the
    messages that execute nothing; with *after*, what follows the one of that id.

    Raises NotInLedger where there is nothing of that id.
    """
    if after is not None:
        with suppress(NotInLedger):
            return [stray_document(stray) for stray in strays.found(which, limit, after)]
    dead = [dead_letter_document(letter) for letter in letters.dead(which, limit, after)]
    rest = None if limit is None else limit - len(dead)
    found: Sequence[StrayRecord] = [] if rest == 0 else strays.found(which, rest)
    return dead + [stray_document(stray) for stray in found]


def _text(body: bytes, size: int) -> str:
    """*body*, of a message of *size* bytes, as a text; what is no UTF-8 is written out."""
    more = "" if len(body) == size else f"… ({size:,} bytes)"
    return body.decode("utf-8", "backslashreplace") + more
