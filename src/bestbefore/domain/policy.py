"""A policy: what may go, when, what is protected, how much at most, and whose it is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Attempts
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import (
    FileArchive,
    Partitions,
    RowSource,
    TableArchive,
    TimestampKind,
)
from bestbefore.domain.versions import Versions


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The objects a policy is about, and which of them it keeps whatever their age.

    Sizes are bytes. ``match`` is a glob over the key after the prefix, ``regex`` a pattern that
    has to match all of it; at most one of the two is set. ``generation`` is a regular expression
    over the whole key with a group of that name; the newest ``keep_generations`` are never
    touched. The newest ``keep_last`` objects are kept per group of ``keep_last_group`` (the whole
    source without one), counting only those of at least ``keep_last_min_size``.

    ``storage_class``, ``tags`` (name and value, all of which an object must have) and
    ``lacks_tags`` (none of which it may have) narrow what goes where they are not empty.
    ``current_pointer`` is the key of an object whose text names generations in use.
    ``abort_incomplete_uploads`` takes unfinished uploads as well.
    ``versions`` says what goes in a bucket that keeps versions, and is None for one that does
    not; ``bypass_governance`` that a retention in governance mode shall not stop it.
    """

    store: str
    bucket: str
    prefix: str
    match: str | None = None
    regex: str | None = None
    min_size: int = 0
    max_size: int | None = None
    folder_markers: bool = False
    generation: str | None = None
    keep_generations: int = 0
    keep_last: int = 0
    keep_last_group: str | None = None
    keep_last_min_size: int = 0
    storage_class: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    lacks_tags: tuple[str, ...] = ()
    current_pointer: str | None = None
    abort_incomplete_uploads: bool = False
    versions: Versions | None = None
    bypass_governance: bool = False

    @property
    def by_version(self) -> bool:
        """Whether it is about single versions, not about the objects that readers see."""
        return self.versions in (Versions.NONCURRENT, Versions.PURGE)

    @property
    def keeps_some(self) -> bool:
        """Whether only the end of a scan can tell what is protected."""
        return bool(self.keep_generations or self.keep_last or self.current_pointer)

    @property
    def reads_tags(self) -> bool:
        """Whether what goes depends on tags, which no listing shows."""
        return bool(self.tags or self.lacks_tags)


@dataclass(frozen=True, slots=True)
class Reach:
    """How much one run may select before it parks and waits for a person."""

    max_deletes: int | None = None
    max_fraction: float | None = None
    first_run_limit: int = 10_000

    @property
    def capped(self) -> bool:
        return self.max_deletes is not None or self.max_fraction is not None


