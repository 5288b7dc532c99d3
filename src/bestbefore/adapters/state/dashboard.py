"""What only the dashboard needs of the state database."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.access import token_record
from bestbefore.adapters.state.database import Database, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import backlogs, policies, runs, sessions, tokens
from bestbefore.domain.access import Token
from bestbefore.ports.dashboard import BACKLOGS_KEPT, Backlog

_MINUTE = 60_000_000


@replays("end")
class SqlSessions:
    """`bestbefore.ports.dashboard.Sessions` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(self, session: bytes, token: bytes, until: datetime, now: datetime) -> None:
        with self._db.write() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.until <= micros(now)))
            connection.execute(
                sa.insert(sessions).values(digest=session, token=token, until=micros(until))
            )

    def holder(self, session: bytes, now: datetime) -> Token | None:
        with self._db.read() as connection:
            row = connection.execute(
                sa.select(tokens)
                .join(sessions, sessions.c.token == tokens.c.digest)
                .where(
                    sessions.c.digest == session,
                    sessions.c.until > micros(now),
                    sa.or_(tokens.c.until.is_(None), tokens.c.until > micros(now)),
                )
            ).one_or_none()
        return None if row is None else token_record(row)

    def end(self, session: bytes) -> None:
        with self._db.write() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.digest == session))


@replays("note")
class SqlBacklogs:
    """`bestbefore.ports.dashboard.Backlogs` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def note(self, now: datetime) -> None:
        minute = micros(now) // _MINUTE * _MINUTE
        with self._db.read() as connection:
            if connection.scalar(sa.select(backlogs.c.at).where(backlogs.c.at == minute).limit(1)):
                return
        left = (
            sa.select(
                policies.c.name,
                sa.literal(minute, sa.BigInteger),
                run_rows.total(runs.c.waiting + runs.c.pending - runs.c.held),
            )
            .join(policies, runs.c.policy_id == policies.c.id)
            .group_by(policies.c.name)
        )
        with self._db.write() as connection:
            connection.execute(
                self._db.insert(backlogs)
                .from_select(["policy", "at", "backlog"], left)
                .on_conflict_do_nothing(index_elements=["policy", "at"])
            )
            connection.execute(
                sa.delete(backlogs).where(backlogs.c.at < micros(now - BACKLOGS_KEPT))
            )

    def since(self, moment_: datetime, step: timedelta) -> Mapping[str, Sequence[Backlog]]:
        size = step // timedelta(microseconds=1)
        begins = (backlogs.c.at - backlogs.c.at % size).label("begins")
        with self._db.read() as connection:
            rows = connection.execute(
                sa.select(backlogs.c.policy, begins, sa.func.max(backlogs.c.backlog))
                .where(backlogs.c.at >= micros(moment_))
                .group_by(backlogs.c.policy, begins)
                .order_by(backlogs.c.policy, begins)
            ).fetchall()
        found: dict[str, list[Backlog]] = {}
        for name, at, n in rows:
            found.setdefault(name, []).append(Backlog(moment(at), n))
        return found
