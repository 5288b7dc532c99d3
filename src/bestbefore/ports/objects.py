"""Object stores: one side that looks, one that deletes, one that copies.

They are ports of their own so that a planner, and with it every dry run, holds nothing that could
write or delete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed


class StoreError(Exception):
    """A store could not answer. ``failure`` says of which class that is; vendors' errors never
    leave an adapter."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class KeyRange(NamedTuple):
    """Keys *after* < key <= *until* in the store's (byte) order; None is open.

    With *upload* it is about unfinished uploads instead: those that the store lists after the
    markers *after* and *upload*, which is empty at the beginning.
    """

    after: str | None
    until: str | None
    upload: str | None = None


UPLOADS = KeyRange(None, None, "")
"""All unfinished uploads."""


class Upload(NamedTuple):
    """A multipart upload that was begun and not finished. Billed, and in no listing of objects."""

    key: str
    upload_id: str
    initiated: datetime


class Page(NamedTuple):
    """Some objects, or uploads, of a range. ``rest`` is what is left of it, None at its end.

    Objects are in order.
    """

    items: Sequence[Listed]
    rest: KeyRange | None
    uploads: Sequence[Upload] = ()


class Target(NamedTuple):
    """An object to delete, as it was seen."""

    key: str
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """What a plan has to know before it trusts a listing.

    ``endpoint`` names the store so that another one under the same name is noticed. ``versioning``
    is None where it was never switched on, else ``"Enabled"`` or ``"Suspended"``. ``server_time``
    is the store's own clock, None if it does not say.
    """

    endpoint: str
    versioning: str | None
    server_time: datetime | None

    def target(self, bucket: str, prefix: str) -> str:
        """The place that a policy looks at, as runs remember it."""
        return f"{self.endpoint}/{bucket}/{prefix}"


class ObjectLister(Protocol):
    """The looking side. Every method raises StoreError and nothing else."""

    def describe(self, bucket: str) -> BucketFacts:
        """Facts about *bucket*; a missing one raises (malformed, ``whole_source``)."""
        ...

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        """Split the keys under *prefix* into about *parts* ranges, at most twice as many.

        Together they cover every key under *prefix* exactly once, whatever was guessed. Costs a
        handful of requests; a small prefix comes back as one range.
        """
        ...

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        """The next objects of *keys* under *prefix*: up to 1,000, byte-exact keys, in order.

        Objects only: no versions, no unfinished uploads. An empty page may still have a rest.
        """
        ...

    def uploads(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        """The next unfinished uploads under *prefix*, in the store's order, up to 1,000."""
        ...

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        """Each of *keys* as it is now, None where there is nothing under it.

        ``last_modified`` may be cut to the second. A key that could not be looked at has its
        Failure. Neighbouring keys cost one listing page together, lonely ones a HEAD each.
        """
        ...

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        """The tags of each of *keys* as they are now, None where there is nothing under it.

        One request per key, some of them at a time. A key whose tags cannot be read has its
        Failure, never an empty mapping.
        """
        ...

    def content(self, bucket: str, key: str, most: int) -> bytes | None:
        """The first *most* bytes of the object *key*, None where there is nothing under it."""
        ...


class Original(NamedTuple):
    """An object to copy, as it was seen, and the key that its copy gets."""

    key: str
    etag: str
    last_modified: datetime
    size: int
    copy_key: str


class Copy(NamedTuple):
    """A copy that was made and verified. Stores may give it another ETag than its original's."""

    key: str
    etag: str


class NotCopied(Enum):
    """Why there is no copy although nothing failed."""

    GONE = "gone"  # there is no original
    CHANGED = "changed"  # the original is not what was seen
    OCCUPIED = "occupied"  # something is under the copy's key, and was to stay


class ObjectCopier(Protocol):
    """The copying side, between the buckets of one endpoint. No object passes through here."""

    def copy(
        self, bucket: str, to: str, originals: Sequence[Original], *, overwrite: bool
    ) -> Sequence[Copy | NotCopied | Failure]:
        """Copy each of *originals* from *bucket* into *to*; one result per original, in their
        order. Never raises.

        Content, metadata and tags go along, and nothing but what was seen is copied. A `Copy` has
        been looked at: it has the original's size, and its ETag or checksum where the two can be
        compared. What turns out not to be a copy of what was seen is removed again. Without
        *overwrite* whatever is under the copy's key stays. Safe to repeat.

        *originals* are distinct by both keys.
        """
        ...

    def check(self, bucket: str, prefix: str, to: str, to_prefix: str) -> Sequence[Finding]:
        """What copying from *prefix* in *bucket* to *to_prefix* in *to* may rely on.

        Writes nothing, and so cannot tell everything.
        """
        ...


class ObjectDeleter(Protocol):
    """The deleting side."""

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        """Delete exactly what was seen; one result per target, in their order. Never raises.

        ``DELETED``: the store said so about this key. ``ABSENT``: there was nothing under it.
        ``CHANGED``: something else was under it, and still is. A target the store's answer does
        not name is a Failure (unknown). Where the store ignores conditions a fresh look decides
        right before the delete. Safe to repeat.

        *targets* are at most 1,000, distinct by key. A failure of the whole request says nothing
        about one target: the request is halved first, and only what still fails alone, or with
        its neighbours during an outage, is charged.
        """
        ...

    def abort(self, bucket: str, uploads: Sequence[Upload]) -> Sequence[Outcome | Failure]:
        """Abort unfinished uploads; one result per upload, in their order. Never raises.

        ``DELETED``: the store said so. ``ABSENT``: there is no such upload, as it was finished or
        aborted. Safe to repeat. *uploads* are distinct by key.
        """
        ...

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        """What deleting under *prefix* may rely on: rights, and whether conditions are honoured.

        Deletes and writes nothing.
        """
        ...
