"""The file as it is written: every key that is available, and what each of them takes.

Rules about several keys together are in `rules`.
"""

from collections.abc import Mapping
from datetime import time, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from bestbefore.app.settings import (
    choices,
    kinds,
    queue_values,
    row_values,
    schedule_values,
    serve_values,
    spans,
    values,
)
from bestbefore.app.settings.problems import Place
from bestbefore.domain.failure import Attempts
from bestbefore.domain.policy import Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import Partitions, TimestampKind

Text = Annotated[str, AfterValidator(values.resolved)]
Label = Annotated[str, AfterValidator(values.label)]
Plain = Annotated[str, AfterValidator(values.filled)]
Pattern = Annotated[str, AfterValidator(values.pattern)]
Variable = Annotated[str, AfterValidator(values.variable)]
Size = Annotated[int, PlainValidator(values.size)]
Tries = Annotated[int, Field(ge=1, le=100)]
Count = Annotated[int, Field(ge=1, le=10**15)]
Table = Annotated[str, AfterValidator(row_values.table)]
Wait = Annotated[timedelta, PlainValidator(spans.wait)]

Secrets = Annotated[tuple[str, ...], PlainValidator(serve_values.one_or_more(values.filled))]
Variables = Annotated[tuple[str, ...], PlainValidator(serve_values.one_or_more(values.variable))]
Files = Annotated[tuple[str, ...], PlainValidator(serve_values.one_or_more(values.resolved))]


