"""What came of claimed operations, as functions on an open transaction."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state import batch_changes, counters, followers
from bestbefore.adapters.state import copies as copy_rows
from bestbefore.adapters.state import incidents as incident_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.counters import Counts, put, put_seconds
from bestbefore.adapters.state.database import Database, micros
from bestbefore.adapters.state.policies import frees
from bestbefore.adapters.state.queue import change_claimed, completed, dump_budget
from bestbefore.adapters.state.schema import failures, operations
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import REMOVED, Outcome, Spared
from bestbefore.domain.rows import Effect
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Completed, Died, Operation, Retried, Settlement, Split


def record(
    database: Database,
    connection: sa.Connection,
    settlements: Sequence[Settlement],
    purging: Sequence[int],
    by: str,
    now: datetime,
) -> list[Operation]:
    """See `bestbefore.ports.ledger.WorkLedger.record`; of the policies (rows) in *purging* the
    newest entry of a key goes last."""
    changed = _Changes()
    ended = [s for s in settlements if isinstance(s, Completed)]
    late = _complete(connection, ended, by, now, changed)
    for settlement in settlements:
        accepted = True
        if isinstance(settlement, Retried | Died):
            accepted = _fail(connection, settlement, by, now, changed)
        elif isinstance(settlement, Split):
            accepted = _split(database, connection, settlement, by, now, changed)
        if not accepted:
            late.append(settlement.operation)
    for policy in purging:
        keys = [o.key for o, *_ in ended if o.policy == policy]
        followers.release(connection, policy, keys, micros(now))
    changed.write(database, connection, now)
    return late


class _Changes:
    """Count changes of one transaction, collected so that each run is updated once."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[str, int]] = {}
        self._tallies: dict[tuple[int, str], dict[str, tuple[int, int]]] = {}
        self._for_good: dict[int, Counts] = {}
        self.incidents: Counter[incident_rows.Kind] = Counter()

    def count(self, run: int, **by: int) -> None:
        counts = self._counts.setdefault(run, {})
        for name, n in by.items():
            counts[name] = counts.get(name, 0) + n

    def tally(self, run: int, kind: str, name: str, n: int, size: int = 0) -> None:
        names = self._tallies.setdefault((run, kind), {})
        before, before_size = names.get(name, (0, 0))
        names[name] = (before + n, before_size + size)

    def for_good(self, policy: int) -> Counts:
        """What to add to the counts of *policy*."""
        return self._for_good.setdefault(policy, {})

    def write(self, database: Database, connection: sa.Connection, now: datetime) -> None:
        for run, counts in sorted(self._counts.items()):
            run_rows.bump(connection, run, **counts)
            if counts.get("held", 0) < 0:
                run_rows.reopen(connection, run)
            run_rows.drain_if_done(connection, run, now)
        for (run, kind), names in sorted(self._tallies.items()):
            run_rows.tally(database, connection, run, kind, names)
        for policy, for_good in sorted(self._for_good.items()):
            counters.add(database, connection, policy, for_good)
        incident_rows.grow(database, connection, self.incidents, now)


_FAIL = sa.update(operations).where(
    operations.c.id == sa.bindparam("row"),
    operations.c.token == sa.bindparam("claim"),
    operations.c.state == sa.literal_column("'pending'"),
)


def _complete(
    connection: sa.Connection,
    settlements: Sequence[Completed],
    by: str,
    now: datetime,
    changed: _Changes,
) -> list[Operation]:
    late: list[Operation] = []
    outcomes: dict[tuple[Outcome, Spared | None], list[Operation]] = {}
    effects: dict[int, Effect] = {}
    for operation, outcome, why, effect in settlements:
        outcomes.setdefault((outcome, why), []).append(operation)
        if effect is not None:
            effects[operation.row] = effect
    for (outcome, why), ended in outcomes.items():
        refused = change_claimed(
            connection,
            ended,
            sa.update(operations).values(
                **completed(outcome, by, now),
                **({} if why is None else {"reason": str(why)}),
            ),
        )
        late += refused
        gone = {operation.row for operation in refused}
        if outcome is Outcome.CHANGED:
            kept = [operation.row for operation in ended if operation.row not in gone]
            copy_rows.note_left_behind(connection, kept, by, now)
        runs_: dict[int, list[Operation]] = {}
        for operation in ended:
            if operation.row not in gone:
                runs_.setdefault(operation.run, []).append(operation)
        for run, those in runs_.items():
            held = sum(operation.held for operation in those)
            changed.count(run, pending=-len(those), completed=len(those), held=-held)
            freed = 0
            about_rows = those[0].row in effects  # whose size is a number of rows
            if outcome in REMOVED and not about_rows and frees(connection, those[0].policy):
                freed = sum(operation.size for operation in those)
            changed.tally(run, "outcome", outcome, len(those), freed)
            for_good = changed.for_good(those[0].policy)
            put(for_good, Count.COMPLETED, outcome, len(those), freed)
            redriven = sum(operation.redriven for operation in those)
            put(for_good, Count.REDRIVEN_COMPLETED, outcome, redriven)
        if effects:
            accepted = [o for o in ended if o.row in effects and o.row not in gone]
            _note_effects(connection, [(o, effects[o.row]) for o in accepted], changed)
    return late


