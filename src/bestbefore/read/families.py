"""The names of all measures, in Prometheus' conventions, and what each of them says."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """One name. Counters end in ``_total``, and everything is in base units."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


_POLICY, _CLASS, _OUTCOME, _UNIT = ("policy",), ("policy", "class"), ("policy", "outcome"), (
    "policy",
    "unit",
)  # fmt: skip
_CONNECTION = ("connection",)

FAMILIES = (
    Family("bestbefore_scanned_total", "counter", _UNIT,
           "Objects listed, or rows looked at, by plans."),
    Family("bestbefore_eligible_total", "counter", _UNIT,
           "Objects, or rows, that plans selected; counted when a scan ends."),
    Family("bestbefore_operations_planned_total", "counter", _UNIT,
           "Operations created: one per object, one per row batch; counted when a scan ends."),
    Family("bestbefore_operations_published_total", "counter", _POLICY,
           "Operations handed to the queue."),
    Family("bestbefore_operations_republished_total", "counter", _POLICY,
           "Operations handed to a broker once more, as their message was lost, not confirmed, or "
           "near the end of the broker's retention."),
    Family("bestbefore_operations_completed_total", "counter", _OUTCOME,
           "Operations that ended, each counted once however often it was delivered."),
    Family("bestbefore_removed_bytes_total", "counter", _POLICY,
           "Bytes of objects that left their bucket, deleted or archived."),
    Family("bestbefore_rows_total", "counter", ("policy", "fate"),
           "Rows deleted, archived, or meant and still there (blocked)."),
    Family("bestbefore_retries_total", "counter", _CLASS,
           "Failed attempts after which the operation is due again."),
    Family("bestbefore_operations_died_total", "counter", _CLASS,
           "Operations that became dead letters."),
    Family("bestbefore_dead_letters", "gauge", _CLASS,
           "Dead letters that wait for a person."),
    Family("bestbefore_dead_letter_oldest_timestamp_seconds", "gauge", _CLASS,
           "First failure of the dead letter that failed first; no sample without dead letters."),
    Family("bestbefore_stray_messages", "gauge", (),
           "Messages in a queue that execute nothing, unreadable or without an operation in the "
           "ledger, kept as dead letters of no policy."),
    Family("bestbefore_operations_redriven_total", "counter", _POLICY,
           "Dead letters that a person sent again, each counted the first time."),
    Family("bestbefore_redriven_completed_total", "counter", _OUTCOME,
           "Of the redriven operations, those that ended after all."),
    Family("bestbefore_overdue", "gauge", _UNIT,
           "Objects, or rows, past the cutoff of the newest released run and still there, as the "
           "last verification counted them."),
    Family("bestbefore_overdue_counted_timestamp_seconds", "gauge", _POLICY,
           "When bestbefore_overdue and bestbefore_oldest_eligible_timestamp_seconds were "
           "counted; old means that nobody knows."),
    Family("bestbefore_oldest_eligible_timestamp_seconds", "gauge", _POLICY,
           "Age of the oldest of bestbefore_overdue; no sample where nothing is."),
    Family("bestbefore_overdue_operations", "gauge", _POLICY,
           "Operations of slots due an hour ago or more that are not done, dead letters included; "
           "from the ledger, right now."),
    Family("bestbefore_overdue_oldest_slot_timestamp_seconds", "gauge", _POLICY,
           "The first slot that bestbefore_overdue_operations is about."),
    Family("bestbefore_backlog", "gauge", ("policy", "state"),
           "Operations not done: waiting to be published, pending, held, or parked in a run that "
           "waits for approval."),
    Family("bestbefore_parked_runs", "gauge", _POLICY,
           "Runs that wait for approval: nothing of them is deleted."),
    Family("bestbefore_last_drained_timestamp_seconds", "gauge", _POLICY,
           "When a run of the policy last had nothing left to do."),
    Family("bestbefore_missed_slots", "gauge", _POLICY,
           "Slots of the schedule that nobody answered, as `status` lists them."),
    Family("bestbefore_triggers_total", "counter", ("fate",),
           "Triggers taken from the queue of triggers, by what became of them; what cannot be "
           "answered counts each time it comes."),
    Family("bestbefore_plan_first_page_seconds", "histogram", _POLICY,
           "Planner response time: from the trigger until the first page of the plan is stored."),
    Family("bestbefore_plan_seconds", "histogram", _POLICY,
           "From the trigger until the scan ended and the run was decided on."),
    Family("bestbefore_batch_seconds", "histogram", _POLICY,
           "How long the transaction of a row batch held its locks."),
    Family("bestbefore_paused", "gauge", _POLICY,
           "1 while the policy, or everything, is paused."),
    Family("bestbefore_breaker_open", "gauge", _CONNECTION,
           "1 while the breaker of the store or database is open."),
    Family("bestbefore_throttled", "gauge", _CONNECTION,
           "1 while all work on the database waits for it to recover."),
    Family("bestbefore_state_bytes", "gauge", (),
           "Size of the state database."),
    Family("bestbefore_state_operations", "gauge", (),
           "Operations in the state database."),
    Family("bestbefore_state_prunable_operations", "gauge", (),
           "Operations older than [state] keep, which upkeep exports and takes out."),
    Family("bestbefore_upkeep_failed", "gauge", (),
           "1 while the last pass of upkeep failed."),
    Family("bestbefore_upkeep_finished_timestamp_seconds", "gauge", (),
           "When a pass of upkeep last finished."),
)  # fmt: skip
