"""What they say of a schedule and of a run, read tolerantly: the names of the fields differ."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from bestbefore.adapters.infrai.envelope import first, text
from bestbefore.domain.printable import printable
from bestbefore.ports.scheduler import EXPRESSION, TARGET, TIMEZONE, Deployed, VendorRun

BETWEEN = "--"
"""Between group and policy in a schedule's name: no group has it, and no policy begins with "-"."""

_TRIGGER = "/cleanup/plan/"
_OFF = frozenset({"paused", "disabled", "inactive", "off"})
_WELL = frozenset({"success", "succeeded", "ok", "completed", "done"})
_FAILED = frozenset({"failed", "failure", "error", "timeout", "timed_out"})
_TIMES = ("started_at", "scheduled_at", "fired_at", "run_at", "created_at", "finished_at")
_MOST_OUTPUT = 500


def record_id(record: Any) -> str | None:
    """What a schedule is known by."""
    return text(record, "job_id", "cron_id", "id")


def deployed(record: Any, group: str) -> Deployed | None:
    """The schedule in *record*, if it is one of *group*."""
    name, known_by = text(record, "name"), record_id(record)
    if name is None or known_by is None or not name.startswith(group + BETWEEN):
        return None
    terms: dict[str, str] = {}
    if (expression := text(record, "cron_expr", "schedule", "cron")) is not None:
        terms[EXPRESSION] = expression
    if (zone := text(record, "timezone")) is not None:
        terms[TIMEZONE] = zone
    if (target := text(record, "task", "task_url", "url", "http_url")) is not None:
        terms[TARGET] = veiled(target)
    return Deployed(known_by, name.removeprefix(group + BETWEEN), _enabled(record), terms)


def veiled(target: str) -> str:
    """*target* with a digest in the place of the secret that its path ends in."""
    head, found, secret = target.partition(_TRIGGER)
    if not found:
        parts = urlsplit(target)  # somebody else's: who knows where its secret is
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/… ({_digest(target)})"
    return f"{head}{_TRIGGER}{_digest(secret)}"


def run(record: Any) -> VendorRun | None:
    """One trigger that they remember; None where it says no time."""
    at = next((at for name in _TIMES if (at := _moment(record, name)) is not None), None)
    if at is None:
        return None
    said = first(record, ("status", "state", "ok", "success"))
    ok = said if isinstance(said, bool) else None
    if isinstance(said, str):
        ok = True if said.lower() in _WELL else False if said.lower() in _FAILED else None
    output = first(record, ("output", "result", "error", "response"))
    shown = "" if output is None else printable(str(output))[:_MOST_OUTPUT]
    return VendorRun(at, ok, shown)


def _enabled(record: Any) -> bool:
    if isinstance(record, Mapping):
        for name in ("enabled", "active"):
            if isinstance(record.get(name), bool):
                return bool(record[name])
        if isinstance(record.get("paused"), bool):
            return not record["paused"]
        return str(first(record, ("status", "state")) or "").lower() not in _OFF
    return True


def _moment(record: Any, name: str) -> datetime | None:
    said = first(record, [name])
    try:
        if isinstance(said, str):
            moment = datetime.fromisoformat(said)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        if isinstance(said, int | float) and not isinstance(said, bool):
            return datetime.fromtimestamp(said, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _digest(secret: str) -> str:
    return f"sha256:{sha256(secret.encode()).hexdigest()[:12]}"
