"""What S3-compatible stores do differently, and what one of them was found to do.

Bytes of a key that are not UTF-8 are lone surrogates in ours, as in Python's file names: one such
key can be listed, compared and passed by, and `impossible` refuses it and only it.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from operator import lt
from urllib.parse import unquote

from bestbefore.adapters.objects.s3.stores import KnownStore


def octets(key: str) -> bytes:
    """*key* as the store holds it."""
    return key.encode(errors="surrogateescape")


def readable(text: str) -> str:
    """*text*, which may hold a key, as it can be shown and stored."""
    return octets(text).decode(errors="backslashreplace")


def sendable(key: str) -> str | bytes:
    """*key* as a query parameter: botocore encodes text strictly, and sends bytes as they are."""
    return key if _is_utf_8(key) else octets(key)


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Order(Enum):
    """In which order a store lists its keys."""

    BYTES = "bytes"
    """S3's: byte by byte."""

    TREE = "tree"
    """SeaweedFS's: folder by folder. ``f/x`` comes right after ``f`` and so before ``f-1``, and
    everything that is compared with a listing (where a range ends, above all) has to be compared
    this way, or keys are lost between two ranges. Known by the ``Server`` header; behind a proxy
    that hides it, by the first page that is in this order and not in the other."""

    def rank(self, key: str) -> list[bytes]:
        """Something to compare keys by."""
        return [octets(key)] if self is Order.BYTES else octets(key).split(b"/")

    def ascending(self, keys: Sequence[str]) -> bool:
        """Whether each of *keys* comes after the one before it."""
        if self is Order.BYTES:
            # Text compares as its UTF-8 does, but for surrogates. Every page is asked this.
            if not _is_utf_8("".join(keys)):
                return all(map(lt, map(octets, keys), map(octets, keys[1:])))
            return all(map(lt, keys, keys[1:]))
        return all(rank < following for rank, following in pairwise(map(self.rank, keys)))

    def start_after(self, key: str) -> str:
        """What to send as StartAfter to get everything behind *key*.

        SeaweedFS (seen in 4.48) takes ``f`` for the whole folder of that name and continues
        behind it; ``f/`` continues inside it, and means the same where there is no such folder.
        """
        if self is Order.BYTES or key.endswith("/"):
            return key
        return key + "/"


class Plus(Enum):
    """What a raw ``+`` in a url-encoded listing stands for."""

    BLANK = "blank"
    """Form encoding, as AWS and SeaweedFS do it: a blank is ``+`` and a plus ``%2B``."""

    PLUS = "plus"
    """Percent encoding that leaves ``+`` alone: a blank is ``%20``."""

    def decode(self, text: str) -> str:
        """The key behind *text*, decoded exactly once."""
        if self is Plus.BLANK:
            text = text.replace("+", " ")
        return unquote(text, errors="surrogateescape") if "%" in text else text


class Dialect:
    """What one endpoint was found to do. Learnt from answers, never configured.

    Only ever moves from a default to what was seen, so threads need no lock.
    """

    def __init__(self) -> None:
        self.order = Order.BYTES
        self.plus: Plus | None = None

    def expect(self, store: KnownStore | None) -> None:
        """Take note of which store this looks like."""
        if store is not None and store.tree_order:
            self.order = Order.TREE

    def plus_in(self, texts: Sequence[str]) -> Plus | None:
        """What ``+`` means in a page of encoded *texts*; None if they do not tell.

        Nobody who writes blanks as ``%20`` also writes them as ``+``; nobody who writes the plus
        as ``%2B`` also leaves it as it is.
        """
        if self.plus is None and any("+" in text for text in texts):
            blank = any("%20" in text for text in texts)
            plus = any("%2B" in text or "%2b" in text for text in texts)
            if blank != plus:
                self.plus = Plus.PLUS if blank else Plus.BLANK
        return self.plus