class Section(BaseModel):
    """Unknown keys and near-miss types are errors, never guessed at.

    What checks a file is built with its first use, once: each section has no need of one by itself.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class StateSection(Section):
    """``[state]``"""

    url: Plain | None = None
    url_env: Variable | None = None
    url_file: Text | None = None
    keep: Annotated[Age | None, PlainValidator(values.keep)] = None


class QueueSection(Section):
    """``[queue]``"""

    kind: Annotated[str, AfterValidator(queue_values.kind)] = queue_values.STATE
    lease: Annotated[timedelta, PlainValidator(spans.lease)] = spans.SHORTEST_LEASE
    queue_url: Plain | None = None
    queue_url_env: Variable | None = None
    queue_url_file: Text | None = None
    dead_letter_url: Plain | None = None
    dead_letter_url_env: Variable | None = None
    dead_letter_url_file: Text | None = None
    region: Text | None = None
    endpoint_url: Plain | None = None
    endpoint_url_env: Variable | None = None
    endpoint_url_file: Text | None = None
    access_key_id: Plain | None = None
    access_key_id_env: Variable | None = None
    access_key_id_file: Text | None = None
    secret_access_key: Plain | None = None
    secret_access_key_env: Variable | None = None
    secret_access_key_file: Text | None = None
    url: Plain | None = None
    url_env: Variable | None = None
    url_file: Text | None = None
    queue: Annotated[str, AfterValidator(queue_values.name)] = "bestbefore"
    dead_letter_queue: Annotated[str, AfterValidator(queue_values.name)] | None = None
    declare: bool | None = None
    retention_days: Annotated[int | None, Field(ge=1, le=30)] = None
    prefix: Annotated[str, AfterValidator(queue_values.name)] = "bull"
    options: dict[str, Any] = {}


class InfraiSection(Section):
    """``[infrai]``"""

    api_key: Plain | None = None
    api_key_env: Variable | None = None
    api_key_file: Text | None = None
    base_url: Annotated[str, AfterValidator(queue_values.base_url)] | None = None


class ServeSection(Section):
    """``[serve]``"""

    host: Annotated[str, AfterValidator(serve_values.host)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    public_url: Annotated[str, AfterValidator(serve_values.public_url)] | None = None
    hmac_secret: Secrets = ()
    hmac_secret_env: Variables = ()
    hmac_secret_file: Files = ()
    trigger_secret: Secrets = ()
    trigger_secret_env: Variables = ()
    trigger_secret_file: Files = ()
    hmac_header: Annotated[str, AfterValidator(serve_values.header)] = serve_values.STANDARD_HEADER
    hmac_timestamp_header: Annotated[str, AfterValidator(serve_values.header)] | None = None
    hmac_tolerance: Annotated[timedelta, PlainValidator(spans.hmac_tolerance)] = timedelta(
        minutes=5
    )
    redact_keys: bool = False


class ScheduleSection(Section):
    """``[schedule]``"""

    kind: Annotated[str, AfterValidator(choices.schedule_kind)] = "embedded"
    grace: Annotated[timedelta, PlainValidator(spans.grace)] = timedelta(minutes=15)
    early_tolerance: Annotated[timedelta, PlainValidator(spans.early_tolerance)] = timedelta(
        seconds=60
    )
    group: Annotated[str, AfterValidator(schedule_values.group)] = "bestbefore"
    role_arn: Annotated[str, AfterValidator(schedule_values.role_arn)] | None = None
    region: Text | None = None
    endpoint_url: Plain | None = None
    endpoint_url_env: Variable | None = None
    endpoint_url_file: Text | None = None
    access_key_id: Plain | None = None
    access_key_id_env: Variable | None = None
    access_key_id_file: Text | None = None
    secret_access_key: Plain | None = None
    secret_access_key_env: Variable | None = None
    secret_access_key_file: Text | None = None
    target: Annotated[str, AfterValidator(schedule_values.target)] = "sqs"
    trigger_queue_url: Annotated[str, AfterValidator(schedule_values.trigger_queue_url)] | None = (
        None
    )
    http_target_arn: Annotated[str, AfterValidator(schedule_values.http_target_arn)] | None = None
    dead_letter_arn: Annotated[str, AfterValidator(schedule_values.dead_letter_arn)] | None = None
    options: dict[str, Any] = {}


class StoreSection(Section):
    """``[stores.NAME]``"""

    kind: Annotated[str, AfterValidator(kinds.store)]
    endpoint_url: Plain | None = None
    endpoint_url_env: Variable | None = None
    endpoint_url_file: Text | None = None
    region: Text | None = None
    access_key_id: Plain | None = None
    access_key_id_env: Variable | None = None
    access_key_id_file: Text | None = None
    secret_access_key: Plain | None = None
    secret_access_key_env: Variable | None = None
    secret_access_key_file: Text | None = None
    root: Annotated[str, AfterValidator(values.folder)] | None = None
    options: dict[str, Any] = {}


class ThrottleSection(Section):
    """``[databases.NAME] throttle``"""

    replica_lag: Wait | None = None
    lock_wait: Wait | None = None
    sql: Plain | None = None
    http: Plain | None = None
    http_env: Variable | None = None
    http_file: Text | None = None


class DatabaseSection(Section):
    """``[databases.NAME]``"""

    url: Plain | None = None
    url_env: Variable | None = None
    url_file: Text | None = None
    max_concurrency: Annotated[int | None, Field(ge=1, le=64)] = None
    rows_per_second: Count | None = None
    pause: Wait = timedelta(0)
    window: Annotated[tuple[time, time] | None, PlainValidator(spans.window)] = None
    throttle: ThrottleSection = ThrottleSection.model_construct()


class AttemptsSection(Section):
    """``[policies.NAME] attempts``"""

    transient: Tries = Attempts().transient
    permission: Tries = Attempts().permission
    unknown: Tries = Attempts().unknown


class ObjectsSection(Section):
    """``[policies.NAME.objects]``"""

    store: Text
    bucket: Annotated[str, AfterValidator(values.bucket)]
    prefix: str | None = None
    prefix_is_literal: bool = False
    whole_bucket: bool = False
    match: Plain | None = None
    regex: Pattern | None = None
    min_size: Size = 0
    max_size: Size | None = None
    folder_markers: Annotated[str, AfterValidator(choices.folder_markers)] = "keep"
    generation: Annotated[str, AfterValidator(values.generation_pattern)] | None = None
    keep_generations: Count | None = None
    keep_last: Count | None = None
    keep_last_group: Pattern | None = None
    keep_last_min_size: Size = 0
    storage_class: Annotated[tuple[str, ...], PlainValidator(values.storage_classes)] = ()
    tags: Annotated[tuple[tuple[str, str], ...], PlainValidator(values.tags)] = ()
    lacks_tags: Annotated[tuple[str, ...], PlainValidator(values.tag_names)] = ()
    current_pointer: Annotated[str, AfterValidator(values.object_key)] | None = None
    versions: Annotated[str, AfterValidator(choices.versions)] | None = None
    bypass_governance: bool = False
    abort_incomplete_uploads: bool = False


class RowsSection(Section):
    """``[policies.NAME.rows]``"""

    database: Text
    table: Table
    key: Annotated[tuple[str, ...], PlainValidator(row_values.key)] = ()
    timestamp: Annotated[str, AfterValidator(row_values.column)]
    timestamp_kind: Annotated[str, AfterValidator(row_values.timestamp_kind)] = TimestampKind.AUTO
    timestamp_zone: Annotated[str, AfterValidator(values.timezone)] | None = None
    where: Text | None = None
    batch_size: Annotated[int, Field(ge=1, le=row_values.MOST_ROWS)] = 100
    target_duration: Annotated[timedelta | None, PlainValidator(spans.target_duration)] = None
    synchronous_below: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    synchronous_within: Annotated[timedelta, PlainValidator(spans.synchronous_within)] = timedelta(
        seconds=10
    )
    dependents: Annotated[tuple[str, ...] | None, PlainValidator(row_values.dependents)] = ()
    foreign_keys_seen: Annotated[str, AfterValidator(row_values.foreign_keys_seen)] = "proven"
    row_security: Annotated[str, AfterValidator(row_values.row_security)] = "refuse"
    partitions: Annotated[str, AfterValidator(row_values.partitions)] = Partitions.AUTO
    completion: Annotated[str, AfterValidator(row_values.completion)] = "target"
    allow_full_scan: bool = False


class ArchiveSection(Section):
    """``[policies.NAME.archive]``"""

    store: Text | None = None
    bucket: Annotated[str, AfterValidator(values.bucket)] | None = None
    prefix: Annotated[str, AfterValidator(values.archive_prefix)] = ""
    table: Table | None = None
    format: Annotated[str, AfterValidator(row_values.archive_format)] | None = None


class PolicySection(Section):
    """``[policies.NAME]``"""

    version: Label
    owner: Label = ""
    schedule: Annotated[str, AfterValidator(values.schedule)] | None = None
    timezone: Annotated[str, AfterValidator(values.timezone)] = "UTC"
    catch_up: Annotated[str, AfterValidator(choices.catch_up)] = "next"
    older_than: Annotated[Age, PlainValidator(values.age)]
    action: Annotated[str, AfterValidator(choices.action)] = "delete"
    max_deletes: Count | None = None
    max_fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    first_run_limit: Annotated[int, Field(ge=0, le=10**15)] = Reach().first_run_limit
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    attempts: AttemptsSection = AttemptsSection.model_construct()
    archive: ArchiveSection | None = None
    objects: ObjectsSection | None = None
    rows: RowsSection | None = None


class File(Section):
    """The whole of ``bestbefore.toml``."""

    state: StateSection = StateSection.model_construct()
    queue: QueueSection = QueueSection.model_construct()
    infrai: InfraiSection = InfraiSection.model_construct()
    serve: ServeSection = ServeSection.model_construct()
    schedule: ScheduleSection = ScheduleSection.model_construct()
    stores: dict[str, StoreSection] = {}
    databases: dict[str, DatabaseSection] = {}
    policies: dict[str, PolicySection] = {}


NAMED = ("stores", "databases", "policies")
"""Sections whose sections are named by the author."""

SECTIONS: Mapping[Place, type[Section]] = {
    (): File,
    ("state",): StateSection,
    ("queue",): QueueSection,
    ("infrai",): InfraiSection,
    ("serve",): ServeSection,
    ("schedule",): ScheduleSection,
    ("stores", "*"): StoreSection,
    ("databases", "*"): DatabaseSection,
    ("databases", "*", "throttle"): ThrottleSection,
    ("policies", "*"): PolicySection,
    ("policies", "*", "attempts"): AttemptsSection,
    ("policies", "*", "objects"): ObjectsSection,
    ("policies", "*", "rows"): RowsSection,
    ("policies", "*", "archive"): ArchiveSection,
}
"""What stands where; ``*`` is a name the author gave."""


def general(place: Place) -> Place:
    """*place* with an author's name replaced by ``*``."""
    return (place[0], "*", *place[2:]) if len(place) > 1 and place[0] in NAMED else place


def available_keys() -> frozenset[Place]:
    """Every key a file may hold today, sections included."""
    return frozenset(
        (*place, key) for place, model in SECTIONS.items() for key in model.model_fields
    )
