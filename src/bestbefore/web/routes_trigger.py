"""What schedulers and queues call: plan a slot, execute a command that was pushed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from bestbefore.app.push import PushRefused, push
from bestbefore.app.triggers import Job, NotBegun, Paused, over, summary
from bestbefore.domain.message import Unreadable, read
from bestbefore.domain.states import State
from bestbefore.read.documents import Document
from bestbefore.web import documents
from bestbefore.web.asked import PlanAsked
from bestbefore.web.auth import Triggerer
from bestbefore.web.desk import Desk, Here
from bestbefore.web.problems import Problem, documented, try_again
from bestbefore.web.pushed import command_in

_ANSWER_WITHIN_SECONDS = 0.8
"""What leaves of a second enough for the rest."""

_MARGIN_SECONDS = 0.5
"""What the last batch in hand may take."""

_BEGIN_WITHIN_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.1
_TRY_AGAIN_SECONDS = 2

routes = APIRouter(responses=documented(401, 403, 409, 413, 422, 429, 503))

_PLAN: dict[str, Any] = {
    "response_model": documents.PlanAnswer,
    "status_code": 202,
    "responses": documented(404)
    | {
        200: {"model": documents.PlanAnswer, "description": "Nothing is left to be done"},
        202: {"description": "Planned so far; the rest goes on behind this answer"},
    },
}


@routes.post("/cleanup/plan", **_PLAN)
async def plan(
    desk: Here, caller: Triggerer, response: Response, asked: PlanAsked | None = None
) -> Document:
    """Answer a slot with its one run, however often this is called. Without a policy, every policy
    whose schedule has one due and that is not paused."""
    return await _planned(desk, caller.name, asked or PlanAsked(), response)


@routes.post("/cleanup/plan/{secret}", **_PLAN)
async def plan_by_secret(
    desk: Here,
    caller: Triggerer,
    response: Response,
    secret: Annotated[str, Path(description="The trigger secret.", min_length=32)],  # noqa: ARG001
    asked: PlanAsked | None = None,
) -> Document:
    """The same for schedulers that can send neither headers nor signatures."""
    return await _planned(desk, caller.name, asked or PlanAsked(), response)


_MESSAGE = {
    "v": 1,
    "kind": "object",
    "operation_id": "9783c7f13d5e634d7642896032b3915dbf0471bcd0c08c4637a40108858c7fae",
    "policy": "digests",
    "policy_version": "retain-30d-v2",
    "slot": "2026-07-10T02:00:00Z",
    "action": "delete",
    "bucket": "weekly-digests",
    "key": "exports/2026-06/customer-1842.json",
    "etag": "9dd4e461268c8034f5c8564e155c67a6",
    "last_modified": "2026-06-07T02:00:00Z",
}
_MESSAGE_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"type": "object"}, "example": _MESSAGE}},
}


@routes.post(
    "/v1/push",
    response_model=documents.PushAnswer,
    responses=documented(404),
    openapi_extra={"requestBody": _MESSAGE_BODY},
)
async def push_one(desk: Here, _: Triggerer, request: Request) -> Document:
    """Execute one command, a message as `docs/command.schema.json` has it, or that under `payload`.
    What is deleted is what the ledger holds under its id; 200 means that the effect is recorded."""
    body = await request.body()
    return await to_thread.run_sync(_pushed, desk, body)


async def _planned(desk: Desk, by: str, asked: PlanAsked, response: Response) -> Document:
    try:
        jobs = await to_thread.run_sync(desk.triggers.begin, asked.policy, asked.slot, by)
        await _wait(jobs)
        found = await _answers(desk, jobs)
    except Paused as error:
        raise Problem(409, str(error)) from error
    except NotBegun as error:
        raise try_again(503, str(error), _TRY_AGAIN_SECONDS) from error
    if over(found):
        response.status_code = 200
    return summary(found)


async def _wait(jobs: Sequence[Job]) -> None:
    """Wait for the plans for less than a second; longer only for what may be deleted at once."""
    ends = {asyncio.wrap_future(job.done): job for job in jobs}
    late, began, timeout = set(ends), time.monotonic(), _ANSWER_WITHIN_SECONDS
    while late:
        _, late = await asyncio.wait(late, timeout=timeout)
        waited, timeout = time.monotonic() - began, _LOOK_AGAIN_SECONDS
        late = {end for end in late if waited < _MARGIN_SECONDS + ends[end].patience}


async def _answers(desk: Desk, jobs: Sequence[Job]) -> list[Document]:
    """What can be said of *jobs*. Nothing can before a run is in the ledger, and then a late answer
    is worth more than none."""
    until = time.monotonic() + _BEGIN_WITHIN_SECONDS
    while True:
        try:
            return await to_thread.run_sync(lambda: [desk.triggers.answer(job) for job in jobs])
        except NotBegun:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _pushed(desk: Desk, body: bytes) -> Document:
    try:
        command = read(command_in(body))
        done = push(desk.system, command, desk.options, desk.stopping)
    except (Unreadable, PushRefused) as error:
        raise Problem(422, str(error)) from error
    operation = done.operation
    if done.done:
        return {
            "operation_id": operation.operation_id.hex(),
            "state": operation.state.value,
            "outcome": operation.outcome and operation.outcome.value,
        }
    name = f"operation {operation.operation_id.hex()}"
    if operation.state is State.DEAD:
        raise Problem(409, f"{name} is a dead letter: a person has to redrive or discard it")
    seconds = done.again.total_seconds() if done.again else _TRY_AGAIN_SECONDS
    if done.taken:
        raise try_again(409, f"{name} is in a worker's hands", seconds)
    raise try_again(503, f"{name} is not due, or may not be begun now", seconds)
