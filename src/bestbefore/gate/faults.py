"""Targets that fail where the product hands over to a store or a database, and what was asked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from bestbefore.app.connecting import Tables
from bestbefore.domain.failure import Failure
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.gate.otherwise import Otherwise
from bestbefore.ports.objects import ObjectDeleter, Target
from bestbefore.ports.records import OperationRecord
from bestbefore.ports.rows import RowDeleter, RowTask
from bestbefore.ports.stores import Store


def target_of(operation: OperationRecord) -> str:
    """What `Faults` call the target of *operation*."""
    return operation.key if operation.batch is None else operation.operation_id.hex()


class Faults:
    """``failing`` says which targets fail, and how, and *others* how all others do, if they do: the
    store, or the database, hears nothing of them. ``tried`` counts how often each was to be
    deleted."""

    def __init__(self, others: Failure | None = None) -> None:
        self._others = others
        self.failing: dict[str, Failure] = {}
        self.tried: Counter[str] = Counter()

    def store(self, store: Store) -> Store:
        """*store* with these faults."""
        return replace(store, deleter=cast("ObjectDeleter", _Objects(store.deleter, self)))

    def tables(self, tables: Tables) -> Tables:
        """*tables* with these faults."""
        return replace(tables, deleter=cast("RowDeleter", _Rows(tables.deleter, self)))

    def tries(self, target: str) -> Failure | None:
        """Count that *target* is tried; how it fails, if it does."""
        self.tried[target] += 1
        return self.failing.get(target, self._others)


class _Objects(Otherwise[ObjectDeleter]):
    def __init__(self, inner: ObjectDeleter, faults: Faults) -> None:
        super().__init__(inner)
        self._faults = faults

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        ends: dict[Target, Outcome | Failure] = {
            target: failure
            for target in targets
            if (failure := self._faults.tries(target.key)) is not None
        }
        sent = [target for target in targets if target not in ends]
        if sent:
            ends |= zip(sent, self._inner.delete(bucket, sent), strict=True)
        return [ends[target] for target in targets]


class _Rows(Otherwise[RowDeleter]):
    def __init__(self, inner: RowDeleter, faults: Faults) -> None:
        super().__init__(inner)
        self._faults = faults

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        failure = self._faults.tries(task.operation_id.hex())
        return self._inner.delete(source, task, by) if failure is None else failure
