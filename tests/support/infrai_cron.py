"""The cron of the stand-in for Infrai: see `support.infrai`, which is not the vendor either."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx
from cronsim import CronSim, CronSimError

from support.infrai_documents import Variant
from support.infrai_queue import Refused

MOST_OUTPUT = 4_096


@dataclass
class StoredCron:
    """One schedule."""

    cron_id: str
    name: str
    expression: str
    zone: str
    url: str
    payload: Any
    enabled: bool = True
    runs: list[dict[str, Any]] = field(default_factory=list)

    def fires_at(self, at: datetime) -> bool:
        """Whether the minute *at* is one of its."""
        local = at.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        cron = CronSim(self.expression, local)
        return (
            local.minute in cron.minutes
            and local.hour in cron.hours
            and cron.match_day(local.date())
            and local.month in cron.months
        )


class Crons:
    """What the calls about schedules do."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self._lock = threading.Lock()
        self.crons: dict[str, StoredCron] = {}

    def create(self, said: Mapping[str, Any]) -> dict[str, Any]:
        expression = said.get("cron_expr") or said["schedule"]
        if not set(expression) <= set("0123456789*/,- "):
            raise Refused(400, "INVALID_ARGUMENT", "cron_expr: no extensions")
        try:
            CronSim(expression, datetime(2026, 1, 1))  # noqa: DTZ001
        except CronSimError:
            raise Refused(400, "INVALID_ARGUMENT", "cron_expr cannot be read") from None
        url = next(said[k] for k in ("task", "task_url", "url", "http_url") if k in said)
        made = StoredCron(
            uuid.uuid4().hex, said.get("name", ""), expression, said.get("timezone", "UTC"), url,
            said.get("payload"),
        )  # fmt: skip
        with self._lock:
            self.crons[made.cron_id] = made
        return {self.variant.cron_id: made.cron_id}

    def every(self, _: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            shown = [self._shown(one, whole=False) for one in self.crons.values()]
        return {"items": shown}

    def get(self, said: Mapping[str, Any]) -> dict[str, Any]:
        return self._shown(self._one(said), whole=True)

    def delete(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            del self.crons[self._one(said).cron_id]
        return {}

    def pause(self, said: Mapping[str, Any]) -> dict[str, Any]:
        self._one(said).enabled = False
        return {}

    def resume(self, said: Mapping[str, Any]) -> dict[str, Any]:
        self._one(said).enabled = True
        return {}

    def trigger(self, said: Mapping[str, Any]) -> dict[str, Any]:
        self._fire(self._one(said), datetime.now(UTC))
        return {}

    def runs_list(self, said: Mapping[str, Any]) -> dict[str, Any]:
        return {"items": list(reversed(self._one(said).runs))}

    # -- firing ------------------------------------------------------------------------------

    def tick(self, at: datetime) -> list[dict[str, Any]]:
        """Let it be *at*: everything whose minute that is fires, unless it is paused; what came
        while it was is never made up for. Returns the runs."""
        due = [one for one in self.crons.values() if one.enabled and one.fires_at(at)]
        return [self._fire(one, at) for one in due]

    def _fire(self, cron: StoredCron, at: datetime) -> dict[str, Any]:
        body = {} if cron.payload is None else {"json": cron.payload}
        try:
            answer = httpx.post(cron.url, timeout=900, **body)
            ok, output = answer.is_success, answer.text
        except httpx.HTTPError as error:
            ok, output = False, type(error).__name__
        run = {
            "id": uuid.uuid4().hex,
            "started_at": at.isoformat(),
            "status": "success" if ok else "failed",
            "output": output[:MOST_OUTPUT],
        }
        cron.runs.append(run)
        return run

    def _one(self, said: Mapping[str, Any]) -> StoredCron:
        try:
            return self.crons[said["id"]]
        except KeyError:
            raise Refused(404, "NOT_FOUND", "no such schedule") from None

    def _shown(self, cron: StoredCron, *, whole: bool) -> dict[str, Any]:
        expression = "schedule" if self.variant.cron in "ce" else "cron_expr"
        url = {"a": "task", "b": "task_url", "c": "url", "d": "task", "e": "http_url"}
        shown = {
            self.variant.cron_id: cron.cron_id,
            "name": cron.name,
            expression: cron.expression,
            url[self.variant.cron]: cron.url,
            "enabled": cron.enabled,
        }
        if whole or self.variant.zone_in_list:
            shown["timezone"] = cron.zone
        return shown
