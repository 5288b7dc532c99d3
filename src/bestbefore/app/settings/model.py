"""The configuration as the rest of the program sees it: checked, resolved, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bestbefore.domain.finding import Finding
from bestbefore.domain.policy import Policy
from bestbefore.domain.retention import Age

SQLITE = "sqlite:///"
POSTGRESQL = "postgresql+psycopg://"


@dataclass(frozen=True, slots=True)
class StateSettings:
    """The state database; ``url`` holds an absolute path, or an address and maybe a password.

    Without ``keep`` nothing is ever taken out of it.
    """

    url: str = field(repr=False)
    keep: Age | None = None

    @property
    def file(self) -> Path:
        """The SQLite file behind ``url``."""
        return Path(self.url.removeprefix(SQLITE))

    @property
    def kind(self) -> str:
        """What kind of database it is."""
        return _kind(self.url)

    @property
    def place(self) -> str:
        """Where it is, without user and password."""
        return _place(self.url)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The queue, and how long a worker may hold a command before others may take it.

    ``values`` are what its kind takes, by their keys in the file, secrets included: without those
    that are left to the adapter, or, of an adapter of another package, the whole of its options.
    """

    kind: str = "state"
    lease: timedelta = timedelta(seconds=60)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_elsewhere(self) -> bool:
        """Whether somebody else's broker carries the commands."""
        return self.kind != "state"


@dataclass(frozen=True, slots=True)
class InfraiSettings:
    """What that vendor's queue and its cron have in common; None is the vendor's own address."""

    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class OutsideSettings:
    """A scheduler of somebody else's. ``group`` is what its schedules are kept under.

    EventBridge's deliver as ``role_arn``, to the queue ``trigger_queue_url`` or else to
    ``http_target_arn``; what could not be delivered goes to ``dead_letter_arn``. None leaves a
    value to the client library's own defaults. ``options`` are for a kind of an outside package.
    """

    group: str = "bestbefore"
    role_arn: str = ""
    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    trigger_queue_url: str | None = None
    http_target_arn: str | None = None
    dead_letter_arn: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold a secret


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Who fires schedules, how late an answer may be, and how early a trigger."""

    kind: str = "embedded"
    grace: timedelta = timedelta(minutes=15)
    early_tolerance: timedelta = timedelta(seconds=60)
    outside: OutsideSettings = OutsideSettings()

    @property
    def is_outside(self) -> bool:
        """Whether a scheduler of somebody else's fires, which `schedule sync` brings in line."""
        return self.kind not in ("embedded", "none")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """One object store. None leaves a value to the client library's own defaults; ``root`` is
    the absolute path of a store of kind ``"directory"``, and only of one. ``options`` are for the
    adapter of another package, with the values that their sources led to."""

    name: str
    kind: str
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    root: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """Where the store is, so that two names for one place can be told.

        Of what only its adapter understands that is its kind: a hold protects too much, then, and
        never too little.
        """
        if self.root is not None:
            return str(self.root.resolve())
        return self.endpoint_url or self.kind


@dataclass(frozen=True, slots=True)
class ThrottleSettings:
    """What makes all work on a database wait: a replica that is further behind than
    ``replica_lag``, statements of others that wait for locks longer than ``lock_wait``, a ``sql``
    whose first value is above 0, or an ``http`` address that does not answer 200."""

    replica_lag: timedelta | None = None
    lock_wait: timedelta | None = None
    sql: str | None = None
    http: str | None = field(default=None, repr=False)  # may hold a token


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """One database whose rows policies are about; ``url`` may hold a password.

    ``max_concurrency`` batches run at a time, ``rows_per_second`` go and ``pause`` passes after
    each batch, for all workers together. Outside ``window``, two local times of day, nothing is
    begun; it may reach over midnight.
    """

    name: str
    url: str = field(repr=False)
    max_concurrency: int
    rows_per_second: int | None = None
    pause: timedelta = timedelta(0)
    window: tuple[time, time] | None = None
    throttle: ThrottleSettings = ThrottleSettings()

    @property
    def extra(self) -> str:
        """The extra whose driver the URL needs; empty for SQLite, which comes with Python."""
        if self.url.startswith("postgresql"):
            return "postgresql"
        return "" if self.url.startswith("sqlite") else "mysql"

    @property
    def kind(self) -> str:
        """What kind of database it is."""
        return _kind(self.url)

    @property
    def place(self) -> str:
        """Where the database is, without user and password."""
        return _place(self.url)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The HTTP side. Any of the ``hmac_keys``, and any of the ``trigger_secrets``, is good: there
    are two while one replaces the other. Names of headers are in lower case."""

    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str | None = None
    hmac_keys: tuple[bytes, ...] = field(default=(), repr=False)
    trigger_secrets: tuple[str, ...] = field(default=(), repr=False)
    hmac_header: str = "webhook-signature"
    hmac_tolerance: timedelta = timedelta(minutes=5)
    redact_keys: bool = False
    hmac_timestamp_header: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration file. ``warnings`` are for a person to read; nothing depends on them."""

    path: Path
    state: StateSettings
    queue: QueueSettings
    stores: Mapping[str, StoreSettings]
    databases: Mapping[str, DatabaseSettings]
    policies: Mapping[str, Policy]
    serve: ServeSettings = ServeSettings()
    warnings: Sequence[Finding] = ()
    schedule: ScheduleSettings = ScheduleSettings()
    infrai: InfraiSettings = InfraiSettings()

    @property
    def evidence(self) -> Path:
        """The folder of what upkeep exports: beside the SQLite file and named after it, or else
        beside this file."""
        if self.state.url.startswith(SQLITE):
            return self.state.file.with_name(f"{self.state.file.stem}-evidence")
        return self.path.absolute().with_name("bestbefore-evidence")


def _kind(url: str) -> str:
    return urlsplit(url).scheme.partition("+")[0]


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{_kind(url)}://{parts.netloc.rpartition('@')[2]}{parts.path}"
