"""What we ask of Infrai's cron, and every form of it that is known.

For creating one, five were seen; `docs/infrai.md` says where. The first is what clients use that
look as if they worked.
"""

from bestbefore.adapters.infrai import Shape, Use

_IN_PATH = dict.fromkeys(("id", "cron_id", "job_id"), "id")
_ALSO = {
    "timezone": "timezone",
    "payload": "payload",
    "timeout_seconds": "timeout",
    "retries": "retries",
    "retry": "retries",
    "overlap_policy": "overlap",
    "idempotency_key": "key",
}
_KEY = {"idempotency_key": "key"}

CREATE = Use(
    "cron.create",
    "POST",
    "/v1/cron/create",
    [
        Shape({"name": "name", "cron_expr": "expression", "task": "target"}, _ALSO),
        Shape(
            {"name": "name", "cron_expr": "expression", "task_url": "target"},
            _ALSO,
            {"task_type": "http_url"},
        ),
        Shape({"name": "name", "schedule": "expression", "url": "target"}, _ALSO),
        Shape({"name": "name", "schedule": "expression", "http_url": "target"}, _ALSO),
    ],
)
LIST = Use("cron.list", "GET", "/v1/cron/list", [Shape(also={"cursor": "cursor"})])
GET = Use("cron.get", "GET", "/v1/cron/get/{id}", places=_IN_PATH)
DELETE = Use("cron.delete", "DELETE", "/v1/cron/delete/{id}", [Shape(also=_KEY)], _IN_PATH)
PAUSE = Use("cron.pause", "POST", "/v1/cron/pause/{id}", [Shape(also=_KEY)], _IN_PATH)
RESUME = Use("cron.resume", "POST", "/v1/cron/resume/{id}", [Shape(also=_KEY)], _IN_PATH)
TRIGGER = Use("cron.trigger", "POST", "/v1/cron/trigger/{id}", [Shape(also=_KEY)], _IN_PATH)
RUNS = Use("cron.runs.list", "GET", "/v1/cron/runs/list/{id}", places=_IN_PATH)

ALL = (CREATE, LIST, GET, DELETE, PAUSE, RESUME, TRIGGER, RUNS)
