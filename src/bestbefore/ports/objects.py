"""Object stores: one side that looks, one that deletes, one that copies.

They are ports of their own so that a planner, and with it every dry run, holds nothing that could
write or delete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Shown
from bestbefore.domain.versions import Versions


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
    ``inside`` says, as a scan of versions wrote it, how far it came within the key *after*.
    """

    after: str | None
    until: str | None
    upload: str | None = None
    inside: str | None = None


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


class Entries(NamedTuple):
    """Some entries of a range, by key, the newest of a key first.

    ``rest`` is what is left of the range. All entries of a key are together, but for a key with
    more of them than a page holds: then ``behind`` is the last id of ``rest.after`` seen so far.
    """

    entries: Sequence[Shown]
    rest: KeyRange | None
    behind: str | None


class Target(NamedTuple):
    """An object to delete, as it was seen.

    With ``version`` it is exactly that entry, whatever else is under the key. ``hides`` says that
    a delete marker is meant to stay over it; ``bypass_governance`` that a retention in governance
    mode is to be overridden.
    """

    key: str
    etag: str
    last_modified: datetime
    version: str | None = None
    hides: bool = False
    bypass_governance: bool = False


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


def unfit(facts: BucketFacts, source: ObjectSource) -> str | None:
    """Why *source* does not go with the bucket it names, as to versions; None if it does."""
    bucket, versioning, chosen = source.bucket, facts.versioning, source.versions
    if versioning is None and chosen is not None:
        return f"{bucket} keeps no versions, so there is nothing to choose; remove the key"
    if versioning is not None and chosen is None:
        return (
            f"versioning of {bucket} is {versioning}, where a plain delete only hides objects and "
            'frees nothing; choose "marker" (that), "noncurrent" (removes what is not current any '
            'more) or "purge" (removes everything old)'
        )
    if versioning != "Enabled" and chosen is Versions.MARKER:
        return (
            f"versioning of {bucket} is {versioning}, where a plain delete does not only hide: it "
            'removes the version "null" for good; choose "noncurrent" or "purge", or enable '
            "versioning"
        )
    return None


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


@runtime_checkable
class VersionLister(Protocol):
    """What a lister of a store that keeps versions can do besides. Raises StoreError only."""

    def version_ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        """Like `ObjectLister.ranges`, for `versions`."""
        ...

    def versions(self, bucket: str, prefix: str, keys: KeyRange, behind: str | None) -> Entries:
        """The next entries of *keys* under *prefix*, up to 1,000: versions and delete markers.

        With *behind*, starts within the key ``keys.after``, after the entry of that id. May be
        empty and still have a rest.
        """
        ...

    def look_at(
        self, bucket: str, wanted: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Listed | Failure | None]:
        """Each of *wanted* (key and version id) as it is now, None where there is none.

        ``version.last_to_go`` tells whether it is the newest of its key, over others.
        """
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
        right before the delete, and so it does for the version ``null``. Safe to repeat.

        An entry that a lock or a legal hold keeps is a Failure (held) with the date of its end.

        *targets* are at most 1,000, distinct by key and version, and all with a version or all
        without. A failure of the whole request says nothing about one target: the request is
        halved first, and only what still fails alone, or with its neighbours during an outage,
        is charged.
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


@runtime_checkable
class VersionDeleter(Protocol):
    """What a deleter of a store that keeps versions can do besides."""

    def check_versions(self, bucket: str, prefix: str) -> Sequence[Finding]:
        """Like `ObjectDeleter.check`, for the removal of single versions."""
        ...
