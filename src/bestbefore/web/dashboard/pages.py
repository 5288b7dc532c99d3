"""How pages are made: templates, and how texts, numbers and times look in them.

Keys and error texts are other people's. They are escaped, as everything is, and what a reader
would not see, or would see in another order, is written out.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bestbefore.app import reporting
from bestbefore.web.dashboard import charts

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy: nothing from elsewhere, and nothing that stands in a page."""

MESSAGE = "bestbefore_message"
_MESSAGE_SECONDS = 60
_LONGEST_MESSAGE = 400

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def shown(text: object) -> Markup:
    """*text* with every character written out that has no look of its own, or changes that of
    others: controls, marks for the direction of writing, invisible ones."""
    parts = (
        escape("".join(run))
        if printable
        else Markup().join(
            Markup('<span class="control">{}</span>').format(
                char.encode("unicode_escape", "surrogatepass").decode()
            )
            for char in run
        )
        for printable, run in groupby(str(text), str.isprintable)
    )
    return Markup('<bdi class="text">{}</bdi>').format(Markup().join(parts))


def number(n: int) -> str:
    """*n* with its thousands apart."""
    return f"{n:,}"


def at(moment: str | None) -> Markup:
    """An instant of a document, for people and for machines."""
    if moment is None:
        return Markup("-")
    text = moment.replace("T", " ").replace(":00Z", "").replace("Z", "")
    return Markup('<time datetime="{}">{}</time>').format(moment, text)


def ago(moment: str | None, now: datetime) -> str:
    """How long before, or after, *now* an instant of a document is."""
    if moment is None:
        return "never"
    seconds = (now - datetime.fromisoformat(moment)) // timedelta(seconds=1)
    past, seconds = seconds >= 0, abs(seconds)
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago" if past else f"in {seconds // size} {unit}"
    return "just now" if past else "in a moment"


def size(count: float) -> str:
    """*count* bytes in a readable unit (powers of 1,000)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            break
        count /= 1_000
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("bestbefore.web.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "shown": shown,
    "n": number,
    "at": at,
    "ago": ago,
    "size": size,
    "became": charts.became,
}
_ENVIRONMENT.globals |= {"charts": charts}


def compile_templates() -> None:
    """Have no visitor wait for it."""
    for name in _ENVIRONMENT.list_templates():
        _ENVIRONMENT.get_template(name)


def page(request: Request, template: str, code: int = 200, **given: object) -> HTMLResponse:
    """The page that *template* makes of *given*, with the message of the last action, if any."""
    visit = getattr(request.state, "visit", None)
    message = request.cookies.get(MESSAGE)
    system = request.app.state.desk.system
    text = _ENVIRONMENT.get_template(template).render(
        reporting.shown(system, given),
        visit=visit,
        path=request.url.path,
        message=unquote(message) if message else None,
        now=system.clock.now(),
    )
    # What is no Unicode cannot get this far but written out; a page is answered whatever is in it.
    body = text.encode("utf-8", "backslashreplace")
    response = HTMLResponse(body, code, {"Content-Security-Policy": POLICY})
    if message:
        response.delete_cookie(MESSAGE, path="/", httponly=True, samesite="strict")
    return response


def done(path: str, message: str) -> RedirectResponse:
    """What follows an action: the page at *path*, which says *message* once."""
    response = RedirectResponse(path, 303)
    response.set_cookie(
        MESSAGE,
        quote(message[:_LONGEST_MESSAGE]),
        max_age=_MESSAGE_SECONDS,
        httponly=True,
        samesite="strict",
    )
    return response


def query(given: Mapping[str, str | None]) -> str:
    """*given* as the query of an address, without what is empty."""
    parts = [f"{name}={quote(value, safe='')}" for name, value in given.items() if value]
    return "?" + "&".join(parts) if parts else ""
