"""A command that a queue pushed to us, executed while the queue waits for the answer."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from bestbefore.app.system import System
from bestbefore.domain.message import Command
from bestbefore.domain.states import State
from bestbefore.ports.ledger import NotInLedger
from bestbefore.ports.records import OperationFilter, OperationRecord
from bestbefore.stages.work import Options

_SOON = timedelta(seconds=5)
_LONGEST = timedelta(hours=1)


class PushRefused(Exception):
    """A command that is not what the ledger holds under its id."""


class Pushed(NamedTuple):
    """How the operation stands now. Unless it is done, ``again`` is after how long to push it
    again, None where that leads to nothing; ``taken`` says that somebody else works on it."""

    operation: OperationRecord
    done: bool
    again: timedelta | None = None
    taken: bool = False


def push(
    system: System, command: Command, options: Options, stopping: Callable[[], bool]
) -> Pushed:
    """Execute the operation that *command* points to, and say how it stands.

    What is deleted is what the ledger holds. Raises NotInLedger, PushRefused and LedgerError.
    """
    operation_id = bytes.fromhex(command.operation_id)
    operation = _operation(system, operation_id)
    if operation.action != command.action:
        raise PushRefused(
            f"action: operation {command.operation_id} is to {operation.action}, not to "
            f"{command.action}"
        )
    now = system.clock.now()
    if operation.state is State.PENDING and _can_be_had(operation, now):
        system.working.deliver(operation_id, operation.policy, options, stopping)
        operation, now = _operation(system, operation_id), system.clock.now()
    if operation.state is State.COMPLETED:
        return Pushed(operation, done=True)
    if operation.state is State.DEAD:
        return Pushed(operation, done=False)
    taken = operation.state is State.PENDING and operation.claimed
    return Pushed(operation, done=False, again=_wait(operation.due_at, now), taken=taken)


def _operation(system: System, operation_id: bytes) -> OperationRecord:
    found = next(system.records.operations(OperationFilter(operation_id=operation_id), 1), None)
    if found is None:
        raise NotInLedger(f"operation {operation_id.hex()}: the ledger has none of that id")
    return found


def _can_be_had(operation: OperationRecord, now: datetime) -> bool:
    """Whether it is due, or a broker has it: this may be its message."""
    due_at = operation.due_at
    return operation.sent_at is not None or (due_at is not None and due_at <= now)


def _wait(due_at: datetime | None, now: datetime) -> timedelta:
    """After how long it is worth trying again."""
    return _SOON if due_at is None else max(_SOON, min(due_at - now, _LONGEST))
