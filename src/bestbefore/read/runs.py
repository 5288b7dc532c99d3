"""One run with everything that a person needs to decide about it."""

from bestbefore.domain.preview import Preview
from bestbefore.domain.run import Run
from bestbefore.ports.records import OperationFilter, Records
from bestbefore.read.documents import Document, run_document, when
from bestbefore.read.previews import would_document
from bestbefore.read.rules import rule_sentences

_SAMPLE = 10


def shown_run_document(records: Records, run: Run, preview: Preview | None) -> Document:
    """*run* with its rule in sentences, its owner, what came of it, and examples.

    ``would`` is what *preview* says, None where there is none: only runs that parked have one.
    ``last_released`` is the newest released run of the policy, None where that is this one or none.
    """
    owner, container = records.place(run)
    rule = records.rule(run)
    document = run_document(run, records.tallies)
    return document | {
        "owner": owner,
        "action": rule["action"],
        "rule": rule_sentences(rule),
        "last_released": _last_released(records, run),
        "would": None if preview is None else would_document(preview),
        "sample": _sample(records, run, container, preview),
    }


def _sample(records: Records, run: Run, container: str, preview: Preview | None) -> list[str]:
    between = " " if run.about_rows else "/"
    if preview is not None:
        keys = [example.target.key for example in preview.sample]
    else:
        found = records.operations(OperationFilter(run_id=run.run_id), _SAMPLE)
        keys = [operation.key for operation in found]
    return [f"{container}{between}{key}" for key in keys]


def _last_released(records: Records, run: Run) -> Document | None:
    last = records.newest_released(run.policy)
    if last is None or last.row == run.row:
        return None
    planned = last.rows if last.about_rows else last.planned
    return {"run_id": last.run_id, "slot": when(last.slot), "n": planned}
