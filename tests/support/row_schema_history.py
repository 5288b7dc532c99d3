"""What is done to one `row_schemas.Case`: plans and their work, other sessions beside them, and
crashes. After each step the tables are compared with what the plan counted and with what may be
removed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters import rows
from bestbefore.contracts.row_world import CUTOFF, ME, table
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, Governed, Partitions, RowBatch, RowSource
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask, Slice, TableRefused
from support.forks import Forks, until
from support.row_crashes import pack
from support.row_databases import RowDatabase
from support.row_schema_checks import OWN, Broken, Checks, Deliverable, Planned, difference, sizes
from support.row_schema_model import Model, refusals
from support.row_schema_tables import ERRORS, SchemaTables
from support.row_schemas import Case, Change, Delivery, Kill, Policy

PLANS = 20
"""After so many plans without anything beside them nothing may be left to plan."""

DELIVERIES = 100
"""More than any plan of a dozen rows needs."""


class _Crash(BaseException):
    """Ends a transaction as a lost process does, for the database."""


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

    def __init__(self, at: Product, tables: SchemaTables) -> None:
        self.case: Case = tables.case
        self.tables = tables
        self._at = at
        self._checks = Checks(tables)
        self._source = self._made_source()
        self._operations = 0
        self._quiet = False
        self._done: set[bytes] = set()

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
        self._checks.selection(model, batches, sum(sum(one.referenced.values()) for one in found))
        for batch in batches:
            self._checks.count(model, batch)
        return [(Planned(batch), self._task(batch)) for batch in batches]

    def _task(self, batch: RowBatch) -> RowTask:
        self._operations += 1
        id_ = sha256(f"{self.tables.names[OWN]} {self._operations}".encode()).digest()
        return RowTask(id_, "stale", "v1", batch, CUTOFF)

    # -- work

    def _work(
        self, tasks: Sequence[tuple[Planned, RowTask]], deliveries: Sequence[Delivery] = ()
    ) -> None:
        waiting, how, most = list(tasks), list(deliveries), DELIVERIES
        while waiting:
            if not (most := most - 1):
                raise Broken("a plan has more and more parts")
            planned, task = waiting.pop(0)
            end = self._deliver(planned, task, how.pop(0) if how else Delivery())
            if isinstance(end, Divided):
                waiting += [(planned, self._task(part)) for part in end.parts]

    def _deliver(self, planned: Planned, task: RowTask, delivery: Delivery) -> Deliverable:
        how = delivery.how
        if how in ("beside", "held") and self.case.kind == "sqlite":
            how = "plain"  # where no two sessions write at a time
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

    def _plainly(self, planned: Planned, task: RowTask) -> Deliverable:
        before = self.tables.content()
        end = self._delete(task)
        self._checks.effect(before, planned, task.batch, end)
        if isinstance(end, Failure) and end.failure_class is not FailureClass.TRANSIENT:
            raise Broken(f"failed: {end}")
        replayed = isinstance(end, Effect) and end.replayed
        if replayed and task.operation_id not in self._done:
            raise Broken(f"delivered for the first time, and {end}")
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
                self._checks.effect(before, planned, task.batch, end)
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
        self._checks.effect(before[0], planned, task.batch, end, beside=True)
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
            self._checks.effect(before, planned, task.batch, end, beside=True)
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
        removed, _ = difference(before, self.tables.content())
        model = Model(self.case, before)
        counts: Counter[int] = Counter()
        for planned, task in tasks:
            left = self.tables.content()
            end = self._delete(task)
            self._checks.effect(left, planned, task.batch, end)
            if isinstance(end, Effect):
                self._done.add(task.operation_id)
                if end.replayed:
                    self._checks.counted(planned, end)
                    counts.update(self._checks.removed(end))
        if removed[OWN] - model.selected:
            raise Broken(f"{removed} are gone, and the policy keeps some of them")
        if model.effect(removed[OWN]).removed != removed:
            raise Broken(f"{removed} are gone, and nothing that is gone was referred to")
        if sizes(removed) != counts:
            raise Broken(f"{removed} are gone, and the records say {counts}")


def _said(effect: Effect) -> tuple[Any, ...]:
    return effect.outcome, effect.rows, effect.dependents, effect.changed
