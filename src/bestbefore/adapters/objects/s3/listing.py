"""The looking side of an S3 store."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from bestbefore.adapters.objects.s3 import reading
from bestbefore.adapters.objects.s3.client import Connection, Reply, S3Settings, connect
from bestbefore.adapters.objects.s3.dialect import Order
from bestbefore.adapters.objects.s3.entries import EntryLooker, EntryPages, next_entries
from bestbefore.adapters.objects.s3.errors import NOT_IMPLEMENTED, RequestFailed
from bestbefore.adapters.objects.s3.looking import Looker
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.adapters.objects.s3.splitting import split
from bestbefore.adapters.objects.s3.uploads import Uploads
from bestbefore.domain.failure import Failure
from bestbefore.domain.selection import Listed
from bestbefore.ports.clock import Clock
from bestbefore.ports.objects import BucketFacts, Entries, KeyRange, Page


class S3Lister:
    """An `ObjectLister` and `VersionLister` over one S3 endpoint, for any number of threads."""

    def __init__(
        self, settings: S3Settings, clock: Clock, *, connection: Connection | None = None
    ) -> None:
        self._connection = connection or connect(settings, clock)
        self._pages = Pages(self._connection)
        self._looker = Looker(self._connection, self._pages)
        self._uploads = Uploads(self._connection)
        self._entry_pages = EntryPages(self._connection)
        self._entry_looker = EntryLooker(self._connection, self._entry_pages)

    def describe(self, bucket: str) -> BucketFacts:
        reply = self._versioning(bucket)
        return BucketFacts(
            self._connection.endpoint, reply.fields.get("Status"), _date(reply.headers)
        )

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        return split(self._pages, bucket, prefix, parts)

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        part = self._pages.part(bucket, prefix, after=keys.after)
        items = part.items
        truncated = part.truncated
        if keys.until is not None:
            rank = part.order.rank
            end = rank(keys.until)
            inside = [item for item in items if rank(item.key) <= end]
            truncated = truncated and len(inside) == len(items) and inside[-1].key != keys.until
            items = inside
        return Page(items, KeyRange(items[-1].key, keys.until) if truncated else None)

    def uploads(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        part = self._uploads.part(bucket, prefix, keys.after, keys.upload or "")
        rest = KeyRange(part.rest[0], None, part.rest[1]) if part.rest else None
        return Page([], rest, part.uploads)

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        return self._looker.look(bucket, keys)

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        return reading.tags(self._connection, bucket, keys)

    def content(self, bucket: str, key: str, most: int) -> bytes | None:
        return reading.content(self._connection, bucket, key, most)

    def version_ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        # SeaweedFS walks its folders and sorts only what a page holds, so that what lies behind a
        # range's end in one order can lie before it in the other.
        if self._connection.dialect.order is Order.TREE:
            parts = 1
        return split(self._entry_pages, bucket, prefix, parts)

    def versions(self, bucket: str, prefix: str, keys: KeyRange, behind: str | None) -> Entries:
        return next_entries(self._entry_pages, bucket, prefix, keys, behind)

    def look_at(
        self, bucket: str, wanted: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Listed | Failure | None]:
        return self._entry_looker.look_at(bucket, wanted)

    def _versioning(self, bucket: str) -> Reply:
        target = f"s3://{bucket}"
        try:
            return self._connection.call("GetBucketVersioning", target, Bucket=bucket)
        except RequestFailed as failed:
            if failed.code != NOT_IMPLEMENTED:
                raise
        # A store that knows no versions (R2) still has to say that the bucket is there.
        return self._connection.call("ListObjectsV2", target, Bucket=bucket, MaxKeys=1)


def _date(headers: Mapping[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return None
