"""Single listing requests, with everything S3-compatible stores disagree about settled."""

from collections.abc import Sequence
from typing import NamedTuple

from bestbefore.adapters.objects.s3.client import Connection, Reply
from bestbefore.adapters.objects.s3.dialect import Order, Plus, octets, readable, sendable
from bestbefore.adapters.objects.s3.errors import NOT_IMPLEMENTED, RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.traits import Capability
from bestbefore.adapters.objects.s3.wire import Listing, parse_listing
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Shown

PAGE = 1_000
MOST_EMPTY_PAGES = 100
_UNKNOWN_PARAMETER = frozenset({NOT_IMPLEMENTED, "InvalidArgument", "InvalidRequest"})


class Part(NamedTuple):
    """One answer: objects and folders (with a delimiter), both in the store's order.

    ``order`` is the one that the request was made for and the answer is in. ``entries`` are the
    items of a listing of versions with what it says of them, and ``behind`` is where it stopped.
    """

    items: Sequence[Listed]
    folders: Sequence[str]
    truncated: bool
    order: Order
    behind: str | None = None
    entries: Sequence[Shown] = ()


class Pages:
    """Asks for parts of listings. Every method raises RequestFailed and nothing else."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def part(
        self,
        bucket: str,
        prefix: str,
        *,
        after: str | None = None,
        delimiter: str | None = None,
        most: int = PAGE,
    ) -> Part:
        """The first objects under *prefix* that come after the key *after*, at most *most*.

        Goes on by keys and never by tokens, as cursors are stored and taken up by other
        processes. Only an empty answer that is not the end is followed by its token at once.
        """
        dialect = self._connection.dialect
        while True:
            order = dialect.order
            params: dict[str, object] = {"Prefix": sendable(prefix), "MaxKeys": most}
            if delimiter is not None:
                params["Delimiter"] = delimiter
            if after is not None:
                params["StartAfter"] = sendable(order.start_after(after))
            target = readable(f"s3://{bucket}/{prefix}")
            listing = self._unless_empty(bucket, target, params)
            keys = self._decoded(bucket, target, listing, listing.keys)
            folders = self._decoded(bucket, target, listing, listing.prefixes)
            sequence = keys if after is None else [after, *keys]
            if not dialect.order.ascending(sequence):
                if not Order.TREE.ascending(sequence):
                    raise bad_answer(target, _disorder(sequence, after))
                dialect.order = Order.TREE
            if dialect.order is not order and after is not None:
                continue  # what was learnt from this answer changes what had to be asked
            items = list(
                map(Listed, keys, listing.sizes, listing.etags, listing.times, listing.classes)
            )
            return Part(items, folders, listing.truncated, dialect.order)

    def _unless_empty(self, bucket: str, target: str, params: dict[str, object]) -> Listing:
        """The first answer that holds anything, or the last one."""
        token = None
        for _ in range(MOST_EMPTY_PAGES):
            listing = self._ask(bucket, target, params)
            if listing.keys or listing.prefixes or not listing.truncated:
                return listing
            if listing.token in {None, token}:
                break
            token = listing.token
            params = params | {"ContinuationToken": token}
        raise bad_answer(target, "the listing goes on and on without any key")

    def _ask(self, bucket: str, target: str, params: dict[str, object]) -> Listing:
        reply = self._listed(bucket, target, params)
        try:
            return parse_listing(reply.body)
        except ValueError as error:
            raise bad_answer(target, str(error)) from error

    def _listed(self, bucket: str, target: str, params: dict[str, object]) -> Reply:
        """The answer with url-encoded keys, or as they are where the store refuses to do that."""
        traits = self._connection.traits
        if traits.found(Capability.URL_ENCODING) is None:
            try:
                return self._connection.call(
                    "ListObjectsV2", target, Bucket=bucket, EncodingType="url", **params
                )
            except RequestFailed as failed:
                if failed.code not in _UNKNOWN_PARAMETER:
                    raise
                reply = self._connection.call("ListObjectsV2", target, Bucket=bucket, **params)
            traits.learn(Capability.URL_ENCODING, "refused")
            return reply
        return self._connection.call("ListObjectsV2", target, Bucket=bucket, **params)

    def _decoded(
        self, bucket: str, target: str, listing: Listing, texts: Sequence[str]
    ) -> Sequence[str]:
        if not listing.url_encoded:
            return texts
        plus = self._connection.dialect.plus_in(texts)
        if plus is None:
            doubtful = next((text for text in texts if "+" in text), None)
            plus = Plus.PLUS if doubtful is None else self._settle(bucket, target, doubtful)
        return [plus.decode(text) if "%" in text or "+" in text else text for text in texts]

    def _settle(self, bucket: str, target: str, text: str) -> Plus:
        """Find out what ``+`` means in *text*, by asking for either meaning as a prefix.

        A prefix is sent percent-encoded, where every server agrees what it says.
        """
        for plus in Plus:
            params: dict[str, object] = {"Prefix": sendable(plus.decode(text)), "MaxKeys": 1}
            listing = self._ask(bucket, target, params)
            if any(found.startswith(text) for found in listing.keys):
                self._connection.dialect.plus = plus
                return plus
        raise bad_answer(target, f"cannot tell a plus from a blank in {text!r}")


def _disorder(sequence: Sequence[str], after: str | None) -> str:
    if after is not None and len(sequence) > 1 and octets(sequence[1]) <= octets(after):
        return f"asked for what follows {after!r}, got {sequence[1]!r}"
    return "the store lists its keys in no order we know, or some of them twice"
