"""Why a row stays or goes: a look at its table."""

import json
from collections.abc import Iterator

from bestbefore.app.system import System
from bestbefore.domain.identity import instant
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import Walk, label_of
from bestbefore.ports.records import OperationFilter
from bestbefore.ports.rows import RowReader, RowSeen, TableFacts
from bestbefore.read.history import history_line
from bestbefore.stages.row_scan import RowSurvey


def explained(system: System, policy: Policy, key: str) -> tuple[bool, list[str]]:
    """Whether the row with *key* goes under *policy*, were it planned now, and why.

    *key* is the text of its only column, or a JSON array of the texts of all of them. Raises
    PlanRefused and StoreError.
    """
    policy = system.governed(policy, system.clock.now())
    reader = system.tables(policy.connection).reader
    facts = RowSurvey(reader).facts(policy)
    cutoff = policy.older_than.before(system.clock.now().replace(microsecond=0))
    seen = reader.find(policy.rows, facts, cutoff, key)
    if seen is None:
        return False, [
            f"there is no such row in {policy.rows.table}; if it was deleted, `bestbefore export "
            f"--policy {policy.name}` tells by which batch",
            *(
                f"it may be in {json.loads(one.first)[1]}, which was taken out of the table to be "
                "removed, and is still there"
                for one in reader.marked(policy.rows, facts, cutoff)
            ),
        ]
    reasons = [_dated(policy, seen, instant(cutoff))]
    kept = []
    if not seen.wanted:
        kept.append(f"where does not hold for it: {policy.rows.where}")
    if seen.referenced is not None:
        kept.append(f"a row of {seen.referenced} refers to it and stays")
    if (hold := system.held(policy).over("")) is not None:
        kept.append(f"it is under hold {hold}")
    reasons += [f"but {why}" for why in kept] if seen.old else kept
    reasons += _beside(seen)
    if seen.partition is not None and not kept:
        name = json.loads(seen.partition)[1]
        reasons.append(f"it lies in the partition {name}, which is removed as a whole")
    reasons += _planned(system, policy, reader, facts, key, seen.partition)
    return seen.old and not kept, reasons


def _beside(seen: RowSeen) -> Iterator[str]:
    """What would be removed and changed with the row."""
    for table in seen.dependents:
        if table.removed:
            yield f"{table.removed:,} rows of {table.table} would be removed with it"
        if table.changed:
            yield f"{table.changed:,} rows of {table.table} would lose their reference to it"


def _planned(
    system: System,
    policy: Policy,
    reader: RowReader,
    facts: TableFacts,
    key: str,
    partition: str | None,
) -> Iterator[str]:
    """What the ledger holds of the batch that the row is in, while that is not done."""
    taken = list(system.plans.taken(policy))
    if any(one.first == partition for one in taken if one.walk is Walk.PARTITION):
        yield from _histories(system, policy, label_of(str(partition), str(partition)))
        return
    taken = [one for one in taken if one.walk is facts.walk]
    place = reader.batch_of(policy.rows, facts, key, [(one.first, one.last) for one in taken])
    if place is None:
        return
    yield from _histories(system, policy, label_of(taken[place].first, taken[place].last))


def _histories(system: System, policy: Policy, label: str) -> Iterator[str]:
    for operation in system.records.operations(OperationFilter(policy.name, key=label)):
        yield f"it is in the batch {label}: {history_line(operation)}"


def _dated(policy: Policy, seen: RowSeen, cutoff: str) -> str:
    column = f"{policy.rows.timestamp} is {seen.timestamp}"
    if seen.undated:
        return f"{column}, which is no date: rows without one are kept"
    if seen.future:
        return f"{column}, which lies in the future"
    return f"{column}, {'before' if seen.old else 'not before'} the cutoff {cutoff}"
