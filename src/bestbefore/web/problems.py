"""What went wrong, for whoever asked: always a problem document (RFC 9457), never a stack trace."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from bestbefore.app.system import UnknownPolicy
from bestbefore.ports.ledger import LedgerError, LedgerUnavailable, NotInLedger
from bestbefore.ports.objects import StoreError
from bestbefore.stages.survey import PlanRefused, Stopped
from bestbefore.stages.trigger import SlotRefused

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_TRY_AGAIN_SECONDS = 5
_LONGEST_DETAIL = 2_000


class Problem(Exception):
    """An answer that is a problem document. ``detail`` is for people."""

    def __init__(
        self,
        status: int,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors = errors

    def response(self) -> Response:
        """The document itself."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail[:_LONGEST_DETAIL],
        }
        if self.errors is not None:
            document["errors"] = self.errors
        return Response(json.dumps(document), self.status, self.headers, MEDIA_TYPE)


class Fault(BaseModel):
    """One value that was not as expected."""

    where: str = Field(examples=["body.slot"])
    message: str


class ProblemDocument(BaseModel):
    """A problem document as RFC 9457 has it."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str
    errors: list[Fault] | None = None


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route that may answer with *statuses* tells OpenAPI, beside what any route may."""
    return {
        status: {
            "model": ProblemDocument,
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE}}},
        }
        for status in sorted(statuses)
    }


_REFERENCE = "#/components/schemas/ProblemDocument"


def try_again(status: int, detail: str, seconds: float = _TRY_AGAIN_SECONDS) -> Problem:
    """A problem that may be over after so many seconds."""
    return Problem(status, detail, {"Retry-After": str(max(1, round(seconds)))})


def problem_of(error: Exception) -> Problem:
    """What *error*, raised anywhere inside, is to whoever asked."""
    match error:
        case Problem():
            return error
        case UnknownPolicy():
            return Problem(404, str(error.args[0]))
        case NotInLedger():
            return Problem(404, str(error))
        case SlotRefused():
            return Problem(422, str(error))
        case LedgerUnavailable():
            log.error("no answer: %s", error)  # its name and place are not for everybody
            return try_again(503, "the state database cannot be used right now")
        case PlanRefused() | LedgerError():
            return Problem(409, str(error))
        case StoreError():
            return try_again(503, str(error))
        case Stopped():
            return try_again(503, "this process is ending")
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            return Problem(error.status_code, phrase, error.headers)
        case RequestValidationError():
            return Problem(422, "the request is not as expected", errors=_faults(error))
        case _:
            log.error("a request failed", exc_info=error)
            return Problem(500, "this should not have happened; the log of the service says more")


def handle(app: FastAPI) -> None:
    """Have *app* answer every error with a problem document."""

    def answer(_request: Request, error: Exception) -> Response:
        return problem_of(error).response()

    for kind in (
        Problem, UnknownPolicy, SlotRefused, LedgerError, PlanRefused, StoreError, Stopped,
        HTTPException, RequestValidationError, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, answer)


def _faults(error: RequestValidationError) -> list[dict[str, str]]:
    """Where, and what was expected; not what was found, which may be secret."""
    return [
        {"where": ".".join(map(str, fault["loc"])), "message": str(fault["msg"])}
        for fault in error.errors()
    ]
