"""The deleting side: one batch, one transaction, and its completion record in the same one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import sqlalchemy as sa

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.cutting import halves, meant, parts
from bestbefore.adapters.rows.dependents import MoreDependents, Selected, Sweep
from bestbefore.adapters.rows.detaching import remove
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of, is_missing
from bestbefore.adapters.rows.filing import Filing
from bestbefore.adapters.rows.keys import executed
from bestbefore.adapters.rows.planning.counting import shared
from bestbefore.adapters.rows.plans import Plan, Plans, plan_of
from bestbefore.adapters.rows.rights import findings
from bestbefore.adapters.rows.table import base_table
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.row_file import Row, RowFile
from bestbefore.domain.rows import Divided, Effect, FileArchive, RowSource, Walk
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import RowTask, TableRefused

T = TypeVar("T")

_GREW = "more rows than planned are between its ends now"
_SHRANK = "rows between the ends of this batch came and went while it was worked on"
_CHANGED = "rows were changed after they were written to a file, which is written again"
_MORE = "more rows refer to these than were counted when they were planned"
_KEPT = "a trigger or row security keeps some of its rows, and so what refers to them"


class _Undone(Exception):
    """Leaves a transaction without a trace of it."""


class _Completed(_Undone):
    """There is a completion record already."""


class _TooMany(_Undone):
    """The batch has to go on in parts of at most ``size`` rows, because ``why``."""

    def __init__(self, size: int, why: str) -> None:
        super().__init__(why)
        self.size = size
        self.why = why


class _More(_Undone):
    """More rows of other tables would be removed or changed than were counted for the batch."""


class _Changed(_Undone):
    """The rows are not those of the file any more."""


class _AllBlocked(_Undone):
    """Nothing went, as something keeps all ``rows``."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows


