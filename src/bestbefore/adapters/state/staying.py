"""What a scan left where it is, by reason and prefix; functions on an open transaction."""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.schema import previews
from bestbefore.domain.prefixes import PrefixCounts


def load(connection: sa.Connection, run: int) -> dict[str, PrefixCounts]:
    """What is stored of *run* (a row) so far, by reason."""
    stored = connection.execute(
        sa.select(previews.c.stays).where(previews.c.run_id == run)
    ).scalar_one_or_none()
    found: dict[str, Any] = json.loads(stored) if stored else {}
    return {reason: PrefixCounts(base, counts) for reason, (base, counts) in found.items()}


def add(
    database: Database, connection: sa.Connection, run: int, more: Mapping[str, PrefixCounts]
) -> None:
    """Count *more* to what is stored of *run* (a row)."""
    if not more:
        return
    stays = load(connection, run)
    for reason, counts in more.items():
        stays.setdefault(reason, PrefixCounts(counts.base)).include(counts)
    text = json.dumps({reason: [counts.base, list(counts)] for reason, counts in stays.items()})
    connection.execute(
        database.insert(previews)
        .values(run_id=run, stays=text)
        .on_conflict_do_update(index_elements=["run_id"], set_={"stays": text})
    )
