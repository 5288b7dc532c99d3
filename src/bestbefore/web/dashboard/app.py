"""The pages as an application of its own: its answers are pages, errors too."""

from http import HTTPStatus

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bestbefore.app.system import UnknownPolicy
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.stages.survey import PlanRefused, Stopped
from bestbefore.web.dashboard import audit, dead_letters, explain, holds, overview, runs, visits
from bestbefore.web.dashboard.pages import compile_templates, page
from bestbefore.web.dashboard.visits import SignInFirst, _visit, to_sign_in
from bestbefore.web.desk import Desk
from bestbefore.web.limits import RateLimit, replayed, whole_body
from bestbefore.web.problems import Problem, problem_of

_OURS = frozenset(
    {"", "sign-in", "sign-out", "static", "pause", "resume", "runs", "dead-letters", "explain",
     "audit", "holds"}
)  # fmt: skip
"""The first parts of paths that are pages."""


class WithDashboard:
    """Answers pages, and leaves everything else to the application inside."""

    def __init__(self, app: ASGIApp, dashboard: ASGIApp) -> None:
        self._app = app
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = scope["path"].lstrip("/").partition("/")[0]
        app = self._dashboard if first in _OURS else self._app
        await app(scope, receive, send)


def create_dashboard(desk: Desk) -> FastAPI:
    """The pages of *desk*."""
    compile_templates()
    app = FastAPI(openapi_url=None, redirect_slashes=False, middleware=[Middleware(_Bounded)])
    app.state.desk, app.state.limit = desk, RateLimit()
    for kind in (
        Problem, SignInFirst, UnknownPolicy, LedgerError, PlanRefused, StoreError, Stopped,
        HTTPException, RequestValidationError, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, _answer)
    app.include_router(visits.open_routes)
    for module in (overview, runs, dead_letters, explain, audit, holds):
        app.include_router(module.routes, dependencies=[Depends(_visit)])
    app.mount("/static", StaticFiles(packages=[("bestbefore.web.dashboard", "static")]))
    return app


class _Bounded:
    """Refuses what is larger than any form of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await whole_body(scope, receive)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)


def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, SignInFirst):
        return to_sign_in(error)
    problem = problem_of(error)
    title = HTTPStatus(problem.status).phrase
    response = page(request, "error.html", problem.status, title=title, detail=problem.detail)
    response.headers.update(problem.headers)
    return response
