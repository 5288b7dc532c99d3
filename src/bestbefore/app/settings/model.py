"""The configuration as the rest of the program sees it: checked, resolved, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The queue, and how long a worker may hold a command before others may take it."""

    kind: str = "state"
    lease: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Who fires schedules, how late an answer may be, and how early a trigger."""

    kind: str = "embedded"
    grace: timedelta = timedelta(minutes=15)
    early_tolerance: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """One object store. None leaves a value to the client library's own defaults; ``root`` is
    the absolute path of a store of kind ``"directory"``, and only of one."""

    name: str
    kind: str
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    root: Path | None = None

    @property
    def place(self) -> str:
        """Where the store is, so that two names for one place can be told."""
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
    def place(self) -> str:
        """Where the database is, without user and password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme.partition('+')[0]}://{host}{parts.path}"


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The HTTP side. Any of the ``hmac_keys``, and any of the ``trigger_secrets``, is good: there
    are two while one replaces the other. ``hmac_header`` is in lower case."""

    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str | None = None
    hmac_keys: tuple[bytes, ...] = field(default=(), repr=False)
    trigger_secrets: tuple[str, ...] = field(default=(), repr=False)
    hmac_header: str = "webhook-signature"
    hmac_tolerance: timedelta = timedelta(minutes=5)
    redact_keys: bool = False


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

    @property
    def evidence(self) -> Path:
        """The folder of what upkeep exports: beside the SQLite file and named after it, or else
        beside this file."""
        if self.state.url.startswith(SQLITE):
            return self.state.file.with_name(f"{self.state.file.stem}-evidence")
        return self.path.absolute().with_name("bestbefore-evidence")
