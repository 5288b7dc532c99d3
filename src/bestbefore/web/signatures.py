"""Whether a body was signed with one of our keys, and when. Pure: bytes in, an answer out.

Three forms: Standard Webhooks, which signs an id and a time along with the body; hex of the body
alone, ``sha256=…`` or without that, in a header of the operator's choice; and the same of a time,
which comes in another header of their choice, a dot, and the body.
"""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

STANDARD_HEADER = "webhook-signature"

_ID = re.compile(r"[\x21-\x7e]{1,200}")
_TIME = re.compile(r"[0-9]{1,11}")
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_MOST_SIGNATURES = 10


class Delivery(NamedTuple):
    """What a sender signed along with the body: an id, which must not come twice before ``until``,
    as after that its time is too old. Where only a time is signed, the signature is the id."""

    sender_id: str
    until: datetime


class Verified(NamedTuple):
    """A signature that is ours. One of the body alone says nothing of any delivery."""

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
    timestamp_header: str | None = None,
) -> Verified | NotVerified:
    """Whether *body*, byte for byte, carries a signature by one of *keys* in *header*.

    Names in *headers* are in lower case. A time further from *now* than *tolerance*, either way,
    is none of ours. With *timestamp_header* a time has to stand there, and was signed.
    """
    given = headers.get(header)
    if given is None:
        return NotVerified(f"there is no header {header}")
    if header != STANDARD_HEADER and timestamp_header is None:
        fits = _any([_hex(given)], body, keys)
        return Verified() if fits else NotVerified("the signature fits none of the keys")
    if header != STANDARD_HEADER and timestamp_header is not None:
        time = headers.get(timestamp_header, "")
        if not _TIME.fullmatch(time):
            return NotVerified(f"{timestamp_header} is missing or cannot be read")
        if not _any([_hex(given)], f"{time}.".encode() + body, keys):
            return NotVerified("the signature fits none of the keys")
        return _timely(f"signature:{_hex(given).hex()}", time, tolerance, now)
    sender_id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(sender_id) or not _TIME.fullmatch(time):
        return NotVerified("webhook-id or webhook-timestamp is missing or cannot be read")
    # The text that was sent is what was signed: a number read and written again may differ.
    signed = f"{sender_id}.{time}.".encode() + body
    if not _any(_standard(given), signed, keys):
        return NotVerified("no signature fits any of the keys")
    return _timely(sender_id, time, tolerance, now)


def _timely(
    sender_id: str, time: str, tolerance: timedelta, now: datetime
) -> Verified | NotVerified:
    """The delivery of *sender_id*, signed at *time*, unless that is too far from *now*."""
    at = datetime.fromtimestamp(int(time), UTC)
    if abs(now - at) > tolerance:
        return NotVerified(f"its time is {at:%Y-%m-%dT%H:%M:%SZ}, more than {tolerance} from ours")
    return Verified(Delivery(sender_id, at + tolerance + timedelta(seconds=1)))


def _hex(given: str) -> bytes:
    """The signature in a header such as ``sha256=HEX`` or ``HEX``; nothing for any other."""
    scheme, equals, digits = given.partition("=")
    if not equals:
        scheme, digits = "sha256", given
    if scheme != "sha256" or not _HEX.fullmatch(digits):
        return b""
    return bytes.fromhex(digits)


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