def _note_effects(
    connection: sa.Connection, done: Sequence[tuple[Operation, Effect]], changed: _Changes
) -> None:
    """Of row batches that this transaction completed."""
    if done:
        batch_changes.record_effects(connection, done)
    for operation, effect in done:
        for kind, name, n in batch_changes.effect_tallies(effect):
            changed.tally(operation.run, kind, name, n)
        for_good = changed.for_good(operation.policy)
        for word, n in effect.counts().items():
            put(for_good, Count.ROWS, word, n)
        if not effect.replayed:
            put_seconds(for_good, Count.BATCH_SECONDS, effect.seconds)


def _split(
    database: Database,
    connection: sa.Connection,
    settlement: Split,
    by: str,
    now: datetime,
    changed: _Changes,
) -> bool:
    """Let a row batch go on as its parts. Returns False if the claim was lost meanwhile."""
    added = batch_changes.split(database, connection, settlement, by, now)
    if added is None:
        return False
    operation = settlement.operation
    changed.count(
        operation.run, planned=added, pending=added - 1, completed=1, held=-operation.held
    )
    changed.tally(operation.run, "outcome", Outcome.SPLIT, 1)
    for_good = changed.for_good(operation.policy)
    put(for_good, Count.COMPLETED, Outcome.SPLIT, 1)
    put(for_good, Count.PLANNED, "", added)
    put(for_good, Count.PUBLISHED, "", added)
    database.ring(connection)
    return True


def _fail(
    connection: sa.Connection,
    settlement: Retried | Died,
    by: str,
    now: datetime,
    changed: _Changes,
) -> bool:
    """Record one failed attempt. Returns False if the claim was lost meanwhile."""
    operation, decision = settlement
    died = isinstance(settlement, Died)
    failure = decision.failure
    held = not died and failure.failure_class is FailureClass.HELD
    incident = None
    if died:
        incident = incident_rows.kind(
            operation.policy, failure.failure_class, failure.error, operation.key
        )
    updated = connection.execute(
        _FAIL.values(
            state=State.DEAD if died else State.PENDING,
            due_at=None if isinstance(settlement, Died) else micros(settlement.decision.due_at),
            token=None,
            deliveries=0,
            held=held,
            budget=dump_budget(decision.budget),
            failure_class=failure.failure_class,
            error=failure.error,
            incident=None if incident is None else incident.name,
            first_failed_at=sa.func.coalesce(operations.c.first_failed_at, micros(now)),
            last_failed_at=micros(now),
        ),
        {"row": operation.row, "claim": operation.token},
    ).rowcount
    if not updated:
        return False
    connection.execute(
        sa.insert(failures).values(
            operation=operation.row,
            at=micros(now),
            failure_class=failure.failure_class,
            error=failure.error,
            by=by,
        )
    )
    for_good = changed.for_good(operation.policy)
    if incident is not None:
        changed.count(operation.run, pending=-1, dead=1, held=-operation.held)
        changed.incidents[incident] += 1
        put(for_good, Count.DIED, failure.failure_class, 1)
        put(for_good, Count.DEAD, failure.failure_class, 1)
    else:
        changed.count(operation.run, held=held - operation.held)
        changed.tally(operation.run, "retried", failure.failure_class, 1)
        put(for_good, Count.RETRIED, failure.failure_class, 1)
    return True
