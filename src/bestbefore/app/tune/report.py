"""A tune as a document and as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bestbefore.app.tune import Tuned
from bestbefore.domain.tuning import Cell, Spread
from bestbefore.read.documents import Document, when


def document(tuned: Tuned) -> Document:
    """Times are milliseconds. ``recommended`` is null where nothing meets both ceilings."""
    best = tuned.recommendation
    return {
        "policy": tuned.policy.name,
        "policy_version": tuned.policy.version,
        "table": tuned.policy.rows.table,
        "at": when(tuned.at),
        "rows": tuned.rows,
        "seconds_per_cell": tuned.axes.seconds,
        "foreground_writes_per_second": round(tuned.writes_per_second, 1),
        "not_measured": list(tuned.left_out),
        "ceilings": {
            "batch_p95_ms": _ms(tuned.ceilings.duration),
            "foreground": "p99_ms" if tuned.ceilings.lock_wait is None else "lock_wait_max_ms",
            "foreground_ms": _ms(tuned.ceilings.foreground(tuned.idle)),
        },
        "foreground_without_cleanup": _spread(tuned.idle),
        "cells": [_cell(cell, tuned) for cell in tuned.cells],
        "recommended": None
        if best.size is None
        else {"batch_size": best.size, "max_concurrency": best.workers},
        "reason": best.reason,
    }


def _cell(cell: Cell, tuned: Tuned) -> Document:
    return {
        "batch_size": cell.size,
        "workers": cell.workers,
        "batches": cell.batches,
        "rows": cell.rows,
        "seconds": round(cell.seconds, 3),
        "rows_per_second": round(cell.rows_per_second),
        "batch": _spread(cell.batch),
        "locks_held": _spread(cell.locks_held),
        "foreground": _spread(cell.foreground),
        "foreground_lock_wait": _spread(cell.lock_wait),
        "foreground_errors": cell.foreground_errors,
        "statements_per_million_rows": round(cell.statements_per_million),
        "messages_per_million_rows": round(cell.messages_per_million),
        "retried": cell.retried,
        "replays": cell.replays,
        "rows_changed_by_replays": cell.replay_changed,
        "rows_done_again": {
            "killed_before_commit": cell.killed.before_commit,
            "killed_after_commit": cell.killed.after_commit,
        },
        "breaks": tuned.ceilings.broken(cell, tuned.idle),
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "p50_ms": _ms(spread.p50),
        "p95_ms": _ms(spread.p95),
        "p99_ms": _ms(spread.p99),
        "max_ms": _ms(spread.most),
        "samples": spread.samples,
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def draw(tuned: Tuned, files: Sequence[Path]) -> None:
    """The picture, once per file. Raises ImportError without matplotlib."""
    # Imported here: it is an extra.
    from bestbefore.adapters import plot

    best = tuned.recommendation
    title = f"{tuned.policy.rows.table}: {tuned.rows:,} made-up rows"
    plot.draw(files, title, tuned.cells, tuned.idle, tuned.ceilings, best)
