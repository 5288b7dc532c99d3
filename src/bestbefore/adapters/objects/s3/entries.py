"""Listings of everything a bucket keeps: versions and delete markers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from os.path import commonprefix

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.dialect import Order, octets, readable, sendable
from bestbefore.adapters.objects.s3.errors import RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.looking import PAGE_IN_HEADS, hopeless
from bestbefore.adapters.objects.s3.pages import MOST_EMPTY_PAGES, PAGE, Pages, Part
from bestbefore.adapters.objects.s3.wire import Listing, VersionListing, parse_versions
from bestbefore.domain.failure import Failure
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Carried, OutOfOrder, Shown, unstack
from bestbefore.domain.versions import Version
from bestbefore.ports.objects import Entries, KeyRange, StoreError

_SPOILT = "\ufffd"
"""What some servers write for a character that XML cannot carry."""

_UNREADABLE = "\udcff"
"""What we read for it: a byte that no key of UTF-8 holds, so that no command is made of it."""

Wanted = tuple[str, str]
Found = Listed | Failure | None


class EntryPages(Pages):
    """Asks for parts of version listings; goes on by keys, and by ids only within a key.

    Always in the order of bytes: SeaweedFS, which lists objects folder by folder, sorts these.
    """

    def part(
        self,
        bucket: str,
        prefix: str,
        *,
        after: str | None = None,
        delimiter: str | None = None,
        most: int = PAGE,
        behind: str | None = None,
    ) -> Part:
        """The first entries under *prefix* that come after the key *after*, at most *most*.

        With *behind*, those after the entry of that id under *after* itself. Some servers count a
        marker's key in, so what was asked to come after it is made sure of here.
        """
        target = readable(f"s3://{bucket}/{prefix}")
        params: dict[str, object] = {"Prefix": sendable(prefix), "MaxKeys": most}
        if delimiter is not None:
            params["Delimiter"] = delimiter
        if after is not None:
            params["KeyMarker"] = sendable(after)
            if behind is not None:
                params["VersionIdMarker"] = behind
        for _ in range(MOST_EMPTY_PAGES):
            found = self._versions(bucket, target, params)
            listing = found.listing
            entries = self._entries(bucket, target, found, after, inside=behind is not None)
            folders = self._decoded(bucket, target, listing, listing.prefixes)
            if entries or folders or not listing.truncated:
                shown = [entry.item for entry in entries]
                return Part(shown, folders, listing.truncated, Order.BYTES, found.next_id, entries)
            if not found.next_key:
                break
            (key,) = self._decoded(bucket, target, listing, [found.next_key])
            params = params | {"KeyMarker": sendable(key)}
            params.pop("VersionIdMarker", None)
            if found.next_id:
                params["VersionIdMarker"] = found.next_id
        raise bad_answer(target, "the listing goes on and on without any version")

    def _entries(
        self, bucket: str, target: str, found: VersionListing, after: str | None, *, inside: bool
    ) -> list[Shown]:
        """What *found* shows after *after*, by key; within a key as the store lists it."""
        listing = found.listing
        keys = self._decoded(bucket, target, listing, listing.keys)
        if not listing.url_encoded:
            keys = [key.replace(_SPOILT, _UNREADABLE) if _SPOILT in key else key for key in keys]
        for marker in (False, True):
            some = [octets(k) for k, m in zip(keys, found.markers, strict=True)
                    if m is marker and _UNREADABLE not in k]  # fmt: skip
            if any(one > following for one, following in pairwise(some)):
                raise bad_answer(target, "the store lists its versions in no order of their keys")
        entries = [
            Shown(Listed(key, size, etag, at, storage, Version(id_, marker)), latest)
            for key, size, etag, at, storage, id_, marker, latest in zip(
                keys,
                listing.sizes,
                listing.etags,
                listing.times,
                listing.classes,
                found.ids,
                found.markers,
                found.latest,
                strict=True,
            )
        ]
        if after is not None:
            start = octets(after)
            entries = [
                entry
                for entry in entries
                if (rank := octets(entry.item.key)) > start or (inside and rank == start)
            ]
        return sorted(entries, key=lambda entry: octets(entry.item.key))

    def _ask(self, bucket: str, target: str, params: dict[str, object]) -> Listing:
        return self._versions(bucket, target, params).listing

    def _versions(self, bucket: str, target: str, params: dict[str, object]) -> VersionListing:
        reply = self._connection.call(
            "ListObjectVersions", target, Bucket=bucket, EncodingType="url", **params
        )
        try:
            return parse_versions(reply.body)
        except ValueError as error:
            raise bad_answer(target, str(error)) from error


def next_entries(
    pages: EntryPages, bucket: str, prefix: str, keys: KeyRange, behind: str | None
) -> Entries:
    """See `VersionLister.versions`.

    A page ends with a key, as going on within one takes the id of an entry that may be gone by
    then. Only a key with more entries than a page holds is cut.
    """
    part = pages.part(bucket, prefix, after=keys.after, behind=behind)
    entries, truncated = part.entries, part.truncated
    if keys.until is not None:
        end = octets(keys.until)
        inside = [entry for entry in entries if octets(entry.item.key) <= end]
        truncated = truncated and len(inside) == len(entries)
        entries = inside
    if not truncated:
        return Entries(entries, None, None)
    last = entries[-1].item
    whole = [entry for entry in entries if entry.item.key != last.key]
    if whole:
        return Entries(whole, KeyRange(whole[-1].item.key, keys.until), None)
    stopped = part.behind or last.version_id
    return Entries(entries, KeyRange(last.key, keys.until), stopped)


class EntryLooker:
    """Answers what single entries are now: by one page where keys are neighbours."""

    def __init__(self, connection: Connection, pages: EntryPages) -> None:
        self._connection = connection
        self._pages = pages

    def look_at(self, bucket: str, wanted: Sequence[Wanted]) -> Mapping[Wanted, Found]:
        """See `VersionLister.look_at`."""
        ids: dict[str, set[str]] = {}
        for key, version in wanted:
            ids.setdefault(key, set()).add(version)
        left = sorted(ids, key=octets)
        # Characters, not path components: what S3 takes for a prefix.
        prefix = commonprefix(left)  # noqa: RUF071
        seen: dict[Wanted, Found] = {}
        while left:
            if len(left) <= PAGE_IN_HEADS:
                seen |= self._each(bucket, left, ids)
                break
            try:
                there, settled = self._run(bucket, prefix, left, ids)
            except RequestFailed as failed:
                if failed.failure.whole_source or hopeless(failed):
                    raise
                seen |= self._each(bucket, left, ids)
                break
            seen |= there
            left = left[settled:]
            if settled < PAGE_IN_HEADS:
                lonely, left = left[: 2 * PAGE_IN_HEADS], left[2 * PAGE_IN_HEADS :]
                seen |= self._each(bucket, lonely, ids)
        return seen

    def _run(
        self, bucket: str, prefix: str, keys: Sequence[str], ids: Mapping[str, set[str]]
    ) -> tuple[dict[Wanted, Found], int]:
        """The first of *keys* and those that one page behind it shows whole, and how many."""
        seen = self._each(bucket, keys[:1], ids)
        part = self._pages.part(bucket, prefix, after=keys[0])
        end = octets(part.items[-1].key) if part.truncated and part.items else None
        there = {key: list(group) for key, group in groupby(part.entries, attrgetter("item.key"))}
        settled = 1
        for key in keys[1:]:
            if end is not None and octets(key) >= end:
                break
            seen |= _among(there.get(key, []), key, ids[key])
            settled += 1
        return seen, settled

    def _each(
        self, bucket: str, keys: Sequence[str], ids: Mapping[str, set[str]]
    ) -> dict[Wanted, Found]:
        """Each of *keys* by a listing of its own, some of them at a time."""
        if not keys:
            return {}
        seen: dict[Wanted, Found] = {}
        results = self._connection.crew.each(
            bucket, keys, lambda key: self._one(bucket, key, ids[key])
        )
        for key, result in results.items():
            if isinstance(result, Failure):
                if result.whole_source:
                    raise StoreError(result)
                seen |= {(key, version): result for version in ids[key]}
            else:
                seen |= result
        return seen

    def _one(self, bucket: str, key: str, wanted: set[str]) -> dict[Wanted, Found] | Failure:
        """The entries of one key, page by page and only until all of *wanted* are found."""
        seen: dict[Wanted, Found] = {(key, version): None for version in wanted}
        carried: Carried | None = None
        try:
            for shown in self._stack(bucket, key):
                items, after = unstack(shown, carried, _any, unfinished=True)
                if carried is None and after is not None:
                    items.append(after.newest)
                carried = after
                seen |= {
                    (key, item.version_id): item for item in items if item.version_id in wanted
                }
                if None not in seen.values():
                    break
        except StoreError as error:
            return error.failure
        except OutOfOrder as error:
            return bad_answer(readable(f"s3://{bucket}/{key}"), str(error)).failure
        return seen

    def _stack(self, bucket: str, key: str) -> Iterator[list[Shown]]:
        """The entries of *key*, page by page; the first two of them, if there are, together."""
        after: str | None = None
        behind: str | None = None
        mine: list[Shown] = []
        while True:
            part = self._pages.part(bucket, key, after=after, behind=behind)
            mine += [entry for entry in part.entries if entry.item.key == key]
            if not part.truncated or not part.items or part.items[-1].key != key:
                yield mine
                return
            after, behind = key, part.behind or mine[-1].item.version_id
            if len(mine) > 1:
                yield mine
                mine = []


def _among(shown: list[Shown], key: str, wanted: set[str]) -> dict[Wanted, Found]:
    """Those of *wanted* that the entries of *key*, all *shown*, hold; None for the others."""
    items, _ = unstack(shown, None, _any, unfinished=False)
    found = {item.version_id: item for item in items}
    return {(key, version): found.get(version) for version in wanted}


def _any(_: Listed) -> bool:
    return True
