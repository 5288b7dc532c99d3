"""The application: routes, and around them who may ask, how much, and what every answer says."""

from importlib import metadata
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware import Middleware

from bestbefore.app import reporting
from bestbefore.web import (
    problems,
    routes_health,
    routes_metrics,
    routes_operate,
    routes_read,
    routes_trigger,
)
from bestbefore.web.auth import Gatekeeper
from bestbefore.web.dashboard.app import WithDashboard, create_dashboard
from bestbefore.web.desk import Desk
from bestbefore.web.headers import Outermost
from bestbefore.web.repeats import Repeats


def create_app(desk: Desk) -> FastAPI:
    """The HTTP side of *desk*."""
    system = desk.system

    class Answer(JSONResponse):
        """Every document that a route returns, as it may be shown."""

        def render(self, content: Any) -> bytes:
            return super().render(reporting.shown(system, content))

    app = FastAPI(
        title="bestbefore",
        version=metadata.version("bestbefore"),
        summary="Scheduled data cleanup that proves what it did.",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Answer,
        middleware=[
            Middleware(Outermost),
            Middleware(WithDashboard, dashboard=create_dashboard(desk)),
            Middleware(
                Gatekeeper,
                serve=system.settings.serve,
                access=system.access,
                deliveries=system.deliveries,
                clock=system.clock,
            ),
            Middleware(Repeats, answers=system.answers, clock=system.clock),
        ],
    )
    app.state.desk = desk
    problems.handle(app)
    for module in (routes_trigger, routes_read, routes_operate, routes_health, routes_metrics):
        app.include_router(module.routes)
    return app
