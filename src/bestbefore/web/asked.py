"""What requests may say: bodies, and the values that several routes take."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from bestbefore.domain.failure import FailureClass

_OPERATION = r"^[0-9a-f]{64}$"
_NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"


def _moment(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("expected a time with its zone, such as 2026-07-01T02:00:00Z")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = datetime.max.replace(tzinfo=UTC)
    if not 1970 <= moment.year <= 9000:
        raise ValueError("expected a time this century knows")
    return moment


def _clean(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("expected valid Unicode") from None
    return value


Moment = Annotated[datetime, AfterValidator(_moment), Field(examples=["2026-07-01T02:00:00Z"])]
Text = Annotated[str, AfterValidator(_clean), Field(max_length=1_000)]
Reason = Annotated[Text, Field(min_length=1, pattern=r"\S", examples=["court case 7"])]
PolicyName = Annotated[str, Field(pattern=_NAME, examples=["weekly-digest-exports"])]
OperationId = Annotated[str, Field(pattern=_OPERATION)]

PolicyPath = Annotated[str, Path(pattern=_NAME)]
OperationPath = Annotated[str, Path(pattern=_OPERATION, description="64 hex digits.")]
RunPath = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", description="12 hex digits.")]
HoldPath = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", description="12 hex digits.")]
PolicyQuery = Annotated[str | None, Query(pattern=_NAME, description="Only of this policy.")]
ClassQuery = Annotated[FailureClass | None, Query(description="Only of this class.")]
LimitQuery = Annotated[int, Query(ge=1, le=500, description="At most so many.")]


class Asked(BaseModel):
    """A body. A field that is not known is refused, never ignored."""

    model_config = ConfigDict(extra="forbid")


class PlanAsked(Asked):
    """Which slot to answer: the latest one due unless said, of every policy unless named."""

    policy: PolicyName | None = None
    slot: Moment | None = None


class Approve(Asked):
    """Why a run is approved, for the record."""

    reason: Reason | None = None


class Cancel(Asked):
    """Why a run is cancelled."""

    reason: Reason = "cancelled by a person"


class Which(Asked):
    """Which dead letters are meant; every condition given has to hold. ``all`` is all of them."""

    ids: Annotated[list[OperationId], Field(min_length=1, max_length=500)] | None = None
    policy: PolicyName | None = None
    failure_class: FailureClass | None = None
    superseded: Literal[True] | None = None
    all: Literal[True] | None = None
    dry_run: bool = False

    @model_validator(mode="after")
    def _chosen(self) -> "Which":
        given = (self.ids, self.policy, self.failure_class, self.superseded)
        if (self.all is None) == all(value is None for value in given):
            raise ValueError("say which: either all, or ids, policy, failure_class, superseded")
        return self


class Redrive(Which):
    """Dead letters to send again; ``rate`` is how many a second, ``canary`` how many at first."""

    rate: Annotated[float, Field(ge=0.001, le=1_000_000)] | None = None
    canary: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Discard(Which):
    """Dead letters to close without deleting anything."""

    reason: Reason


class HoldAsked(Asked):
    """What to hold: a policy, or a bucket of a store and maybe a prefix."""

    policy: PolicyName | None = None
    store: Text | None = None
    bucket: Text | None = None
    prefix: Annotated[str, AfterValidator(_clean), Field(max_length=1_024)] = ""
    reason: Reason
    until: Moment | None = None


class PauseAsked(Asked):
    """What nobody shall work on: a policy, or without one every policy."""

    policy: PolicyName | None = None
    reason: Reason
    until: Moment | None = None
