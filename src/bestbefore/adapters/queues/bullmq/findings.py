"""What an operator should know of the Redis behind the queue: asked, never set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from redis.exceptions import RedisError

from bestbefore.adapters.queues.bullmq.jobs import Jobs
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.transport import TransportFailed

_OLDEST = (6, 2)
_TRIED = ("5", "6")
"""The major versions of BullMQ for Node that share a queue with ours in our tests."""

_AGAIN = "bestbefore notices and publishes them again, an hour after others published later arrived"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What Redis told. ``config`` is None where it does not tell its configuration; ``peers`` is
    what another client wrote about itself."""

    info: Mapping[str, Any]
    config: Mapping[Any, Any] | None
    paused: bool
    failed: int
    peers: str


def findings(jobs: Jobs) -> Sequence[Finding]:
    """Everything there is to say, or that nobody answers."""
    try:
        seen = jobs.run(_look(jobs))
    except TransportFailed as failed:
        return [
            Finding(
                f"queue-{failed.failure.failure_class}",
                Level.ERROR,
                failed.failure.error,
                "look at queue.url, and at the rights of its user: on the queue's keys it needs "
                "+@read +@write +@connection +@scripting +@transaction, and +info",
            )
        ]
    found = [
        *_server(seen),
        *_eviction(seen),
        *_persistence(seen),
        *_queue(seen),
    ]
    return [
        Finding(one.code, one.level, f"{jobs.name}: {one.message}", one.remedy) for one in found
    ]


async def _look(jobs: Jobs) -> _Seen:
    backend = jobs.backend
    info = await jobs.client.info()
    config: dict[Any, Any] | None
    try:
        config = await jobs.client.config_get("appendonly", "appendfsync", "save")
        config |= await jobs.client.config_get("maxmemory-policy")
    except RedisError:
        config = None  # renamed, or kept from us, as where it is rented
    paused, failed, peers = (
        await backend.isPaused(),
        await backend.getCounts(["failed"]),
        await jobs.client.hget(backend.toKey("meta"), "version"),
    )
    return _Seen(info, config or None, paused, sum(failed), str(peers or ""))


def _server(seen: _Seen) -> Iterator[Finding]:
    shown = str(seen.info.get("redis_version", "0"))
    number = tuple(int(part) for part in shown.split(".")[:2] if part.isdigit())
    if number < _OLDEST:
        yield Finding(
            "redis-version", Level.ERROR, f"this is Redis {shown}; BullMQ needs 6.2 or newer",
            "upgrade Redis",
        )  # fmt: skip
    else:
        yield Finding("redis-version", Level.INFO, f"Redis {shown} answers", "")
    if seen.info.get("role") == "slave":
        yield Finding(
            "redis-replica", Level.ERROR, "this server is a replica, which takes no commands",
            "point queue.url to the primary",
        )  # fmt: skip


def _eviction(seen: _Seen) -> Iterator[Finding]:
    policy = (seen.config or {}).get("maxmemory-policy") or seen.info.get("maxmemory_policy")
    if policy is None:
        yield Finding(
            "redis-eviction-unknown",
            Level.WARNING,
            "it does not tell its maxmemory-policy, so nobody can say whether it drops jobs",
            "see to it that maxmemory-policy is noeviction, where the server is configured",
        )
    elif policy != "noeviction":
        yield Finding(
            "redis-evicts",
            Level.ERROR,
            f"maxmemory-policy is {policy}: when memory is short Redis drops parts of the queue",
            "set maxmemory-policy noeviction; a cache belongs on another Redis",
        )


def _persistence(seen: _Seen) -> Iterator[Finding]:
    if seen.config is None:
        appends = bool(int(seen.info.get("aof_enabled", 0)))
        yield Finding(
            "redis-durability-unknown",
            Level.WARNING,
            "it does not tell its configuration, so nobody can say what a crash costs (it says "
            f"that its append-only file is {'on' if appends else 'off'})",
            "allow CONFIG GET, or see to appendonly yes and appendfsync everysec where the server "
            f"is configured. Published commands that it loses: {_AGAIN}",
        )
    elif seen.config.get("appendonly") != "yes":
        kept = "only snapshots are kept" if seen.config.get("save") else "nothing is kept on disk"
        yield Finding(
            "redis-not-durable",
            Level.WARNING,
            f"appendonly is off and {kept}: a crash loses published commands. {_AGAIN}",
            "set appendonly yes and appendfsync everysec",
        )
    elif seen.config.get("appendfsync") == "no":
        yield Finding(
            "redis-not-synced",
            Level.WARNING,
            "appendfsync is no: a crash of the machine loses what its system had not written yet. "
            + _AGAIN,
            "set appendfsync everysec",
        )
    else:
        lost = "a second of" if seen.config.get("appendfsync") == "everysec" else "no"
        yield Finding(
            "redis-durable", Level.INFO,
            f"appendonly is on: a crash of the machine loses {lost} published commands", "",
        )  # fmt: skip


def _queue(seen: _Seen) -> Iterator[Finding]:
    if seen.paused:
        yield Finding(
            "bullmq-paused", Level.WARNING, "somebody paused it, so no worker is given anything",
            "resume it with the tool that paused it",
        )  # fmt: skip
    if seen.failed:
        yield Finding(
            "bullmq-failed", Level.WARNING, f"{seen.failed:,} jobs are in its failed set",
            "bestbefore dlq absorb brings them into the ledger",
        )  # fmt: skip
    ours = f"bullmq {version('bullmq')} for Python"
    if not seen.peers:
        yield Finding(
            "bullmq-peers", Level.INFO, f"we use {ours}; no other client said what it is", "",
        )  # fmt: skip
        return
    kind, _, number = seen.peers.rpartition(":")
    if kind == "bullmq" and number.partition(".")[0] in _TRIED:
        yield Finding(
            "bullmq-peers", Level.INFO, f"we use {ours}; another client is {seen.peers}", "",
        )  # fmt: skip
    else:
        yield Finding(
            "bullmq-peers", Level.WARNING,
            f"we use {ours}, tried together with BullMQ {' and '.join(_TRIED)} for Node; another "
            f"client is {seen.peers}",
            "run one of those, or give bestbefore a queue of its own",
        )  # fmt: skip
