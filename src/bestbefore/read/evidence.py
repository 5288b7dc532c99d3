"""All the evidence there is, of one kind, as documents and as columns."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from bestbefore.ports.evidence import EvidenceColumn, Kind
from bestbefore.ports.records import OperationFilter, Records
from bestbefore.read.documents import Document, event_document, run_evidence_document
from bestbefore.read.operations import evidence_document


class About(StrEnum):
    """What evidence is about."""

    OPERATIONS = "operations"
    RUNS = "runs"
    EVENTS = "events"


def evidence(
    about: About, records: Records, policy: str | None, run_id: str | None
) -> Iterator[Document]:
    """Documents in the order they were written down, read in bounded memory."""
    if about is About.EVENTS:
        yield from map(event_document, records.decisions(policy, run_id))
    elif about is About.RUNS:
        for run in reversed(records.runs(policy)):
            if run_id in (None, run.run_id):
                yield run_evidence_document(run, records.tallies, records.rule(run))
    else:
        for operation in records.operations(OperationFilter(policy, run_id)):
            attempts = records.attempts(operation.row) if operation.failure_class else []
            yield evidence_document(operation, attempts)


def columns(about: About) -> Sequence[EvidenceColumn]:
    """The fields of every document about *about*."""
    return [
        EvidenceColumn(name, kind)
        for kind, names in _COLUMNS[about].items()
        for name in names.split()
    ]


_COLUMNS = {
    About.OPERATIONS: {
        Kind.TEXT: "operation_id policy policy_version owner run_id action bucket key version_id "
        "etag upload_id state outcome completed_by parent failure_class error corrects reason",
        Kind.INSTANT: "slot cutoff last_modified seen_at held_until completed_at",
        Kind.NUMBER: "size freed_bytes redriven reappearances",
        Kind.FLAG: "held",
        Kind.JSON: "batch effect archive attempts",
    },
    About.RUNS: {
        Kind.TEXT: "run_id policy policy_version state reason trigger unit target created_by table",
        Kind.INSTANT: "slot cutoff created_at",
        Kind.NUMBER: "republished archived_bytes freed_bytes",
        Kind.FLAG: "complete",
        Kind.JSON: "rule counts protected uploads outcomes retried rows dependents "
        "dependents_changed planned_dependents referenced",
    },
    About.EVENTS: {
        Kind.TEXT: "by action policy run_id operation_id detail",
        Kind.INSTANT: "at",
        Kind.NUMBER: "event",
        Kind.FLAG: "",
        Kind.JSON: "",
    },
}
