"""Who verifies which drained run."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, micros
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import policies, runs
from bestbefore.domain.failure import NEVER
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState


@replays("claim", "close")
class SqlProofs:
    """`bestbefore.ports.proofs.Proofs` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def claim(self, policies_: Mapping[str, str], now: datetime, lease: timedelta) -> Run | None:
        free = sa.and_(
            runs.c.state == RunState.DRAINED,
            runs.c.drained_at.is_not(None),
            sa.or_(runs.c.proof_until.is_(None), runs.c.proof_until <= micros(now)),
        )
        with self._db.read() as connection:
            wanted = [
                row
                for name, version in policies_.items()
                if (row := _newest(connection, name, version)) is not None
                # Nearly always there is none: that must not take the write lock.
                and connection.execute(sa.select(runs.c.id).where(runs.c.id == row, free)).first()
            ]
        for row in wanted:
            with self._db.write() as connection:
                claimed = connection.execute(
                    sa.update(runs)
                    .where(runs.c.id == row, free)
                    .values(proof_until=micros(now + lease))
                ).rowcount
                if claimed:
                    return run_rows.one(connection, row)
        return None

    def close(self, run: Run) -> None:
        with self._db.write() as connection:
            connection.execute(
                sa.update(runs).where(runs.c.id == run.row).values(proof_until=micros(NEVER))
            )


def _newest(connection: sa.Connection, name: str, version: str) -> int | None:
    """The newest released run of *name*, if it is of *version*."""
    found = connection.execute(
        sa.select(runs.c.id, policies.c.version)
        .join(policies)
        .where(policies.c.name == name, runs.c.released_at.is_not(None))
        .order_by(runs.c.slot.desc(), runs.c.id.desc())
        .limit(1)
    ).one_or_none()
    return found.id if found is not None and found.version == version else None
