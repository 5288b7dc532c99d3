"""What is done to one `row_schemas.Case`: plans and their work, other sessions beside them, and
crashes. After each step the tables are compared with what the plan counted and with what may be
removed."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters import rows
from bestbefore.contracts.row_world import CUTOFF, ME, table
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, Governed, Partitions, RowBatch, RowSource, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask, Slice, TableRefused
from support.forks import Forks, until
from support.row_crashes import pack
from support.row_databases import RowDatabase
from support.row_schema_model import Model, Rows, refusals
from support.row_schema_tables import ERRORS, Content, SchemaTables
from support.row_schemas import LEFT_OUT, Case, Change, Delivery, Kill, Policy

OWN = 0
"""The table of the policy that is tried."""

PLANS = 20
"""After so many plans without anything beside them nothing may be left to plan."""

Deliverable = Effect | Divided | Failure


class Broken(AssertionError):
    """What had to hold and does not."""


class _Crash(BaseException):
    """Ends a transaction as a lost process does, for the database."""


@dataclass
class Planned:
    """A batch of a plan, and what has become of it and of its parts: rows by table."""

    batch: RowBatch
    removed: dict[int, int] = field(default_factory=dict)
    changed: dict[int, int] = field(default_factory=dict)


class Product:
    """The product on a database, with *forks* for workers that are killed in *folder*."""

    def __init__(self, database: RowDatabase, forks: Forks, folder: Path) -> None:
        self.database = database
        self.forks = forks
        self.folder = folder
        self.reader, self.deleter = rows.connect(database.url)

    def close(self) -> None:
        """Close its connections."""
        self.reader.close()


class History:
    """Of the product, it is *at* work on the tables."""

    def __init__(self, at: "Product", tables: SchemaTables) -> None:
        self.case: Case = tables.case
        self.tables = tables
        self._at = at
        self._source = self._made_source()
        self._operations = 0
        self._quiet = False
        self._replayed: set[bytes] = set()

    def _made_source(self) -> RowSource:
        others = [
            Governed(self.tables.names[one.table])
            if one.idle
            else Governed(self.tables.names[one.table], self._of(one), CUTOFF)
            for one in self.case.others
        ]
        return self._of(self.case.policy, *others)

    def _of(self, policy: Policy, *governed: Governed) -> RowSource:
        names = self.tables.names
        dependents = None
        if policy.dependents is not None:
            dependents = tuple(names[one] for one in policy.dependents)
        return table(
            names[policy.table],
            timestamp="at" if self.case.tables[policy.table].dated else "born",
            dependents=dependents,
            governed=governed,
            partitions=Partitions.ROWS,
        )

    # -- the whole of it

    def run(self) -> None:
        """Raises Broken."""
        self.tables.make()
        if self._refused():
            return
        tasks = self._plan()
        self._do(self.case.meanwhile)
        if self.case.kill is not None:
            self._work_and_be_killed(tasks, self.case.kill)
        self._work(tasks, self.case.deliveries)
        self._do(self.case.later)
        self._quiet = True
        for _ in range(PLANS):
            if not (tasks := self._plan()):
                break
            self._work(tasks)
        if left := Model(self.case, self.tables.content()).selected:
            raise Broken(f"rows {sorted(left)} are never removed, and nothing keeps them")

    def _do(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.tables.change(change)

    def _refused(self) -> bool:
        """Whether the table is refused, as it should be."""
        expected, before = refusals(self.case), self.tables.content()
        try:
            self._at.reader.describe(self._source)
        except TableRefused as refusal:
            if not any(words in str(refusal) for words in expected):
                raise Broken(f"refused: {refusal}") from refusal
            if self.tables.content() != before:
                raise Broken("a refused table was changed") from refusal
            return True
        if expected:
            raise Broken(f"not refused, and it has: {', '.join(sorted(expected))}")
        return False

    # -- plan

    def _plan(self) -> list[tuple[Planned, RowTask]]:
        before = self.tables.content()
        model = Model(self.case, before)
        facts = self._at.reader.describe(self._source)
        found: list[Slice] = []
        for gap in self._at.reader.gaps(self._source, facts, []):
            rest: KeyRange | None = gap
            while rest is not None:
                found.append(
                    self._at.reader.slice(self._source, facts, CUTOFF, rest, self.case.size, 5)
                )
                rest = found[-1].rest
        if self.tables.content() != before:
            raise Broken("a plan changed something")
        batches = [batch for one in found for batch in one.batches]
        self._check_selection(model, batches, sum(sum(one.referenced.values()) for one in found))
        for batch in batches:
            self._check_count(model, batch)
        return [(Planned(batch), self._task(batch)) for batch in batches]

    def _check_selection(self, model: Model, batches: Sequence[RowBatch], kept: int) -> None:
        planned = [self._inside(batch, model.content) & model.selected for batch in batches]
        if [len(tags) for tags in planned] != [batch.rows for batch in batches]:
            raise Broken(f"batches of {[batch.rows for batch in batches]} rows hold {planned}")
        if left := model.selected.difference(*planned):
            raise Broken(f"rows {sorted(left)} are not planned, and nothing keeps them")
        if (old := len(model.old - model.selected)) != kept:
            raise Broken(f"{old} old rows are referred to, and the plan says {kept}")

    def _check_count(self, model: Model, batch: RowBatch) -> None:
        """A plan counts at least what is removed and changed with a batch, and just that where only
        one key leads to it."""
        roots = self._inside(batch, model.content) & model.selected
        effect = model.effect(roots)
        counted = self._by_number({one.table: one for one in batch.dependents})
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

    def _by_number(self, by_name: Mapping[str, Any]) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for name, value in by_name.items():
            found.setdefault(self.tables.number(name), []).append(value)
        return found

    def _task(self, batch: RowBatch) -> RowTask:
        self._operations += 1
        id_ = sha256(f"{self.tables.names[OWN]} {self._operations}".encode()).digest()
        return RowTask(id_, "stale", "v1", batch, CUTOFF)

    def _inside(self, batch: RowBatch, content: Content) -> set[int]:
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

    # -- work

    def _work(
        self, tasks: Sequence[tuple[Planned, RowTask]], deliveries: Sequence[Delivery] = ()
    ) -> None:
        waiting, how = list(tasks), list(deliveries)
        while waiting:
            planned, task = waiting.pop(0)
            end = self._deliver(planned, task, how.pop(0) if how else Delivery())
            if isinstance(end, Divided):
                waiting += [(planned, self._task(part)) for part in end.parts]

    def _deliver(self, planned: Planned, task: RowTask, delivery: Delivery) -> Deliverable:
        how = delivery.how
        if how in ("beside", "held") and not self._may_be_beside(delivery.change):
            how = "plain"
        match how:
            case "undone":
                return self._undone(planned, task, delivery.number)
            case "beside" if delivery.change is not None:
                return self._beside(planned, task, delivery.number, delivery.change)
            case "held" if delivery.change is not None:
                return self._held(planned, task, delivery.change)
        end = self._plainly(planned, task)
        if how == "twice":
            self._again(task, end)
        return end

    def _may_be_beside(self, change: Change | None) -> bool:
        if self.case.kind == "mysql" and change is not None and change.via is not None:
            key = self.case.key(change.via)
            known = "locks of other keys" not in LEFT_OUT
            return known or key.referred == self.case.named(key.parent)
        return self.case.kind != "sqlite"  # where no two sessions write at a time

    def _plainly(self, planned: Planned, task: RowTask) -> Deliverable:
        before = self.tables.content()
        end = self._delete(task)
        self._check(before, planned, task, end)
        if isinstance(end, Failure) and end.failure_class is not FailureClass.TRANSIENT:
            raise Broken(f"failed: {end}")
        if self._quiet and (isinstance(end, Failure) or end == Effect(Outcome.CHANGED, 0)):
            raise Broken(f"nothing was beside it, and {end}")
        return end

    def _delete(self, task: RowTask) -> Deliverable:
        return self._at.deleter.delete(self._source, task, ME)

    def _again(self, task: RowTask, end: Deliverable) -> None:
        """What has ended as an effect is delivered again."""
        if not isinstance(end, Effect) or end.outcome in (Outcome.CHANGED, Outcome.PROTECTED):
            return
        before, again = self.tables.content(), self._delete(task)
        if self.tables.content() != before:
            raise Broken("a second delivery changed something")
        if not isinstance(again, Effect) or not again.replayed or _said(again) != _said(end):
            raise Broken(f"first {end}, and then {again}")

    def _undone(self, planned: Planned, task: RowTask, number: int) -> Deliverable:
        """A transaction that is lost right before one of its statements, and a delivery after it.
        One with fewer statements is none of them."""

        def crash() -> None:
            raise _Crash

        before = self.tables.content()
        with self._at_statement(number, crash):
            try:
                end = self._delete(task)
            except _Crash:
                if self.tables.content() != before:
                    raise Broken("a transaction that was lost changed something") from None
            else:
                self._check(before, planned, task, end)
                return end
        return self._plainly(planned, task)

    def _beside(self, planned: Planned, task: RowTask, number: int, change: Change) -> Deliverable:
        """Another session commits *change* in the middle of the transaction."""
        before = [self.tables.content()]

        def meanwhile() -> None:
            if self.tables.change(change):
                before[0] = self.tables.content()

        with self._at_statement(number, meanwhile):
            end = self._delete(task)
        self._check(before[0], planned, task, end, beside=True)
        return end

    def _held(self, planned: Planned, task: RowTask, change: Change) -> Deliverable:
        """The transaction comes upon one with *change* in it, which is committed then."""
        before = self.tables.content()
        with self.tables.holding(change) as other, ThreadPoolExecutor(1) as pool:
            delivery = pool.submit(self._delete, task)
            until(lambda: delivery.done() or (other and self._at.database.waiting()))
            if other is not None and not delivery.done():
                before = self.tables.content(other)
                try:
                    other.commit()
                except ERRORS:
                    before = self.tables.content()
            end = delivery.result(30)
            self._check(before, planned, task, end, beside=True)
        return end

    @contextmanager
    def _at_statement(self, number: int, act: Callable[[], None]) -> Iterator[None]:
        """*act* right before the *number*-th statement of what is written meanwhile."""
        statements = 0

        def count(*_: Any) -> None:
            nonlocal statements
            statements += 1
            if statements == number:
                act()

        engine = self._at.deleter._database._writer
        sa.event.listen(engine, "before_cursor_execute", count)
        try:
            yield
        finally:
            sa.event.remove(engine, "before_cursor_execute", count)

    # -- what has to hold

    def _check(
        self,
        before: Content,
        planned: Planned,
        task: RowTask,
        end: Deliverable,
        *,
        beside: bool = False,
    ) -> None:
        """What is gone and changed since *before* may be, is what *end* says, and was counted.

        With another session *beside* it a row may have lost its reference before it is emptied.
        """
        after = self.tables.content()
        removed, changed = _difference(before, after)
        if not isinstance(end, Effect):
            if any(removed.values()) or any(changed.values()):
                raise Broken(f"{end}, and yet {removed} are gone and {changed} changed")
            return
        if end.replayed:
            if task.operation_id not in self._replayed or any(removed.values()):
                raise Broken(f"delivered for the first time, and {end}")
            return
        model = Model(self.case, before)
        self._check_allowed(model, task.batch, removed, changed)
        said = {number: sum(values) for number, values in self._by_number(end.dependents).items()}
        said[OWN] = said.get(OWN, 0) + end.rows
        if {n: len(tags) for n, tags in removed.items() if tags} != {
            n: k for n, k in said.items() if k
        }:
            raise Broken(f"{removed} are gone, and {end}")
        emptied = self._by_number(end.changed)
        for number, tags in changed.items():
            least = len(tags - model.selected) if number == OWN else len(tags)
            most = len(tags) + (len(removed[number]) if len(model.ways[number]) > 1 else 0)
            if not least <= sum(emptied.get(number, [])) <= most and not beside:
                raise Broken(f"{changed} are changed, and {end}")
            planned.changed[number] = planned.changed.get(number, 0) + least
            planned.removed[number] = planned.removed.get(number, 0) + len(removed[number])
        self._check_counted(planned)

    def _check_allowed(self, model: Model, batch: RowBatch, removed: Rows, changed: Rows) -> None:
        if kept := removed[OWN] - model.selected:
            raise Broken(f"rows {sorted(kept)} are gone, and the policy keeps them")
        roots = removed[OWN] & self._inside(batch, model.content)
        effect = model.effect(roots)
        if effect.removed != removed:
            raise Broken(f"{removed} are gone, and to rows {roots} refer {effect.removed}")
        if effect.changed != changed:
            raise Broken(f"{changed} are changed, and to rows {roots} refer {effect.changed}")

    def _check_counted(self, planned: Planned) -> None:
        counted = self._by_number({one.table: one for one in planned.batch.dependents})
        for number, name in enumerate(self.tables.names):
            said = counted.get(number, [])
            most = sum(one.removed for one in said) + (planned.batch.rows if number == OWN else 0)
            if planned.removed.get(number, 0) > most:
                raise Broken(f"{name}: {planned.removed[number]} rows are gone of {most} planned")
            most = sum(one.changed for one in said)
            if planned.changed.get(number, 0) > most:
                raise Broken(f"{name}: {planned.changed[number]} rows changed of {most} planned")

    # -- real crashes

    def _work_and_be_killed(self, tasks: Sequence[tuple[Planned, RowTask]], kill: Kill) -> None:
        """A process works on *tasks* and is killed. What it did is what the records say."""
        before = self.tables.content()
        file = pack(self._at.folder, self._source, [task for _, task in tasks])
        arguments = [self._at.database.url, file, kill.how, str(kill.number)]
        child = self._at.forks.start("support.row_crashes:try_work", arguments, cwd=self._at.folder)
        status = child.wait()
        if status not in (0, -9):
            raise Broken(f"a worker ended as {status}: {child.said()}")
        removed, _ = _difference(before, self.tables.content())
        model = Model(self.case, before)
        counts: dict[int, int] = {}
        for planned, task in tasks:
            left = self.tables.content()
            end = self._delete(task)
            if isinstance(end, Effect) and end.replayed:
                self._replayed.add(task.operation_id)
                for number, n in self._by_number(end.dependents).items():
                    counts[number] = counts.get(number, 0) + sum(n)
                counts[OWN] = counts.get(OWN, 0) + end.rows
            else:
                self._check(left, planned, task, end)
                if isinstance(end, Effect):
                    self._replayed.add(task.operation_id)
        if removed[OWN] - model.selected:
            raise Broken(f"{removed} are gone, and the policy keeps some of them")
        if model.effect(removed[OWN]).removed != removed:
            raise Broken(f"{removed} are gone, and nothing that is gone was referred to")
        if {n: len(tags) for n, tags in removed.items() if tags} != {
            n: k for n, k in counts.items() if k
        }:
            raise Broken(f"{removed} are gone, and the records say {counts}")


def _difference(before: Content, after: Content) -> tuple[Rows, Rows]:
    """Rows that are gone, and rows that are not what they were; raises where some have come."""
    removed, changed = {}, {}
    for number, had in before.items():
        have = after[number]
        if came := have.keys() - had.keys():
            raise Broken(f"rows {came} have come to table {number}")
        removed[number] = had.keys() - have.keys()
        changed[number] = {tag for tag, row in have.items() if row != had[tag]}
    return removed, changed


def _said(effect: Effect) -> tuple[Any, ...]:
    return effect.outcome, effect.rows, effect.dependents
