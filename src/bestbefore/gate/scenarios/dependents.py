"""P8 for rows of other tables: they stay unless the policy allows more, the caps count them, and no
batch removes or changes more of them than was shown."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bestbefore.app.system import System
from bestbefore.domain.policy import Reach
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.scratch import ScratchReference
from bestbefore.read.documents import run_document
from bestbefore.read.operations import effect_document

_OLD, _YOUNG = 40, 10
_CASCADING = 30
"""Old rows that rows under CASCADE refer to; rows under SET NULL refer to the other old ones."""

_EACH = 3
_REMOVED, _CHANGED = _CASCADING * _EACH, _OLD - _CASCADING
_CAP = 120
"""More than the old rows, and fewer than these and what refers to them."""

_GROWN = 10
"""The old row that gets another dependent after it was shown: the last of its batch."""


@scenario(
    "dependents-beyond-cap",
    "P8",
    "Rows that others refer to stay unless both may be removed; caps then count both, and no more "
    "is removed than was shown",
    Ground.ROWS,
)
def dependents_beyond_cap(stage: Stage) -> None:
    tables = _Tables(stage)
    tables.fill()
    _stay(stage, tables)
    allowed = (tables.cascade.name, tables.set_null.name)
    system, run = _parked(stage, tables, allowed, Reach(max_deletes=_CAP), Trigger.PLAN)
    # Otherwise the next run would take its batches over, and wait for the same reason.
    system.plans.cancel(run.run_id, "bestbefore gate", system.person, stage.clock.now())
    stage.evidence.note("a person cancelled it; the next slot is planned under the other cap")
    system, run = _parked(stage, tables, allowed, Reach(first_run_limit=_CAP), Trigger.RUN)
    late = ScratchReference(tables.next_number(), _GROWN)
    tables.cascade.insert([late], stage.clock.now())
    stage.evidence.note("then came one more row under CASCADE; it refers to old row", _GROWN)
    system.plans.approve(run.run_id, system.person, stage.clock.now())
    stage.evidence.note("a person approved the run")
    stage.work(system)
    _no_more_than_shown(stage, tables)
    _on_record(stage, tables, system, run)


class _Tables:
    """The scratch table of *stage*, and two that refer to it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._table = stage.rows.table
        self.cascade = self._table.cascade
        self.set_null = self._table.set_null

    def fill(self) -> None:
        """Make the two that refer to it, and give all three rows."""
        self.cascade.create()
        self.set_null.create()
        stage, now = self._stage, self._stage.clock.now()
        stage.rows.fill(_OLD, _YOUNG)
        young = range(_OLD + 1, _OLD + _YOUNG + 1)
        cascading = [n for n in range(1, _CASCADING + 1) for _ in range(_EACH)]
        self.cascade.insert(_referring([*cascading, *young]), now)
        self.set_null.insert(_referring([*range(_CASCADING + 1, _OLD + 1), *young]), now)
        note = stage.evidence.note
        note("young rows under CASCADE that refer to old rows, three to each", _REMOVED)
        note("young rows under SET NULL that refer to the other old rows, one to each", _CHANGED)

    def contents(self) -> object:
        """Every row of the three."""
        return self._table.rows(), self.cascade.rows(), self.set_null.rows()

    def next_number(self) -> int:
        """A number that no row under CASCADE has."""
        return self.cascade.rows()[-1].id + 1


def _referring(to: list[int]) -> list[ScratchReference]:
    return [ScratchReference(number, one) for number, one in enumerate(to, 1)]


def _stay(stage: Stage, tables: _Tables) -> None:
    """Without `dependents` nothing of the three tables is removed or changed."""
    before = tables.contents()
    policy = stage.policy()
    system = stage.open()
    run = stage.plan(system, policy, _slot(stage))
    expect = stage.evidence.expect
    expect("batches planned without `dependents`", run.planned, 0)
    stay = {tables.cascade.name: _CASCADING, tables.set_null.name: _OLD - _CASCADING}
    expect("rows that stay, by the table that refers to them", _named(run.referenced), stay)
    stage.work(system)
    expect("every row of the three tables is as it was", tables.contents() == before, True)


