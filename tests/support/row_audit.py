"""What has to hold of row batches at any moment, by plain SQL for either database."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

_PLANNED = """
    SELECT r.id, r.run_id, r.rows, coalesce(sum(
        CASE WHEN w.id IS NULL OR w.run_id <> o.run_id THEN b.rows ELSE 0 END), 0)
    FROM runs r
    LEFT JOIN operations o ON o.run_id = r.id
    LEFT JOIN row_batches b ON b.operation = o.id
    LEFT JOIN operations w ON w.id = b.parent
    WHERE r.pruned = 0
    GROUP BY r.id, r.run_id, r.rows
"""
_PLANNED_BESIDE = """
    SELECT o.run_id, b.planned_dependents
    FROM row_batches b
    JOIN operations o ON o.id = b.operation
    LEFT JOIN operations w ON w.id = b.parent
    WHERE b.planned_dependents IS NOT NULL AND (w.id IS NULL OR w.run_id <> o.run_id)
"""
_MOST_BESIDE = "SELECT id, run_id, most_dependents FROM runs"
_EFFECTS = """
    SELECT o.run_id, b.deleted, b.archived, b.blocked, b.dependents, b.changed
    FROM row_batches b JOIN operations o ON o.id = b.operation WHERE b.seconds IS NOT NULL
"""
_TALLIES = """
    SELECT run_id, kind, name, n FROM run_tallies WHERE n <> 0 AND kind IN (
        'rows', 'dependents', 'changed',
        'planned_removed', 'planned_changed', 'planned_younger', 'planned_ageless')
"""
_HALF_DONE = """
    SELECT o.id, o.state, o.outcome, p.about_rows, b.operation, w.outcome
    FROM operations o
    JOIN policies p ON p.id = o.policy_id
    LEFT JOIN row_batches b ON b.operation = o.id
    LEFT JOIN operations w ON w.id = b.parent
    WHERE p.about_rows <> (b.operation IS NOT NULL)
       OR (b.seconds IS NOT NULL AND o.state <> 'completed')
       OR (b.seconds IS NULL) <> (b.deleted IS NULL)
       OR (o.outcome IN ('deleted', 'archived') AND p.about_rows AND b.seconds IS NULL)
       OR (b.parent IS NOT NULL AND (w.outcome IS NULL OR w.outcome <> 'split'))
       OR (b.parent IS NOT NULL AND w.policy_id <> o.policy_id)
       OR b.policy_id <> o.policy_id
"""


def row_problems(execute: Callable[[str], Iterable[Any]]) -> list[str]:
    """Every way in which what is stored about row batches disagrees with itself."""
    unpruned, found = set(), []
    for row, run, stored, counted in execute(_PLANNED):
        unpruned.add(row)
        if stored != counted:
            found.append(f"run {run}: stored {stored} rows, its batches hold {counted}")
    effects: Counter[tuple[int, str, str]] = Counter()
    most: Counter[int] = Counter()
    for run, planned in execute(_PLANNED_BESIDE):
        beside = json.loads(planned)
        most[run] = max(most[run], sum(removed + changed for _, removed, changed, _ in beside))
        for table, removed, changed, younger in beside:
            effects[run, "planned_removed", table] += removed
            effects[run, "planned_changed", table] += changed
            effects[run, "planned_younger", table] += younger or 0
            effects[run, "planned_ageless", table] += younger is None
    for row, run, stored in execute(_MOST_BESIDE):
        if stored < most[row]:
            found.append(f"run {run}: a batch has {most[row]} dependents, the most is {stored}")
    for run, deleted, archived, blocked, dependents, by_table in execute(_EFFECTS):
        effects[run, "rows", "deleted"] += deleted
        effects[run, "rows", "archived"] += archived
        effects[run, "rows", "blocked"] += blocked
        for table, n in json.loads(dependents).items():
            effects[run, "dependents", table] += n
        for table, n in json.loads(by_table).items():
            effects[run, "changed", table] += n
    counted = {what: n for what, n in effects.items() if n and what[0] in unpruned}
    tallied = {(run, kind, name): n for run, kind, name, n in execute(_TALLIES) if run in unpruned}
    if counted != tallied:
        found.append(f"planned and done is {counted}, tallied {tallied}")
    found += [f"half done: {tuple(row)}" for row in execute(_HALF_DONE)]
    return found
