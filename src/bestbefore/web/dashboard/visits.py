"""Who looks at a page: signed in with a token, known by a cookie afterwards.

The cookie holds a secret; what is stored is its hash, for all processes of one state database. It
is sent by no other site's pages, read by no script, and each form carries a second one, made of
it, that no other site can know.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData

from bestbefore.domain.access import Principal, Scope, token_digest
from bestbefore.web.auth import by_token
from bestbefore.web.dashboard.pages import done, page, query
from bestbefore.web.desk import Here
from bestbefore.web.limits import RateLimit
from bestbefore.web.problems import Problem

COOKIE = "bestbefore_session"
_LASTS = timedelta(hours=12)

open_routes = APIRouter()


class SignInFirst(Exception):
    """Nobody is signed in, who asked for ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody who is signed in. ``csrf`` has to come back with every form."""

    principal: Principal
    session: bytes
    csrf: str

    @property
    def operates(self) -> bool:
        """Whether this visitor may act, and not only look."""
        return self.principal.may(Scope.OPERATE)


def _visit(request: Request, desk: Here) -> Visit:
    limit: RateLimit = request.app.state.limit
    secret = request.cookies.get(COOKIE, "")
    session = sha256(secret.encode()).digest()
    token = desk.system.sessions.holder(session, desk.system.clock.now()) if secret else None
    if token is None:
        raise SignInFirst(request.url.path if request.method == "GET" else "/")
    principal = Principal(f"token:{token.name}", token.scopes)
    limit.known(principal.name)
    visit = Visit(principal, session, sha256(b"form:" + secret.encode()).hexdigest())
    request.state.visit, request.state.principal = visit, principal
    if not principal.may(Scope.READ):
        raise Problem(403, f"this needs the scope {Scope.READ}, which {principal.name} has not")
    return visit


Visitor = Annotated[Visit, Depends(_visit)]


async def _posted(request: Request, visit: Visitor) -> FormData:
    form = await request.form()
    given = form.get("csrf")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), visit.csrf.encode()):
        raise Problem(
            403,
            "this form was not made for who is signed in now, and nothing was done; go back, load "
            "the page again and repeat",
        )
    _refuse_other_sites(request)
    return form


Posted = Annotated[FormData, Depends(_posted)]


async def _acted(form: Posted, visit: Visitor) -> FormData:
    if not visit.operates:
        raise Problem(
            403,
            f"this needs the scope {Scope.OPERATE}, which {visit.principal.name} has not; make a "
            "token with `bestbefore token add NAME --scope operate` and sign in with it",
        )
    return form


Action = Annotated[FormData, Depends(_acted)]
"""A form that changes something, sent by a page of ours for somebody who may."""


def field(form: FormData, name: str) -> str:
    """The text in *name*, without blanks around it; empty where there is none."""
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def reason(form: FormData) -> str:
    """The reason given; raises Problem where there is none."""
    if said := field(form, "reason"):
        return said
    raise Problem(422, "the reason is empty; say why, for whoever wonders")


@open_routes.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    """Where a token is asked for."""
    return page(request, "sign_in.html", next=_inside(request.query_params.get("next", "/")))


async def _sign_in_form(request: Request) -> FormData:
    return await request.form()


@open_routes.post("/sign-in")
def sign_in(
    request: Request, desk: Here, form: Annotated[FormData, Depends(_sign_in_form)]
) -> Response:
    """Begin a session with a token."""
    _refuse_other_sites(request)
    system, text = desk.system, field(form, "token")
    there = _inside(field(form, "next"))
    principal = by_token(system.access, system.clock, text)
    if principal is None or not principal.may(Scope.READ):
        limit: RateLimit = request.app.state.limit
        limit.unknown(request.client.host if request.client else "?")
        problem = "There is no such token, or it has ended or was revoked."
        if principal is not None:
            problem = "This token may trigger runs only; reading needs the scope read."
        return page(request, "sign_in.html", 403, next=there, problem=problem)
    now, secret = system.clock.now(), secrets.token_urlsafe(32)
    session = sha256(secret.encode()).digest()
    system.sessions.begin(session, token_digest(text), now + _LASTS, now)
    response = RedirectResponse(there, 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(_LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=_is_secure(request, desk),
    )
    return response


@open_routes.post("/sign-out")
def sign_out(desk: Here, visit: Visitor, _: Posted) -> Response:
    """End this session."""
    desk.system.sessions.end(visit.session)
    response = done("/sign-in", "You are signed out.")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def to_sign_in(error: SignInFirst) -> Response:
    """Where nobody is signed in."""
    return RedirectResponse("/sign-in" + query({"next": error.path}), 303)


def _is_secure(request: Request, desk: Here) -> bool:
    public = desk.system.settings.serve.public_url or ""
    return request.url.scheme == "https" or public.startswith("https:")


def _refuse_other_sites(request: Request) -> None:
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "this form was sent by a page of another site; nothing was done")


def _inside(path: str) -> str:
    """*path* if it leads to a page of ours, else the overview."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if plain and path.isprintable() else "/"