def _parked(
    stage: Stage, tables: _Tables, allowed: tuple[str, ...], reach: Reach, trigger: Trigger
) -> tuple[System, Run]:
    """Plan under *reach*, which is too short for what refers to the rows, and have a worker
    come."""
    expect = stage.evidence.expect
    before = tables.contents()
    policy = stage.policy("v2", reach=reach, dependents=allowed)
    system = stage.open()
    slot = _slot(stage) + timedelta(seconds=trigger is Trigger.RUN)
    run = system.planner(policy).plan(policy, slot, trigger).run
    expect("state of the run with `dependents`", run.state.value, RunState.PARKED.value)
    both = f"{_OLD:,} rows", f"{_REMOVED + _CHANGED:,} rows"
    stage.evidence.claim(
        "why it waits", run.reason,
        holds=all(number in (run.reason or "") for number in both),
        expected=f"both numbers, {both[0]} and {both[1]} of other tables",
    )  # fmt: skip
    for what, found, wanted in (
        ("removed", {one.table: one.removed for one in run.dependents}, _REMOVED),
        ("changed", {one.table: one.changed for one in run.dependents}, _CHANGED),
    ):
        table = tables.cascade if what == "removed" else tables.set_null
        expect(f"rows shown that would be {what}, by table", _named(found), {table.name: wanted})
    expect("batches that a worker received", stage.work(system).received, 0)
    expect("every row of the three tables is as it was", tables.contents() == before, True)
    stage.reconciles(system, run)
    return system, run


def _no_more_than_shown(stage: Stage, tables: _Tables) -> None:
    expect = stage.evidence.expect
    young = list(range(_OLD + 1, _OLD + _YOUNG + 1))
    left = [_GROWN, *young]
    expect(f"rows left: old row {_GROWN} and the young ones", stage.rows.ids(), left)
    for table, kept in (
        (tables.cascade, {_GROWN: _EACH + 1}),
        (tables.set_null, {"none": _CHANGED}),
    ):
        referred = Counter(row.refers_to or "none" for row in table.rows())
        wanted = dict.fromkeys(young, 1) | kept
        expect(f"rows of {table.name}, by the row they refer to", dict(referred), wanted)


def _on_record(stage: Stage, tables: _Tables, system: System, run: Run) -> None:
    """The ledger has, for the run and for its batches, what was removed and what was changed."""
    expect = stage.evidence.expect
    removed = {tables.cascade.name: _REMOVED - _EACH}
    changed = {tables.set_null.name: _CHANGED}
    told = run_document(system.records.run(run.run_id), system.records.tallies)
    expect("rows deleted, as the run has it on record", told["rows"], {"deleted": _OLD - 1})
    expect("rows of other tables removed, by table", _named(told["dependents"]), removed)
    expect("rows of other tables changed, by table", _named(told["dependents_changed"]), changed)
    each = _Effects.of(stage, system, run)
    expect("the same, added up over its batches", (each.removed, each.changed), (removed, changed))
    outcomes = stage.outcomes(system, run)
    more = f"batches of old row {_GROWN} alone, left as they have more dependents than was shown"
    expect(more, outcomes.get("changed"), 1)
    stage.reconciles(system, run)


@dataclass(frozen=True, slots=True)
class _Effects:
    """Rows of other tables by table, as the batches of a run have them on record."""

    removed: Mapping[str, int]
    changed: Mapping[str, int]

    @classmethod
    def of(cls, stage: Stage, system: System, run: Run) -> "_Effects":
        removed: Counter[str] = Counter()
        changed: Counter[str] = Counter()
        for operation in stage.operations(system, run):
            if operation.effect is not None:
                document = effect_document(operation.effect)
                removed.update(_named(document["dependents"]))
                changed.update(_named(document["changed"]))
        return cls(dict(removed), dict(changed))


def _named(by_table: Mapping[str, int]) -> dict[str, int]:
    """*by_table* without the schema of each table, and without tables that have none."""
    return {table.rpartition(".")[2]: n for table, n in by_table.items() if n}


def _slot(stage: Stage) -> datetime:
    return stage.clock.now().replace(microsecond=0)
