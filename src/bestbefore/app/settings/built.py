"""What the sections of a file that fits become."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bestbefore.app.settings.model import (
    DatabaseSettings,
    OutsideSettings,
    QueueSettings,
    ScheduleSettings,
    ServeSettings,
    ThrottleSettings,
)
from bestbefore.app.settings.queue_values import KEYS
from bestbefore.app.settings.schema import (
    ArchiveSection,
    DatabaseSection,
    ObjectsSection,
    PolicySection,
    QueueSection,
    RowsSection,
    ScheduleSection,
    ServeSection,
)
from bestbefore.app.settings.serve_values import hmac_key
from bestbefore.app.settings.urls import home
from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Attempts
from bestbefore.domain.names import texts
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.rows import (
    FileArchive,
    Governed,
    Partitions,
    RowSource,
    TableArchive,
    TimestampKind,
)
from bestbefore.domain.versions import Versions

_BATCHES_AT_A_TIME = 4


def queue(written: QueueSection, sources: Mapping[str, Any]) -> QueueSettings:
    """``[queue]``, with what its *sources* led to."""
    keys = KEYS.get(written.kind)
    if keys is None:
        return QueueSettings(written.kind, written.lease, sources["options"])
    there_are = {key: sources.get(key, getattr(written, key)) for key in keys}
    given = {key: value for key, value in there_are.items() if value is not None}
    return QueueSettings(written.kind, written.lease, MappingProxyType(given))


def serve(
    written: ServeSection, hmac_secrets: Sequence[str], trigger_secrets: Sequence[str]
) -> ServeSettings:
    """``[serve]``, with the secrets that its sources led to."""
    return ServeSettings(
        written.host,
        written.port,
        written.public_url,
        tuple(map(hmac_key, hmac_secrets)),
        tuple(trigger_secrets),
        written.hmac_header,
        written.hmac_tolerance,
        written.redact_keys,
        written.hmac_timestamp_header,
    )


def schedule(written: ScheduleSection, access: Mapping[str, str | None]) -> ScheduleSettings:
    """``[schedule]``, with the address and keys that its sources led to."""
    return ScheduleSettings(
        written.kind,
        written.grace,
        written.early_tolerance,
        OutsideSettings(
            group=written.group,
            role_arn=written.role_arn or "",
            region=written.region,
            trigger_queue_url=written.trigger_queue_url,
            http_target_arn=written.http_target_arn,
            dead_letter_arn=written.dead_letter_arn,
            options=MappingProxyType(written.options),
            **access,
        ),
    )


def database(name: str, written: DatabaseSection, url: str, http: str | None) -> DatabaseSettings:
    """``[databases.NAME]``, with the addresses that its sources led to."""
    throttle = written.throttle
    # SQLite has one writer: a second batch would only wait for the first, and time out.
    at_a_time = 1 if url.startswith("sqlite") else _BATCHES_AT_A_TIME
    return DatabaseSettings(
        name,
        url,
        max_concurrency=written.max_concurrency or at_a_time,
        rows_per_second=written.rows_per_second,
        pause=written.pause,
        window=written.window,
        throttle=ThrottleSettings(throttle.replica_lag, throttle.lock_wait, throttle.sql, http),
    )


def policies(
    written: Mapping[str, PolicySection], databases: Mapping[str, DatabaseSettings]
) -> dict[str, Policy]:
    """Every ``[policies.NAME]``, those about rows knowing of each other."""
    made = {name: _policy(name, section) for name, section in written.items()}
    return {name: _governed(policy, made, databases) for name, policy in made.items()}


def _policy(name: str, written: PolicySection) -> Policy:
    source = _rows(written.rows, written.archive) if written.rows else _objects(written.objects)
    return Policy(
        name=name,
        version=written.version,
        owner=written.owner,
        older_than=written.older_than,
        source=source,
        action=written.action,
        archive=None if written.rows else _copies(written.archive),
        schedule=written.schedule,
        timezone=written.timezone,
        catch_up=written.catch_up == "now",
        priority=written.priority,
        reach=Reach(written.max_deletes, written.max_fraction, written.first_run_limit),
        attempts=Attempts(**written.attempts.model_dump()),
    )


def _objects(written: ObjectsSection | None) -> ObjectSource:
    assert written is not None  # noqa: S101  (`rules` has seen to it that there is a source)
    return ObjectSource(
        store=written.store,
        bucket=written.bucket,
        prefix=written.prefix or "",
        match=written.match,
        regex=written.regex,
        min_size=written.min_size,
        max_size=written.max_size,
        folder_markers=written.folder_markers == "delete",
        generation=written.generation,
        keep_generations=written.keep_generations or 0,
        keep_last=written.keep_last or 0,
        keep_last_group=written.keep_last_group,
        keep_last_min_size=written.keep_last_min_size,
        storage_class=written.storage_class,
        tags=written.tags,
        lacks_tags=written.lacks_tags,
        current_pointer=written.current_pointer,
        abort_incomplete_uploads=written.abort_incomplete_uploads,
        versions=Versions(written.versions) if written.versions else None,
        bypass_governance=written.bypass_governance,
    )


def _rows(written: RowsSection, archive: ArchiveSection | None) -> RowSource:
    return RowSource(
        database=written.database,
        table=written.table,
        timestamp=written.timestamp,
        key=written.key,
        timestamp_kind=TimestampKind(written.timestamp_kind),
        timestamp_zone=written.timestamp_zone,
        where=written.where,
        batch_size=written.batch_size,
        target_duration=written.target_duration,
        synchronous_below=written.synchronous_below,
        synchronous_within=written.synchronous_within,
        dependents=written.dependents,
        trusts_foreign_keys=written.foreign_keys_seen == "trust",
        accepts_row_security=written.row_security == "accept",
        partitions=Partitions(written.partitions),
        ledger_only=written.completion == "ledger",
        allow_full_scan=written.allow_full_scan,
        archive=_rows_archive(archive),
    )


def _copies(written: ArchiveSection | None) -> Archive | None:
    if written is None or written.store is None or written.bucket is None:
        return None
    return Archive(written.store, written.bucket, written.prefix)


def _rows_archive(written: ArchiveSection | None) -> TableArchive | FileArchive | None:
    match written:
        case ArchiveSection(table=str() as table):
            return TableArchive(table)
        case ArchiveSection(store=str() as store, bucket=str() as bucket, format=str() as kind):
            return FileArchive(store, bucket, written.prefix, kind)
        case _:
            return None


def _governed(
    policy: Policy, all_: Mapping[str, Policy], databases: Mapping[str, DatabaseSettings]
) -> Policy:
    """*policy*, knowing the tables of its database that have a policy of their own.

    Only where it may remove or change rows of other tables, whether they are listed or found: such
    a table loses only what its own policy would remove, too.
    """
    if not isinstance(source := policy.source, RowSource) or not policy.allows_dependents:
        return policy
    here = home(databases[source.database].url)[0]
    others = {
        other.source.table
        for other in all_.values()
        if isinstance(other.source, RowSource)
        and home(databases[other.source.database].url)[0] == here
        and texts(other.source.table) != texts(source.table)
    }
    return replace(policy, source=replace(source, governed=tuple(map(Governed, sorted(others)))))