class SqlRowDeleter:
    """`bestbefore.ports.rows.RowDeleter` on any of the databases. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plans = Plans(database)

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        """See `RowDeleter.delete`."""
        if task.batch.walk is Walk.PARTITION:
            return _never_raising(source, lambda: remove(self._database, source, task, by))
        if isinstance(source.archive, FileArchive):
            said = f"{source.table}: its rows have to be in a file before they go"
            return Failure(FailureClass.UNKNOWN, said)
        return self._delete(source, task, by, None)

    def read(self, source: RowSource, task: RowTask) -> RowFile | Effect | Divided | Failure:
        """See `RowFiler.read`."""
        return _never_raising(source, lambda: self._planned(source, task, self._read))

    def delete_filed(
        self, source: RowSource, task: RowTask, by: str, digest: bytes
    ) -> Effect | Divided | Failure:
        """See `RowFiler.delete_filed`."""
        return self._delete(source, task, by, digest)

    def divide(self, source: RowSource, task: RowTask) -> Divided | Failure:
        """See `RowDeleter.divide`."""

        def divide() -> Divided:
            plan = self._plans.of(source, task.batch)
            with self._database.reading() as connection:
                cut = halves(connection, plan.target, task)
                return Divided(shared(connection, plan.target, task, cut), "in halves")

        return _never_raising(source, divide)

    def forget(self, source: RowSource, operations: Sequence[bytes]) -> Failure | None:
        """See `RowDeleter.forget`."""

        def forget() -> None:
            with self._database.writing() as connection:
                records = completion.records_in(base_table(connection, source).schema)
                completion.forget(connection, records, operations)

        return None if source.ledger_only else _never_raising(source, forget)

    def check(self, source: RowSource) -> list[Finding]:
        """See `RowDeleter.check`. Raises StoreError where the database cannot answer."""
        try:
            with self._database.reading() as connection:
                plan = plan_of(connection, source)
            archived = source.archive is not None
            return list(findings(self._database, plan, archived=archived))
        except TableRefused as error:
            said = f"{source.table}: {error}"
            return [Finding("table-refused", Level.ERROR, said, "")]
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(failure_of(error, source.table)) from error

    def _delete(
        self, source: RowSource, task: RowTask, by: str, digest: bytes | None
    ) -> Effect | Divided | Failure:
        def settle(plan: Plan, task: RowTask) -> Effect | Divided | Failure:
            return self._settle(_Transaction(self._database, plan, task, by, digest))

        return _never_raising(source, lambda: self._planned(source, task, settle))

    def _planned(
        self, source: RowSource, task: RowTask, act: Callable[[Plan, RowTask], T]
    ) -> T | Effect:
        """What *act* returns, with a plan that fits the table; nothing is done about a table of
        another shape."""
        plan = self._plans.of(source, task.batch)
        if plan.target.shape != task.batch.shape:
            return Effect(Outcome.PROTECTED, 0)
        try:
            return act(plan, task)
        except sa.exc.DBAPIError as error:
            if not is_missing(error):
                raise
            # What was read of the table a while ago is not what is there now.
            fresh = self._plans.anew(source, task.batch)
            if fresh.target.shape != task.batch.shape:
                return Effect(Outcome.PROTECTED, 0)
            return act(fresh, task)

    def _read(self, plan: Plan, task: RowTask) -> RowFile | Effect | Divided | Failure:
        if (found := self._record(plan, task)) is not None:
            return replace(found[0], replayed=True)
        most = task.batch.rows
        with self._database.reading() as connection:
            filing = Filing(connection, plan.target, plan.node)
            keys, rows = filing.pick(meant(plan.target, task), most + 1, lock=False)
            if len(rows) <= most:
                sweep = Sweep(connection, lock=False)
                layers = sweep.layers(plan.node, keys, plan.target.eligible(task.cutoff))
                return filing.file(task, keys, rows, layers)
        return self._divided(plan, task, most, _GREW)

    def _settle(self, work: "_Transaction") -> Effect | Divided | Failure:
        """One transaction, and what is left to be said after it."""
        plan, task = work.plan, work.task
        try:
            return work.run()
        except _Completed:
            return self._replayed(plan, task)
        except _AllBlocked as kept:
            return Effect(Outcome.PROTECTED, 0, blocked=kept.rows)
        except _TooMany as grown:
            return self._divided(plan, task, grown.size, grown.why)
        except _More:
            return self._halved(plan, task)
        except _Changed:
            return Failure(FailureClass.TRANSIENT, f"{plan.target.table}: {_CHANGED}")
        except sa.exc.DBAPIError:
            if work.committing and (found := self._record(plan, task)) is not None:
                # The reply to COMMIT got lost, not its effect.
                effect, who = found
                return replace(effect, replayed=who != work.by)
            raise

    def _divided(self, plan: Plan, task: RowTask, size: int, why: str) -> Divided | Failure:
        with self._database.reading() as connection:
            cut = parts(connection, plan.target, task, size)
            if len(cut) < 2:  # one part would be this very batch
                return Failure(FailureClass.TRANSIENT, f"{plan.target.table}: {_SHRANK}")
            return Divided(shared(connection, plan.target, task, cut), why)

    def _halved(self, plan: Plan, task: RowTask) -> Effect | Divided | Failure:
        """What becomes of a batch with more dependents than were counted: it goes on in halves, and
        of a single row nothing is removed. The next plan counts that row again."""
        with self._database.reading() as connection:
            cut = halves(connection, plan.target, task)
            if len(cut) < 2:
                return Effect(Outcome.CHANGED, 0)
            return Divided(shared(connection, plan.target, task, cut), _MORE)

    def _replayed(self, plan: Plan, task: RowTask) -> Effect | Failure:
        if (found := self._record(plan, task)) is None:
            return Failure(
                FailureClass.TRANSIENT,
                f"{plan.target.table}: another transaction wrote the completion record of this "
                "batch, and it is gone again",
            )
        return replace(found[0], replayed=True)

    def _record(self, plan: Plan, task: RowTask) -> tuple[Effect, str] | None:
        """What the batch changed, and who did it, if it is completed."""
        if plan.records is None:
            return None
        with self._database.reading() as connection:
            return completion.read(connection, plan.records, task.operation_id)


@dataclass(slots=True)
class _Transaction:
    """One try at a batch. With a ``digest`` its rows are in a file that has it; ``committing``
    says that all is done but for COMMIT."""

    database: Database
    plan: Plan
    task: RowTask
    by: str
    digest: bytes | None
    committing: bool = False

    def run(self) -> Effect:
        """Raises one of `_Undone` and what the database raises; then nothing has changed, unless
        it was ``committing``."""
        records = self.plan.records
        with self.database.writing() as connection:
            if records is not None and not completion.begin(
                connection, records, self.task, self.by
            ):
                raise _Completed
            began = time.monotonic()
            effect = self._change(connection)
            if records is not None:
                completion.amend(connection, records, self.task, effect)
            self.committing = True
        return replace(effect, seconds=time.monotonic() - began)

    def _change(self, connection: sa.Connection) -> Effect:
        most = self.task.batch.rows
        removed: dict[str, int] = {}
        changed: dict[str, int] = {}
        if self.plan.node.alone and not self._archives:
            deletion = self.plan.deletion(self.task.cutoff)
            rows = executed(connection, deletion.statement, deletion.ends(self.task.batch))
            if rows > most:
                raise _TooMany(most, _GREW)
        else:
            rows, removed, changed = self._with_dependents(connection)
        # What is still there, and meant, is there because something keeps it.
        blocked = 0 if rows >= most else self._count(connection)
        if not rows and blocked:
            raise _AllBlocked(blocked)
        archived = rows if self._archives else 0
        outcome = completion.outcome(rows, archived)
        return Effect(outcome, rows, removed, archived, blocked, changed=changed)

    def _with_dependents(
        self, connection: sa.Connection
    ) -> tuple[int, dict[str, int], dict[str, int]]:
        """`_row_by_row`, and what it removed and changed beside its rows, by table."""
        sweep = Sweep(connection, self.task.batch.dependents, self._selected)
        try:
            rows = self._row_by_row(connection, sweep)
        except MoreDependents as more:
            raise _More from more
        if self._archives:  # its own table's are counted with the others then
            sweep.removed.pop(str(self.plan.node.table), None)
        return rows, {table: n for table, n in sweep.removed.items() if n}, sweep.changed

    def _row_by_row(self, connection: sa.Connection, sweep: Sweep) -> int:
        """Lock the rows, archive them, and delete exactly these, after what refers to them."""
        node, most = self.plan.node, self.task.batch.rows
        filing = None if self.digest is None else Filing(connection, self.plan.target, node)
        values: Sequence[Row] = ()
        if filing is None:
            rows = sweep.pick(node, self._meant, most + 1)
        else:
            rows, values = filing.pick(self._meant, most + 1, lock=True)
        if len(rows) > most:
            raise _TooMany(most, _GREW)
        layers = sweep.layers(node, rows, self.plan.target.eligible(self.task.cutoff))
        if filing and filing.file(self.task, rows, values, layers).digest != self.digest:
            raise _Changed
        there = sum(len(layer) for layer in layers)
        sweep.refuse_own(node, [row for layer in layers for row in layer])
        if there > len(rows):
            sweep.count(node.table, there - len(rows))
        archive = self.plan.target.archive
        if archive is not None:
            keys = [row for layer in layers for row in node.project(layer, node.identity)]
            archive.take(connection, node.identity, keys, self.task.operation_id)
        if sweep.remove(node, layers) < there:
            # What refers to the rows that stay has to stay as well: find out which they are.
            if len(rows) == 1:
                raise _AllBlocked(1)
            raise _TooMany((len(rows) + 1) // 2, _KEPT)
        return there if self._archives else len(rows)

    def _count(self, connection: sa.Connection) -> int:
        rows = sa.select(sa.func.count()).select_from(self.plan.target.table).where(self._meant)
        return connection.execute(rows).scalar_one()

    @property
    def _archives(self) -> bool:
        return self.digest is not None or self.plan.target.archive is not None

    @property
    def _selected(self) -> Selected:
        target = self.plan.target
        return Selected(target.table, target.key, target.eligible(self.task.cutoff))

    @property
    def _meant(self) -> sa.ColumnElement[bool]:
        return meant(self.plan.target, self.task)


def _never_raising(source: RowSource, act: Callable[[], T]) -> T | Failure:
    """What *act* returns, or what it raised as a failure."""
    try:
        return act()
    except StoreError as error:
        return error.failure
    except TableRefused as error:
        return Failure(FailureClass.MALFORMED, f"{source.table}: {error}", whole_source=True)
    except sa.exc.SQLAlchemyError as error:
        return failure_of(error, source.table)
