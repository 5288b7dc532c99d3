"""The product, broken on purpose: each fault is one that the gate has to notice.

A fault is planted in this process, and by `faulty_work` in those that the gate starts.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from bestbefore.adapters.objects.s3 import deleting
from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.deletion import Deletion
from bestbefore.adapters.rows.dependents import Sweep
from bestbefore.adapters.rows.references import Catalog
from bestbefore.adapters.state.database import micros
from bestbefore.adapters.state.outbox import SqlOutbox
from bestbefore.adapters.state.schema import operations
from bestbefore.app import system
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect
from bestbefore.domain.run import Run
from bestbefore.gate import children
from bestbefore.ports.ledger import Completed
from bestbefore.stages.attempt import Attempts
from bestbefore.stages.carry import Carried
from bestbefore.stages.row_attempt import RowAttempts

_NAME = "BESTBEFORE_TEST_FAULT"

Patch = pytest.MonkeyPatch


def _record_before_effect(patch: Patch) -> None:
    make = Attempts.make

    def recorded_first(self: Attempts, policy: Any, some: Sequence[Any]) -> Any:
        ended = [Completed(operation, Outcome.DELETED) for operation in some]
        self.ledger.record(ended, "a fault", self.clock.now())
        return make(self, policy, some)

    patch.setattr(Attempts, "make", recorded_first)


def _record_rows_before_effect(patch: Patch) -> None:
    make = RowAttempts.make

    def recorded_first(self: Any, policy: Any, some: Sequence[Any]) -> Any:
        ended = [Completed(o, Outcome.DELETED, effect=Effect(Outcome.DELETED, 10)) for o in some]
        self.ledger.record(ended, "a fault", self.clock.now())
        return make(self, policy, some)

    patch.setattr(RowAttempts, "make", recorded_first)


def _no_predicate(patch: Patch) -> None:
    init = Deletion.__init__

    def without(self: Deletion, target: Any, cutoff: Any) -> None:
        init(self, target, cutoff)
        bounds = self.statement.whereclause
        assert isinstance(bounds, sa.BooleanClauseList)
        *ends, _eligible = bounds.clauses
        self.statement = sa.delete(target.table).where(*ends)

    patch.setattr(Deletion, "__init__", without)


def _no_condition(patch: Patch) -> None:
    deletion = deleting.deletion
    patch.setattr(deleting, "deletion", lambda some: deletion((key, None) for key, _ in some))
    patch.setattr(
        deleting.S3Deleter, "_looked_at", lambda self, bucket, condition, some: ({}, some)
    )


def _no_completion_record(patch: Patch) -> None:
    begin = completion.begin
    patch.setattr(completion, "begin", lambda *given: begin(*given) or True)


def _ack_before_record(patch: Patch) -> None:
    receive = Carried.receive

    def forgetting(self: Carried, *given: Any, **named: Any) -> Any:
        taken = receive(self, *given, **named)
        self.ack(taken)
        return taken

    patch.setattr(Carried, "receive", forgetting)


def _slot_from_now(patch: Patch) -> None:
    def now(policy: Any, wanted: Any, calendar: Any, ledger: Any, at: Any, *_: Any) -> Any:
        return at.replace(microsecond=0)

    patch.setattr(system, "choose_slot", now)


def _no_ledger_check(patch: Patch) -> None:
    claim = SqlOutbox.claim

    def anything(self: Any, ids: Sequence[bytes], now: Any, lease: Any) -> Any:
        with self._db.write() as connection:
            connection.execute(
                sa.update(operations)
                .where(operations.c.operation_id.in_(ids))
                .values(
                    state="pending",
                    outcome=None,
                    deliveries=0,
                    sent_at=micros(now),
                    due_at=micros(now),
                )
            )
        return claim(self, ids, now, lease)

    patch.setattr(SqlOutbox, "claim", anything)


def _no_foreign_keys(patch: Patch) -> None:
    patch.setattr(Catalog, "references", lambda *_: [])


def _own_rows_capped(patch: Patch) -> None:
    patch.setattr(Run, "selected", Run.own_selected)


def _no_count_kept_to(patch: Patch) -> None:
    init = Sweep.__init__

    def unbounded(
        self: Sweep, connection: Any, counted: Any = None, *more: Any, **named: Any
    ) -> None:
        init(self, connection, None, *more, **named)

    patch.setattr(Sweep, "__init__", unbounded)


FAULTS: Mapping[str, Callable[[Patch], None]] = {
    "record before effect": _record_before_effect,
    "record rows before effect": _record_rows_before_effect,
    "no predicate in the DELETE": _no_predicate,
    "no conditional delete": _no_condition,
    "no completion record": _no_completion_record,
    "ack before record": _ack_before_record,
    "slot from now()": _slot_from_now,
    "skip the ledger check": _no_ledger_check,
    "foreign keys not seen": _no_foreign_keys,
    "dependents outside the caps": _own_rows_capped,
    "more dependents than counted": _no_count_kept_to,
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """The product with *fault*, until the end."""
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[fault](patch)
        patch.setenv(_NAME, fault)
        patch.setattr(children, "_work", faulty_work)
        yield


_work = children._work


def faulty_work(*given: Any) -> None:
    """What a process of the gate's does, with the fault of whoever started it."""
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[os.environ[_NAME]](patch)
        _work(*given)