@dataclass(frozen=True, slots=True)
class Policy:
    """One named, versioned rule. Times without a zone are read in ``timezone``.

    ``archive`` is where copies go before anything is deleted; None where nothing is copied.
    ``catch_up`` says that a missed slot is answered at once, not by the next one.
    """

    name: str
    version: str
    owner: str
    older_than: Age
    source: ObjectSource | RowSource
    action: str = "delete"
    archive: Archive | None = None
    schedule: str | None = None
    timezone: str = "UTC"
    catch_up: bool = False
    priority: int = 0
    reach: Reach = field(default_factory=Reach)
    attempts: Attempts = field(default_factory=Attempts)

    @property
    def objects(self) -> ObjectSource:
        """The source of a policy about objects; a mistake of ours for any other."""
        if isinstance(self.source, ObjectSource):
            return self.source
        raise TypeError(f"policies.{self.name} is about rows")

    @property
    def rows(self) -> RowSource:
        """The source of a policy about rows; a mistake of ours for any other."""
        if isinstance(self.source, RowSource):
            return self.source
        raise TypeError(f"policies.{self.name} is about objects")

    @property
    def about_rows(self) -> bool:
        return isinstance(self.source, RowSource)

    @property
    def connection(self) -> str:
        """The store or database whose credentials, breaker and pace its commands share."""
        return self.source.database if isinstance(self.source, RowSource) else self.source.store

    @property
    def container(self) -> str:
        """The bucket, or the table, that it is about."""
        return self.source.table if isinstance(self.source, RowSource) else self.source.bucket

    @property
    def keeps_some(self) -> bool:
        """Whether only the end of a scan can tell what is protected."""
        return isinstance(self.source, ObjectSource) and self.source.keeps_some

    @property
    def allows_dependents(self) -> bool:
        """Whether rows of other tables may be removed or changed with its own."""
        return isinstance(self.source, RowSource) and self.source.dependents != ()

    @property
    def keep_generations(self) -> int:
        return self.source.keep_generations if isinstance(self.source, ObjectSource) else 0

    @property
    def versions(self) -> Versions | None:
        """What goes in a bucket that keeps versions."""
        return self.source.versions if isinstance(self.source, ObjectSource) else None

    @property
    def added_bytes(self) -> int:
        """By how many bytes a key gets longer on the way: 0, or what an archive puts before it."""
        return self.archive.added_bytes if self.archive else 0

    def decides(self) -> dict[str, object]:
        """What decides *what goes*, by configuration key: a change here needs a new version."""
        age = {"older_than": str(self.older_than), "action": self.action}
        return age | (self._rows_decide() if self.about_rows else self._objects_decide())

    def _rows_decide(self) -> dict[str, object]:
        rows = self.rows
        table, file = (
            rows.archive if isinstance(rows.archive, kind) else None
            for kind in (TableArchive, FileArchive)
        )
        return {
            "rows.database": rows.database,
            "rows.table": rows.table,
            "rows.key": list(rows.key) or None,
            "rows.timestamp": rows.timestamp,
            "rows.timestamp_kind": rows.timestamp_kind,
            "rows.timestamp_zone": rows.timestamp_zone,
            "rows.where": rows.where,
            "rows.dependents": None if rows.dependents is None else sorted(rows.dependents),
            "rows.foreign_keys_seen": "trust" if rows.trusts_foreign_keys else None,
            "rows.row_security": "accept" if rows.accepts_row_security else None,
            "rows.partitions": rows.partitions,
            "archive.table": table.table if isinstance(table, TableArchive) else None,
            "archive.store": file.store if isinstance(file, FileArchive) else None,
            "archive.bucket": file.bucket if isinstance(file, FileArchive) else None,
            "archive.prefix": file.prefix if isinstance(file, FileArchive) else None,
            "archive.format": file.format if isinstance(file, FileArchive) else None,
        }

    def _objects_decide(self) -> dict[str, object]:
        source, archive = self.objects, self.archive
        return {
            "objects.store": source.store,
            "objects.bucket": source.bucket,
            "objects.prefix": source.prefix,
            "objects.match": source.match,
            "objects.regex": source.regex,
            "objects.min_size": source.min_size,
            "objects.max_size": source.max_size,
            "objects.folder_markers": source.folder_markers,
            "objects.generation": source.generation,
            "objects.keep_generations": source.keep_generations,
            "objects.keep_last": source.keep_last,
            "objects.keep_last_group": source.keep_last_group,
            "objects.keep_last_min_size": source.keep_last_min_size,
            "objects.storage_class": sorted(source.storage_class) or None,
            "objects.tags": dict(source.tags) or None,
            "objects.lacks_tags": sorted(source.lacks_tags) or None,
            "objects.current_pointer": source.current_pointer,
            "objects.abort_incomplete_uploads": source.abort_incomplete_uploads or None,
            "archive.store": archive and archive.store,
            "archive.bucket": archive and archive.bucket,
            "archive.prefix": archive and archive.prefix,
            "objects.versions": source.versions,
            "objects.bypass_governance": source.bypass_governance or None,
        }

    def fingerprint(self) -> str:
        """Hex SHA-256 over `decides`.

        Without what is not set, so that a key that a later release adds (None by default) does
        not change the fingerprint of every policy there is.
        """
        said = {key: value for key, value in self.decides().items() if value is not None}
        return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def decided_rows(decided: Mapping[str, Any]) -> RowSource:
    """The source of a policy about rows, from what `Policy.decides` said of it. What decides
    nothing about it, such as the pace of the work, is as it is by default."""
    archive: TableArchive | FileArchive | None = None
    if decided["archive.table"] is not None:
        archive = TableArchive(decided["archive.table"])
    elif decided["archive.store"] is not None:
        archive = FileArchive(
            decided["archive.store"],
            decided["archive.bucket"],
            decided["archive.prefix"],
            decided["archive.format"],
        )
    dependents = decided["rows.dependents"]
    return RowSource(
        database=decided["rows.database"],
        table=decided["rows.table"],
        timestamp=decided["rows.timestamp"],
        key=tuple(decided["rows.key"] or ()),
        timestamp_kind=TimestampKind(decided["rows.timestamp_kind"]),
        timestamp_zone=decided["rows.timestamp_zone"],
        where=decided["rows.where"],
        dependents=None if dependents is None else tuple(dependents),
        trusts_foreign_keys=decided.get("rows.foreign_keys_seen") == "trust",
        accepts_row_security=decided.get("rows.row_security") == "accept",
        partitions=Partitions(decided["rows.partitions"]),
        archive=archive,
    )


def what_changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """One line per configuration key that differs between two `Policy.decides`."""
    return [
        f"{key}: {json.dumps(before.get(key), ensure_ascii=False)} became "
        f"{json.dumps(after.get(key), ensure_ascii=False)}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
