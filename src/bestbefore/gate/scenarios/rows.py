"""What is promised about rows alone: a batch and its record are one transaction (P4), a batch
changes rows once (P3) and only those that it meant (P2), waits for nobody for long (P12), and takes
no partition away that something else depends on (P8)."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from bestbefore.app.system import System
from bestbefore.domain.rows import Effect
from bestbefore.domain.run import Run
from bestbefore.gate.children import Instant
from bestbefore.gate.scenario import Broken, Ground, NotApplicable, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.records import OperationRecord
from bestbefore.ports.rows import RowTask
from bestbefore.ports.scratch import ScratchRow

_BATCHES = 20
_BATCH = 10
_OLD = _BATCH * _BATCHES
_YOUNG = 10
_CURRENT = 2_000
"""A table with next to nothing in it is read from end to end by some databases, locks and all."""

_LONGEST_SECONDS = 30.0
_LOOK_SECONDS = 0.05


@scenario(
    "killed-before-commit",
    "P4",
    "A row worker that dies just before COMMIT changes nothing, and its batch goes all the same",
    Ground.ROWS,
)
def killed_before_commit(stage: Stage) -> None:
    _killed(stage, Instant.BEFORE_COMMIT, _OLD)


@scenario(
    "killed-after-commit",
    "P4",
    "A row worker that dies just after COMMIT, before its record, loses no batch and repeats none",
    Ground.ROWS,
)
def killed_after_commit(stage: Stage) -> None:
    _killed(stage, Instant.AFTER_COMMIT, _OLD - _BATCH)


def _killed(stage: Stage, instant: Instant, left: int) -> None:
    stage.rows.fill(_OLD, _YOUNG)
    policy = stage.policy()
    with stage.short_lease():
        system = stage.open()
        run = stage.plan(system, policy)
        stage.evidence.expect("batches planned", run.planned, _BATCHES)
        stage.killed(instant)
        stage.evidence.expect("old rows left after the kill", _count(stage, "old"), left)
        ended = stage.outcomes(system, run).get("deleted", 0)
        stage.evidence.expect("batches that the ledger knows as deleted", ended, 0)
        stage.work(system)
    stage.evidence.expect("old rows left once another worker is done", _count(stage, "old"), 0)
    stage.evidence.expect("young rows left", _count(stage, "young"), _YOUNG)
    stage.evidence.expect("final states", stage.outcomes(system, run), {"deleted": _BATCHES})
    # A batch that went twice would have deleted nothing the second time, and said so.
    _say_they_deleted(stage, system, run, _OLD)
    stage.reconciles(system, run)


@scenario(
    "replayed-batches",
    "P3",
    "Every batch delivered again changes no row, whatever is between its ends by then",
    Ground.ROWS,
)
def replayed_batches(stage: Stage) -> None:
    stage.rows.fill(_OLD, _YOUNG)
    policy = stage.policy()
    system = stage.open()
    run = stage.plan(system, policy)
    stage.work(system)
    stage.evidence.expect("old rows left", _count(stage, "old"), 0)
    before = stage.outcomes(system, run)
    stage.rows.fill(_OLD)
    stage.evidence.note("rows with the same keys and old times were inserted again", _OLD)
    for operation in stage.operations(system, run):
        stage.deliver(system, operation)
    stage.work(system)
    stage.evidence.note("each batch was delivered once more", _BATCHES)
    stage.evidence.expect("old rows left", _count(stage, "old"), _OLD)
    stage.evidence.expect("final states", stage.outcomes(system, run), before)
    # Without the ledger, as after a crash before its record, the database's own record says so.
    effects = [_again(system, operation) for operation in stage.operations(system, run)]
    replayed = [effect for effect in effects if isinstance(effect, Effect) and effect.replayed]
    stage.evidence.expect(
        "batches that the database itself, asked past the ledger, knows as done",
        len(replayed), _BATCHES,
    )  # fmt: skip
    stage.evidence.expect("old rows left", _count(stage, "old"), _OLD)
    stage.reconciles(system, run)


def _again(system: System, of: OperationRecord) -> object:
    if of.batch is None or of.source is None:
        raise Broken(f"operation {of.operation_id.hex()} of a table has no batch on record")
    task = RowTask(of.operation_id, of.policy, of.policy_version, of.batch, of.cutoff)
    return system.tables(of.source.database).deleter.delete(of.source, task, system.worker_name)


@scenario(
    "row-changed",
    "P2",
    "Rows that are touched or taken out after the plan are left alone; only the others go",
    Ground.ROWS,
)
def row_changed(stage: Stage) -> None:
    table = stage.rows.table
    stage.rows.fill(_OLD, _YOUNG)
    policy = stage.policy(where="note = 'old'")
    system = stage.open()
    run = stage.plan(system, policy)
    stage.evidence.expect("batches planned", run.planned, _BATCHES)
    now = stage.clock.now().replace(microsecond=0)
    # Of a batch each time some, and of another one all.
    younger, kept, taken = [3, 4, *range(101, 111)], [14, 15, *range(121, 131)], [7, 25]
    for number in younger:
        table.update(ScratchRow(number, now, "younger"))
    stage.evidence.note("rows that got a young time after the plan", len(younger))
    for row in filter(None, map(table.row, kept)):
        table.update(row._replace(note="kept"))
    stage.evidence.note("rows that `where` does not mean any more, as old as ever", len(kept))
    table.delete(taken)
    stage.evidence.note("rows that the application took out", len(taken))
    stage.work(system)
    for note, numbers in (("younger", younger), ("kept", kept)):
        left = [row.id for row in table.rows() if row.note == note]
        stage.evidence.expect(f"of these left, {note}", left, numbers)
    stage.evidence.expect("old rows left", _count(stage, "old"), 0)
    stage.evidence.expect("young rows left", _count(stage, "young"), _YOUNG)
    gone = _OLD - len(younger) - len(kept) - len(taken)
    _say_they_deleted(stage, system, run, gone)
    stage.reconciles(system, run)


@scenario(
    "lock-timeout",
    "P12",
    "A row that somebody has locked is waited for briefly and tried again; all else goes on",
    Ground.ROWS,
)
def lock_timeout(stage: Stage) -> None:
    table = stage.rows.table
    if not table.locks_rows:
        raise NotApplicable("this database locks nothing smaller than the whole file")
    stage.rows.fill(_OLD, _CURRENT)
    policy = stage.policy()
    system, other = stage.open(), stage.open()
    run = stage.plan(system, policy)
    with ThreadPoolExecutor(1, "gate") as pool:
        with table.locked(_OLD // 2):
            stage.evidence.note("somebody holds a lock on one old row")
            began = time.monotonic()
            working = pool.submit(stage.work, system)
            _wait(
                stage,
                "the batch of the locked row gives up for now, all others go",
                lambda: _failed(stage.operations(other, run)) and _count(stage, "old") <= _BATCH,
            )
            stage.evidence.note("seconds until that", round(time.monotonic() - began, 1))
            stage.evidence.note("batches that gave up", len(_failed(stage.operations(other, run))))
            stage.evidence.note("why", _failed(stage.operations(other, run))[0].error)
            now = stage.clock.now().replace(microsecond=0)
            table.insert([ScratchRow(_OLD + _CURRENT + 1, now, "new")])
            stage.evidence.expect("rows inserted meanwhile", _count(stage, "new"), 1)
        stage.evidence.note("the lock is gone")
        working.result()
    stage.evidence.expect("old rows left", _count(stage, "old"), 0)
    stage.evidence.expect("young rows left", _count(stage, "young"), _CURRENT)
    stage.evidence.expect("batches dead", stage.outcomes(other, run).get("dead", 0), 0)
    stage.reconciles(other, run)


@scenario(
    "partition-with-view",
    "P8",
    "A partition that a view reads stays and loses its old rows in batches; others are dropped",
    Ground.ROWS,
)
def partition_with_view(stage: Stage) -> None:
    table = stage.rows.table
    if not table.has_partitions:
        raise NotApplicable("this database has no partitions that are removed as a whole")
    now = stage.clock.now().replace(microsecond=0)
    ends = [now - timedelta(days=days) for days in (4, 3, 2, -1)]
    table.partition(ends)
    stage.evidence.note("the table was made again in three partitions, with a view of the first")
    times = [ends[0]] * (_OLD // 2) + [ends[1]] * (_OLD // 2) + [now] * _YOUNG
    notes = ["old"] * _OLD + ["young"] * _YOUNG
    rows = zip(range(1, len(times) + 1), times, notes, strict=True)
    table.insert([ScratchRow(*row) for row in rows])
    before = table.partitions()
    policy = stage.policy()
    system = stage.open()
    run = stage.plan(system, policy)
    batches = _BATCHES // 2 + 1
    stage.evidence.expect("batches planned, one of them a partition", run.planned, batches)
    stage.work(system)
    stage.evidence.expect("old rows left", _count(stage, "old"), 0)
    stage.evidence.expect("young rows left", _count(stage, "young"), _YOUNG)
    stage.evidence.expect("partitions left", table.partitions(), [before[0], before[2]])
    stage.evidence.expect("final states", stage.outcomes(system, run), {"deleted": batches})
    _say_they_deleted(stage, system, run, _OLD)
    stage.reconciles(system, run)


def _failed(operations: Sequence[OperationRecord]) -> Sequence[OperationRecord]:
    return [operation for operation in operations if operation.failure_class is not None]


def _wait(stage: Stage, what: str, come: Callable[[], object]) -> None:
    until = time.monotonic() + _LONGEST_SECONDS
    while not come():
        if time.monotonic() > until:
            raise Broken(f"{what}: expected within {_LONGEST_SECONDS:g} s, and it did not come")
        stage.clock.sleep(_LOOK_SECONDS)


def _say_they_deleted(stage: Stage, system: System, run: Run, rows: int) -> None:
    effects = [operation.effect for operation in stage.operations(system, run)]
    said = sum(effect.rows for effect in effects if effect is not None)
    stage.evidence.expect("rows that the batches say they deleted", said, rows)


def _count(stage: Stage, note: str) -> int:
    return sum(row.note == note for row in stage.rows.table.rows())
