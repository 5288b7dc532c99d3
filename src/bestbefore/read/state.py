"""How large the ledger is, whether it grows, and what upkeep did about it."""

from datetime import datetime, timedelta
from pathlib import Path

from bestbefore.domain.retention import Age
from bestbefore.ports.upkeep import UpkeepLedger
from bestbefore.read.documents import Document, when

_DAYS = 7


def state_document(
    ledger: UpkeepLedger, keep: Age | None, evidence: Path, now: datetime
) -> Document:
    """Size, growth and upkeep, all from stored counts.

    ``growth`` is what was planned in the last days; its ``bytes`` are what so many operations
    take on the average. ``prunable`` goes with the next pass of upkeep, about.
    """
    before = None if keep is None else keep.before(now)
    record = ledger.describe(before, now - timedelta(days=_DAYS))
    each = record.used / record.operations if record.operations else 0
    return {
        "bytes": record.bytes,
        "free_bytes": record.free,
        "operations": record.operations,
        "growth": {
            "days": _DAYS,
            "operations": record.added,
            "bytes": round(record.added * each),
        },
        "keep": None if keep is None else str(keep),
        "prunable": record.prunable,
        "pruned": record.pruned,
        "evidence": str(evidence) if record.pruned else None,
        "upkeep": {
            "running": record.running,
            "finished_at": when(record.finished_at),
            "operations": record.pass_operations,
            "events": record.pass_events,
            "error": record.error,
            "failed_at": when(record.failed_at),
        },
    }
