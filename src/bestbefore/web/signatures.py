"""Whether a body was signed with one of our keys, and when. Pure: bytes in, an answer out.

Two forms: Standard Webhooks, which signs an id and a time along with the body, and plain hex of
the body alone, ``sha256=…``, in a header of the operator's choice.
"""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

STANDARD_HEADER = "webhook-signature"

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_TIME = re.compile(r"[0-9]{1,12}")
_MOST_SIGNATURES = 10


class Delivery(NamedTuple):
    """What a sender signed along with the body: an id, which must not come twice before ``until``,
    as after that its time is too old."""

    sender_id: str
    until: datetime


class Verified(NamedTuple):
    """A signature that is ours. A plain one says nothing of any delivery."""

    delivery: Delivery | None = None


class NotVerified(NamedTuple):
    """No signature of ours. ``why`` is for our log; a caller is told nothing."""

    why: str


def verify(
    headers: Mapping[str, str],
    body: bytes,
    keys: Sequence[bytes],
    header: str,
    tolerance: timedelta,
    now: datetime,
) -> Verified | NotVerified:
    """Whether *body*, byte for byte, carries a signature by one of *keys* in *header*.

    Names in *headers* are in lower case. A time further from *now* than *tolerance*, either way,
    is none of ours.
    """
    given = headers.get(header)
    if given is None:
        return NotVerified(f"there is no header {header}")
    if header != STANDARD_HEADER:
        return _plain(given, body, keys)
    sender_id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(sender_id) or not _TIME.fullmatch(time):
        return NotVerified("webhook-id or webhook-timestamp is missing or cannot be read")
    # The text that was sent is what was signed: a number read and written again may differ.
    signed = f"{sender_id}.{time}.".encode() + body
    if not _any(_standard(given), signed, keys):
        return NotVerified("no signature fits any of the keys")
    at = datetime.fromtimestamp(int(time), UTC)
    if abs(now - at) > tolerance:
        return NotVerified(f"its time is {at:%Y-%m-%dT%H:%M:%SZ}, more than {tolerance} from ours")
    return Verified(Delivery(sender_id, at + tolerance + timedelta(seconds=1)))


def _plain(given: str, body: bytes, keys: Sequence[bytes]) -> Verified | NotVerified:
    scheme, _, digits = given.partition("=")
    try:
        signature = bytes.fromhex(digits) if scheme == "sha256" else b""
    except ValueError:
        signature = b""
    fits = _any([signature], body, keys)
    return Verified() if fits else NotVerified("the signature fits none of the keys")


def _standard(given: str) -> list[bytes]:
    """The signatures in a header such as ``v1,BASE64 v1,BASE64``; others are not for us."""
    found = []
    for part in given.split(" ")[:_MOST_SIGNATURES]:
        version, _, text = part.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(text, validate=True))
            except ValueError:
                continue
    return found


def _any(signatures: Sequence[bytes], signed: bytes, keys: Sequence[bytes]) -> bool:
    """Whether one of *signatures* is right; takes as long whichever it is."""
    right = [hmac.digest(key, signed, "sha256") for key in keys]
    fits = [hmac.compare_digest(one, other) for one in signatures for other in right]
    return any(fits)
