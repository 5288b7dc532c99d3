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
_EFFECTS = """
    SELECT o.run_id, b.deleted, b.archived, b.blocked, b.dependents
    FROM row_batches b JOIN operations o ON o.id = b.operation WHERE b.seconds IS NOT NULL
"""
_TALLIES = """
    SELECT run_id, kind, name, n FROM run_tallies WHERE kind IN ('rows', 'dependents') AND n <> 0
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
    for run, deleted, archived, blocked, dependents in execute(_EFFECTS):
        effects[run, "rows", "deleted"] += deleted
        effects[run, "rows", "archived"] += archived
        effects[run, "rows", "blocked"] += blocked
        for table, n in json.loads(dependents).items():
            effects[run, "dependents", table] += n
    counted = {what: n for what, n in effects.items() if n and what[0] in unpruned}
    tallied = {(run, kind, name): n for run, kind, name, n in execute(_TALLIES) if run in unpruned}
    if counted != tallied:
        found.append(f"effects are {counted}, tallied {tallied}")
    found += [f"half done: {tuple(row)}" for row in execute(_HALF_DONE)]
    return found
