"""Whether this process is well: yes or no, for anybody."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_class=PlainTextResponse)
def healthz() -> str:
    """The process answers."""
    return "yes"


@routes.get(
    "/readyz",
    response_class=PlainTextResponse,
    responses={503: {"description": "Not ready", "content": {"text/plain": {"example": "no"}}}},
)
def readyz(request: Request, response: Response) -> str:
    """The state database answers, and every loop of this process is going."""
    if request.app.state.desk.ready():
        return "yes"
    response.status_code = 503
    return "no"
