"""Is a database under strain? Questions of a moment, on a connection of their own."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Access
from bestbefore.adapters.rows.dialects import dialect_named
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.domain.throttle import Limits, Strain

_SECONDS = 2
"""How long one question may take; who cannot answer it so soon is under strain."""

_ACCESS = Access(read_only=True, lock=_SECONDS, statement=_SECONDS)

# What a role may not see is NULL, and so is the lag of one that has nothing to do.
_POSTGRESQL_LAG = """
    SELECT extract(epoch FROM max(replay_lag)), count(*) FILTER (WHERE state IS NULL),
        count(*) FILTER (WHERE state = 'catchup' AND replay_lag IS NULL)
    FROM pg_catalog.pg_stat_replication
"""
_POSTGRESQL_WAIT = """
    SELECT extract(epoch FROM max(clock_timestamp() - {since}))
    FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
    WHERE NOT l.granted AND a.datname = current_database()
        AND a.application_name IS DISTINCT FROM current_setting('application_name')
"""
# The server writes these times in its own zone, whatever the session's.
_MARIADB_WAIT = """
    SELECT max(timestampdiff(MICROSECOND, trx_wait_started,
        convert_tz(sysdate(6), @@session.time_zone, 'SYSTEM'))) / 1000000
    FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'
"""
_MARIADB_REPLICAS = """
    SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'
"""

_Ask = Callable[[sa.Connection], float | str | None]
"""What was found: seconds, or why it cannot be told; None where there is nothing."""


class SqlPressure:
    """`bestbefore.ports.rows.RowPressure` on a SQL database."""

    def __init__(self, url: str) -> None:
        there = sa.make_url(url)
        self._kind = there.get_backend_name().replace("mysql", "mariadb")
        self._engine = dialect_named(there.get_backend_name()).engine(there, _ACCESS)

    def strain(self, limits: Limits) -> Strain | None:
        lag = self._over(limits.replica_lag, _LAG.get(self._kind), "a replica is {} behind")
        wait = self._over(limits.lock_wait, _WAIT.get(self._kind), "somebody waits {} for a lock")
        for key, ask in (("replica_lag", lag), ("lock_wait", wait), ("sql", _own(limits.sql))):
            if ask is not None and (found := self._found(ask)) is not None:
                return Strain(key, found)
        return None

    def close(self) -> None:
        self._engine.dispose()

    def _found(self, ask: Callable[[sa.Connection], str | None]) -> str | None:
        try:
            with self._engine.connect() as connection, connection.begin():
                return ask(connection)
        except sa.exc.SQLAlchemyError as error:
            return failure_of(error, "it cannot be asked").error

    @staticmethod
    def _over(
        limit: timedelta | None, ask: _Ask | None, words: str
    ) -> Callable[[sa.Connection], str | None] | None:
        """What *ask* finds, if it is more than *limit*. SQLite has neither replicas nor a way to
        tell who waits."""
        if limit is None or ask is None:
            return None
        most = limit.total_seconds()

        def asked(connection: sa.Connection) -> str | None:
            found = ask(connection)
            if found is None or isinstance(found, str):
                return found
            if found <= most:
                return None
            return f"{words.format(f'{found:.1f} s')}, at most {most:g} s is allowed"

        return asked


def _own(sql: str | None) -> Callable[[sa.Connection], str | None] | None:
    """The policy author's own question: no row and NULL are no strain."""
    if sql is None:
        return None

    def asked(connection: sa.Connection) -> str | None:
        value = _first(connection, sql)
        try:
            above = value is not None and float(value) > 0
        except (TypeError, ValueError):
            return f"it gives {str(value)[:80]!r}, expected a number"
        return f"it gives {value}, which is above 0" if above else None

    return asked


def _postgresql_lag(connection: sa.Connection) -> float | str | None:
    lag, hidden, behind = connection.exec_driver_sql(_POSTGRESQL_LAG).one()
    if hidden:
        return "this role may not see how far replicas are behind; grant it pg_monitor"
    if behind:
        return "a replica was away and is catching up"
    return None if lag is None else float(lag)


def _postgresql_wait(connection: sa.Connection) -> float | None:
    version = connection.dialect.server_version_info or ()
    since = "l.waitstart" if version >= (14,) else "a.query_start"
    wait = _first(connection, _POSTGRESQL_WAIT.format(since=since))
    return None if wait is None else float(wait)


def _mariadb_lag(connection: sa.Connection) -> float | str | None:
    """How far this server is behind its own source. Of its replicas it only knows that they are
    there."""
    maria = getattr(connection.dialect, "is_mariadb", False)
    ask = "SHOW ALL REPLICAS STATUS" if maria else "SHOW REPLICA STATUS"
    sources = connection.exec_driver_sql(ask).mappings().all()
    if any(_behind(source) is None for source in sources):
        return "this server is a replica, and replication does not run"
    if not sources and _first(connection, _MARIADB_REPLICAS):
        return (
            "this server has replicas and cannot tell how far they are behind; ask one of them "
            "with `http`, or the table of a heartbeat with `sql`"
        )
    return max((float(_behind(source)) for source in sources), default=None)


def _behind(source: sa.RowMapping) -> Any:
    return source.get("Seconds_Behind_Master", source.get("Seconds_Behind_Source"))


def _mariadb_wait(connection: sa.Connection) -> float | None:
    wait = _first(connection, _MARIADB_WAIT)
    return None if wait is None else float(wait)


def _first(connection: sa.Connection, sql: str) -> Any:
    """The first value of the first row; None without one. A percent sign in *sql* is just that."""
    found = connection.execution_options(no_parameters=True).exec_driver_sql(sql).first()
    return None if found is None else found[0]


_LAG: Mapping[str, _Ask] = {"postgresql": _postgresql_lag, "mariadb": _mariadb_lag}
_WAIT: Mapping[str, _Ask] = {"postgresql": _postgresql_wait, "mariadb": _mariadb_wait}
