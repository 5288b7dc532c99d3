"""The documents of the API, as OpenAPI describes them. What fills them is `bestbefore.read`.

Times are ``YYYY-MM-DDTHH:MM:SSZ``. Ids are texts, also those of rows: no number in here is larger
than what a JavaScript number holds.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_RUN_ID = "7f1d2c9e40ab"
_OPERATION_ID = "9783c7f13d5e634d7642896032b3915dbf0471bcd0c08c4637a40108858c7fae"
_SLOT = "2026-07-01T02:00:00Z"


class Shown(BaseModel):
    """A document. Later versions may add fields."""

    model_config = ConfigDict(extra="allow")


class PlanAnswer(Shown):
    """What a trigger led to so far. With several policies ``policy`` and ``slot`` are null, the
    counts are sums, and ``state`` is null unless they share it; 150 runs are named at most."""

    run_ids: list[str] = Field(examples=[[_RUN_ID]])
    policy: str | None = Field(examples=["weekly-digest-exports"])
    slot: str | None = Field(examples=[_SLOT])
    eligible: int = Field(examples=[1_250])
    published: int = Field(examples=[1_250])
    created_batches: int = Field(examples=[0])
    complete: bool
    state: str | None = Field(examples=["open"])


class Policy(Shown):
    """A policy and how it is doing, as `status` shows it."""

    policy: str = Field(examples=["weekly-digest-exports"])
    version: str | None = Field(examples=["retain-30d-v2"])
    owner: str | None = Field(examples=["growth-team"])
    in_file: bool
    paused: str | None = Field(examples=[None])
    next_slot: str | None = Field(examples=["2026-07-02T02:00:00Z"])
    last_slot: str | None = Field(examples=[_SLOT])
    state: str | None = Field(examples=["drained"])
    backlog: int = Field(examples=[0])
    dead: int = Field(examples=[3])
    held: int = Field(examples=[0])
    overdue: int = Field(examples=[0])
    oldest_overdue: str | None = Field(examples=[None])


class Policies(Shown):
    """Every policy of the file, and every one only the ledger still knows."""

    policies: list[Policy]


class Run(Shown):
    """One planning pass for a policy's slot, with its counts. A run over a table also has its
    ``table``, the ``planned_dependents`` (``table, removed, changed, younger``), and how many rows
    stay because rows of other tables refer to them, by table (``referenced``)."""

    run_id: str = Field(examples=[_RUN_ID])
    policy: str = Field(examples=["weekly-digest-exports"])
    policy_version: str = Field(examples=["retain-30d-v2"])
    slot: str = Field(examples=[_SLOT])
    cutoff: str = Field(examples=["2026-06-01T02:00:00Z"])
    state: str = Field(examples=["parked"])
    reason: str | None = Field(examples=["1,250 objects selected, max_deletes is 1,000"])
    trigger: str = Field(examples=["http"])
    unit: str = Field(examples=["object"])
    complete: bool
    target: str = Field(examples=["http://127.0.0.1:8333 weekly-digests/exports/"])
    created_at: str = Field(examples=[_SLOT])
    counts: dict[str, int] = Field(examples=[{"planned": 1_250, "waiting": 1_250}])
    protected: dict[str, int] = Field(examples=[{"too_young": 310}])


class Runs(Shown):
    """Runs, newest slot first. ``next`` is what to give as ``after`` for more."""

    runs: list[Run]
    next: str | None = Field(examples=[None])


class Under(Shown):
    """What is under one prefix and under no longer one of the same list; the last entry may have
    null as prefix and counts all others."""

    prefix: str | None = Field(examples=["exports/2026-05/"])
    n: int = Field(examples=[420])
    bytes: int = Field(examples=[1_048_576])


class Stay(Shown):
    """What stays for one reason: the prefixes that hold most of it, or the tables whose rows refer
    to it."""

    reason: str = Field(examples=["young"])
    n: int = Field(examples=[310])
    prefixes: list[Under]
    tables: list[dict[str, Any]] = Field(examples=[[]])


class Would(Shown):
    """What a run would remove: ``n`` objects or rows. Of rows ``bytes`` is null, ``newest`` is the
    time of the oldest row in the newest batch, and ``statement`` is what the first batch
    executes, null where the database did not answer."""

    n: int = Field(examples=[1_250])
    bytes: int | None = Field(examples=[3_145_728])
    oldest: str | None = Field(examples=["2026-01-01T02:00:00Z"])
    newest: str | None = Field(examples=["2026-05-31T02:00:00Z"])
    prefixes: list[Under]
    stays: list[Stay]
    sample: list[dict[str, Any]] = Field(
        examples=[
            [
                {
                    "kind": "object",
                    "key": "exports/2026-05/customer-1842.json",
                    "size": 2_516,
                    "last_modified": "2026-05-31T02:00:00Z",
                    "why": "newest",
                }
            ]
        ]
    )
    first_batch: list[list[str | None]] = Field(examples=[[]])
    statement: str | None = Field(examples=[None])
    triggers: list[str] = Field(examples=[[]])


class ShownRun(Run):
    """A run with its rule, what came of it, and examples. ``would`` is what a run that parked was
    about to remove, null for others. A run over a table also has its ``rows``, and by table the
    ``dependents`` that were removed with them and the ``dependents_changed``."""

    owner: str | None = Field(examples=["growth-team"])
    action: str = Field(examples=["delete"])
    rule: list[str] = Field(
        examples=[
            [
                "Objects in weekly-digests/exports/ in the store exports that are older than 30d "
                "are deleted."
            ]
        ]
    )
    last_released: dict[str, Any] | None = Field(
        examples=[{"run_id": "9a1d2c9e40ab", "slot": "2026-06-30T02:00:00Z", "n": 1_180}]
    )
    would: Would | None
    outcomes: dict[str, int] = Field(examples=[{"deleted": 1_247}])
    retried: dict[str, int] = Field(examples=[{"transient": 2}])
    republished: int = Field(examples=[0])
    sample: list[str] = Field(examples=[["weekly-digests/exports/2026-05/customer-1842.json"]])


class Operation(Shown):
    """Everything known of one operation: what, when, why, who, and how it ended."""

    operation_id: str = Field(examples=[_OPERATION_ID])
    policy: str = Field(examples=["weekly-digest-exports"])
    policy_version: str = Field(examples=["retain-30d-v2"])
    run_id: str = Field(examples=[_RUN_ID])
    action: str = Field(examples=["delete"])
    bucket: str = Field(examples=["weekly-digests"])
    key: str = Field(examples=["exports/2026-05/customer-1842.json"])
    state: str = Field(examples=["completed"])
    outcome: str | None = Field(examples=["deleted"])
    completed_at: str | None = Field(examples=["2026-07-01T02:00:09Z"])
    attempts: list[dict[str, Any]] = Field(examples=[[]])


class DeadLetter(Shown):
    """An operation out of its budget, which waits for a person. Or a message that executes
    nothing: of no policy and no run, ``operation_id`` being the hash of its bytes and ``command``
    their text."""

    operation_id: str = Field(examples=[_OPERATION_ID])
    policy: str | None = Field(examples=["weekly-digest-exports"])
    policy_version: str | None = Field(examples=["retain-30d-v2"])
    owner: str | None = Field(examples=["growth-team"])
    superseded: bool
    run_id: str | None = Field(examples=[_RUN_ID])
    command: dict[str, Any] | str
    failure_class: str = Field(examples=["permission"])
    error: str = Field(examples=["403 AccessDenied"])
    attempts: int = Field(examples=[3])
    redriven: int = Field(examples=[0])
    first_failed_at: str = Field(examples=["2026-07-01T02:00:04Z"])
    last_failed_at: str = Field(examples=["2026-07-01T02:21:40Z"])


class DeadLetters(Shown):
    """Dead letters, oldest failure first. ``next`` is what to give as ``after`` for more."""

    dead_letters: list[DeadLetter]
    next: str | None = Field(examples=[None])


class ShownDeadLetter(DeadLetter):
    """A dead letter with all its attempts, and its copy if there is one. A message that executes
    nothing has its ``size`` and ``body_base64``, the first 16 KiB of it."""

    history: list[dict[str, Any]]
    archive: dict[str, Any] | None


class Redriven(Shown):
    """What a redrive did, or would do. Of the refused, ``strays`` are messages that no operation is
    behind; the others are of versions no longer current."""

    redriven: int = Field(examples=[10])
    would_redrive: int = Field(examples=[0])
    refused: int = Field(examples=[0])
    strays: int = Field(examples=[0])
    remaining: int = Field(examples=[32])
    dry_run: bool


class Discarded(Shown):
    """What was closed, or would be."""

    discarded: int = Field(examples=[1])
    would_discard: int = Field(examples=[0])


class Hold(Shown):
    """What nobody deletes for now. Without ``until`` it ends when somebody removes it."""

    hold_id: str = Field(examples=["51f0c4d2b7aa"])
    scope: dict[str, str] = Field(examples=[{"policy": "weekly-digest-exports"}])
    reason: str = Field(examples=["court case 7"])
    until: str | None = Field(examples=[None])
    by: str = Field(examples=["token:ops"])
    at: str = Field(examples=[_SLOT])


class AddedHold(Hold):
    """A hold, and the policies of this configuration that it concerns."""

    policies: list[str] = Field(examples=[["weekly-digest-exports"]])


class Holds(Shown):
    """Holds in force, oldest first."""

    holds: list[Hold]


class Pause(Shown):
    """A policy nobody works on; ``"*"`` is every policy."""

    paused: str = Field(examples=["weekly-digest-exports"])
    reason: str = Field(examples=["audit"])
    until: str | None = Field(examples=[None])
    misses: list[dict[str, Any]] = Field(
        examples=[[{"policy": "digests", "first": "2026-07-10T02:00:00Z", "slots": None}]]
    )


class Resumed(Shown):
    """Whether there was a pause, the backlog by policy, and what comes first."""

    resumed: bool
    backlog: dict[str, int] = Field(examples=[{"weekly-digest-exports": 0}])
    first: list[dict[str, Any]] = Field(
        examples=[
            [{"policy": "digests", "slot": "2026-07-10T02:00:00Z", "now": False, "paused": None}]
        ]
    )


class Status(Shown):
    """Is cleanup keeping up, and what stands in its way?"""

    policies: list[Policy]
    missed: list[dict[str, Any]] = Field(examples=[[]])
    holds: list[Hold]
    breakers: list[dict[str, Any]] = Field(examples=[[]])
    throttles: list[dict[str, Any]] = Field(examples=[[]])
    strays: int = Field(examples=[0])
    queue: dict[str, Any] = Field(examples=[{"kind": "state", "sent": 0}])
    state: dict[str, Any]


class Explanation(Shown):
    """Why one object, or one row, stays or goes."""

    policy: str = Field(examples=["weekly-digest-exports"])
    key: str = Field(examples=["exports/2026-05/customer-1842.json"])
    eligible: bool
    reasons: list[str] = Field(examples=[["it is older than 2026-06-01T02:00:00Z"]])


class Event(Shown):
    """What a person decided, or a newer run in their place."""

    event: int = Field(examples=[17])
    at: str = Field(examples=[_SLOT])
    by: str = Field(examples=["token:ops"])
    action: str = Field(examples=["approve"])
    policy: str | None = Field(examples=["weekly-digest-exports"])
    run_id: str | None = Field(examples=[_RUN_ID])
    operation_id: str | None = Field(examples=[None])
    detail: str = Field(examples=[""])


class Events(Shown):
    """What people decided, newest first. ``next`` is what to give as ``before`` for more."""

    events: list[Event]
    next: int | None = Field(examples=[None])


class PushAnswer(Shown):
    """How an operation that was pushed stands."""

    operation_id: str = Field(examples=[_OPERATION_ID])
    state: str = Field(examples=["completed"])
    outcome: str | None = Field(examples=["deleted"])
