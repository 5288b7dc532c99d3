"""What has to hold of a `row_schemas.Case` after each step: what the plan counted is what would be
removed and changed, and what an effect says is what was, and was counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bestbefore.domain.failure import Failure
from bestbefore.domain.rows import Divided, Effect, RowBatch, Walk
from support.row_schema_model import Model, Rows
from support.row_schema_tables import Content, SchemaTables

OWN = 0
"""The table of the policy that is tried."""

Deliverable = Effect | Divided | Failure


class Broken(AssertionError):
    """What had to hold and does not."""


@dataclass
class Planned:
    """A batch of a plan, and what has become of it and of its parts: rows by table."""

    batch: RowBatch
    removed: dict[int, int] = field(default_factory=dict)
    changed: dict[int, int] = field(default_factory=dict)


class Checks:
    """All raise Broken."""

    def __init__(self, tables: SchemaTables) -> None:
        self.case = tables.case
        self.tables = tables

    # -- of a plan

    def selection(self, model: Model, batches: Sequence[RowBatch], kept: int) -> None:
        """A plan selects all that is old and that nothing keeps, and tells how much is kept."""
        planned = [self.inside(batch, model.content) & model.selected for batch in batches]
        if [len(tags) for tags in planned] != [batch.rows for batch in batches]:
            raise Broken(f"batches of {[batch.rows for batch in batches]} rows hold {planned}")
        if left := model.selected.difference(*planned):
            raise Broken(f"rows {sorted(left)} are not planned, and nothing keeps them")
        if (old := len(model.old - model.selected)) != kept:
            raise Broken(f"{old} old rows are referred to, and the plan says {kept}")

    def count(self, model: Model, batch: RowBatch) -> None:
        """A plan counts at least what is removed and changed with a batch, and just that where only
        one key leads to it."""
        roots = self.inside(batch, model.content) & model.selected
        effect = model.effect(roots)
        counted = self.by_number({one.table: one for one in batch.dependents})
        for number in model.content:
            removed, changed = effect.removed[number], effect.changed[number]
            if number == OWN:
                removed, changed = removed - roots, changed - model.selected
            said = counted.get(number, [])
            have = (sum(one.removed for one in said), sum(one.changed for one in said))
            real = (len(removed), len(changed))
            exact = len(model.ways[number]) < 2
            if have[0] < real[0] or have[1] < real[1] or (exact and have != real):
                raise Broken(
                    f"{self.tables.names[number]}: {real} rows would be removed and changed with "
                    f"rows {sorted(roots)}, and the plan counts {have}"
                )
            young = sum(model.is_young(number, tag) for tag in removed | changed)
            if exact and any(one.younger not in (young, None) for one in said):
                raise Broken(f"{self.tables.names[number]}: {young} of them are young, not {said}")
            if self.case.tables[number].dated and any(one.younger is None for one in said):
                raise Broken(f"{self.tables.names[number]}: its rows have an age, and {said}")

    def by_number(self, by_name: Mapping[str, Any]) -> dict[int, list[Any]]:
        """What is told by the names of tables; a table and its partitions are one."""
        found: dict[int, list[Any]] = {}
        for name, value in by_name.items():
            found.setdefault(self.tables.number(name), []).append(value)
        return found

    def inside(self, batch: RowBatch, content: Content) -> set[int]:
        """Tags of the rows that lie between the ends of *batch*."""
        along = self.case.named(OWN)
        if batch.walk is Walk.TIMESTAMP:
            along = ("at", *(name for name in along if name != "at"))
        texts = [self.case.is_text(OWN, name) for name in along]

        def place(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(
                str(value).lower() if text else int(value)
                for text, value in zip(texts, values, strict=True)
            )

        first, last = place(json.loads(batch.first)), place(json.loads(batch.last))
        return {
            tag
            for tag, row in content[OWN].items()
            if row["at"] is not None and first <= place([row[name] for name in along]) <= last
        }

    # -- of a delivery

    def effect(
        self,
        before: Content,
        planned: Planned,
        batch: RowBatch,
        end: Deliverable,
        *,
        beside: bool = False,
    ) -> None:
        """What is gone and changed since *before* may be, is what *end* says, and was counted.

        With another session *beside* it a row may have lost its reference before it is emptied.
        """
        after = self.tables.content()
        removed, changed = difference(before, after)
        if not isinstance(end, Effect) or end.replayed:
            if any(removed.values()) or any(changed.values()):
                raise Broken(f"{end}, and yet {removed} are gone and {changed} changed")
            return
        model = Model(self.case, before)
        self._allowed(model, batch, removed, changed)
        self._emptied(before, after, changed)
        if sizes(removed) != self.removed(end):
            raise Broken(f"{removed} are gone, and {end}")
        emptied = self.by_number(end.changed)
        for number, tags in changed.items():
            least = len(tags - model.selected) if number == OWN else len(tags)
            most = len(tags) + (len(removed[number]) if len(model.ways[number]) > 1 else 0)
            if not least <= sum(emptied.get(number, [])) <= most and not beside:
                raise Broken(f"{changed} are changed, and {end}")
            planned.changed[number] = planned.changed.get(number, 0) + least
        self.counted(planned, end)

    def removed(self, end: Effect) -> Mapping[int, int]:
        """How many rows it says are gone, by table."""
        said = Counter({number: sum(n) for number, n in self.by_number(end.dependents).items()})
        return +(said + Counter({OWN: end.rows}))

    def _allowed(self, model: Model, batch: RowBatch, removed: Rows, changed: Rows) -> None:
        if kept := removed[OWN] - model.selected:
            raise Broken(f"rows {sorted(kept)} are gone, and the policy keeps them")
        roots = removed[OWN] & self.inside(batch, model.content)
        effect = model.effect(roots)
        if effect.removed != removed:
            raise Broken(f"{removed} are gone, and to rows {roots} refer {effect.removed}")
        if effect.changed != changed:
            raise Broken(f"{changed} are changed, and to rows {roots} refer {effect.changed}")

    def _emptied(self, before: Content, after: Content, changed: Rows) -> None:
        for number, tags in changed.items():
            keys = [key for key in self.case.keys if key.child == number and key.changes]
            may = {column for key in keys for column in key.columns}
            for tag in tags:
                had, has = before[number][tag], after[number][tag]
                if not may.issuperset(column for column in had if had[column] != has[column]):
                    raise Broken(f"{had} has become {has}")

    def counted(self, planned: Planned, end: Effect) -> None:
        """What is gone with *end*, a part of *planned*, and all of it together, was counted."""
        for number, n in self.removed(end).items():
            planned.removed[number] = planned.removed.get(number, 0) + n
        counted = self.by_number({one.table: one for one in planned.batch.dependents})
        for number, name in enumerate(self.tables.names):
            said = counted.get(number, [])
            most = sum(one.removed for one in said) + (planned.batch.rows if number == OWN else 0)
            if planned.removed.get(number, 0) > most:
                raise Broken(f"{name}: {planned.removed[number]} rows are gone of {most} planned")
            most = sum(one.changed for one in said)
            if planned.changed.get(number, 0) > most:
                raise Broken(f"{name}: {planned.changed[number]} rows changed of {most} planned")


def sizes(rows: Rows) -> Mapping[int, int]:
    """How many there are, by table."""
    return {table: len(tags) for table, tags in rows.items() if tags}


def difference(before: Content, after: Content) -> tuple[Rows, Rows]:
    """Rows that are gone, and rows that are not what they were; raises where some have come."""
    removed, changed = {}, {}
    for number, had in before.items():
        have = after[number]
        if came := have.keys() - had.keys():
            raise Broken(f"rows {came} have come to table {number}")
        removed[number] = had.keys() - have.keys()
        changed[number] = {tag for tag, row in have.items() if row != had[tag]}
    return removed, changed
