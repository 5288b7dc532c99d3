"""What the ledger holds of one operation, on one line."""

from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.records import OperationRecord


def history_line(operation: OperationRecord) -> str:
    """Which run planned *operation*, and what became of it."""
    line = f"run {operation.run_id} planned it ({instant(operation.last_modified)}): "
    line += operation.outcome or operation.state
    if operation.completed_at:
        line += f" at {instant(operation.completed_at)}"
    if operation.reason and operation.outcome is Outcome.PROTECTED:
        line += f" ({operation.reason})"
    if operation.error and operation.outcome is None:
        line += f", {operation.failure_class}: {operation.error}"
    return line
