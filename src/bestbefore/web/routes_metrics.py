"""What Prometheus scrapes."""

from fastapi import APIRouter, Response

from bestbefore.app import reporting
from bestbefore.web.auth import Reader
from bestbefore.web.desk import Here
from bestbefore.web.metrics import exposition
from bestbefore.web.problems import documented

routes = APIRouter(tags=["metrics"], responses=documented(401, 403, 422, 429, 503))


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": "Every measure", "content": {"text/plain": {}}}},
)
def metrics(desk: Here, _: Reader) -> Response:
    """Every measure, in the text format of Prometheus: the same from each process."""
    system = desk.system
    missed = system.schedule.slots.missed_counts(sorted(system.settings.policies))
    body, kind = exposition(reporting.measures(system, missed))
    return Response(body, media_type=kind)
