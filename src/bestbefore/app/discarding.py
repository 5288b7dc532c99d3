"""Closing dead letters without deleting anything."""

from bestbefore.app.system import System
from bestbefore.ports.ledger import DeadFilter


def discarded(
    system: System,
    which: DeadFilter,
    reason: str,
    by: str,
    *,
    limit: int | None = None,
    dry_run: bool = False,
) -> int:
    """Close what *which* selects, at most *limit* of it: dead letters, and messages that execute
    nothing. Returns how many; a dry run only counts them."""
    rows = [letter.row for letter in system.dead_letters.dead(which, limit)]
    rest = None if limit is None else limit - len(rows)
    strays = [] if rest == 0 else [stray.stray_id for stray in system.strays.found(which, rest)]
    if dry_run:
        return len(rows) + len(strays)
    now = system.clock.now()
    done = system.dead_letters.discard(rows, reason, by, now)
    return done + system.strays.discard(strays, reason, by, now)
