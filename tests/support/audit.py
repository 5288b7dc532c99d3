"""Looks into a state database from outside, while others use it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bestbefore.adapters.state.postgresql import LOCK
from support.row_audit import row_problems

STATES = ("waiting", "pending", "completed", "dead")


class Audit:
    """A ledger read by plain SQL, so that the product's own reading cannot hide a mistake."""

    _snapshot = "BEGIN"
    _tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"

    def __init__(self, file: Path) -> None:
        self.file = file

    def rows(self, statement: str, *values: object) -> list[Any]:
        """The rows of one query; they know their columns by name and by number."""
        with self._connection() as connection:
            return connection.execute(statement, values).fetchall()

    def one(self, statement: str, *values: object) -> Any:
        """The only column of the only row."""
        (row,) = self.rows(statement, *values)
        return row[0]

    def watch(self) -> None:
        """From now on, note each change of an operation's state, whoever makes it."""
        with self._connection() as connection:
            connection.executescript("""
                CREATE TABLE IF NOT EXISTS audit_steps (
                    operation INTEGER, before TEXT, after TEXT, outcome TEXT, run INTEGER);
                CREATE TRIGGER IF NOT EXISTS audit_step AFTER UPDATE OF state ON operations
                WHEN OLD.state <> NEW.state OR NEW.state = 'completed'
                BEGIN
                    INSERT INTO audit_steps
                    VALUES (NEW.id, OLD.state, NEW.state, NEW.outcome, NEW.run_id);
                END;
            """)

    def completed_twice(self) -> list[tuple[str, int]]:
        """Keys of operations that `watch` saw completed more than once without being planned
        again in between, and how often."""
        return [
            tuple(row)
            for row in self.rows("""
                SELECT min(o.key), count(*) FROM audit_steps s
                JOIN operations o ON o.id = s.operation
                WHERE s.after = 'completed'
                GROUP BY s.operation
                HAVING count(*) > 1 + (SELECT count(*) FROM audit_steps again
                    WHERE again.operation = s.operation AND again.before = 'completed'
                    AND again.after <> 'completed')
            """)
        ]

    def problems(self) -> list[str]:
        """Every way in which stored counts and counted operations disagree (P11)."""
        found: list[str] = []
        with self._connection() as connection:
            connection.execute(self._snapshot)  # one for all of it
            counted: dict[int, dict[str, int]] = {}
            for run, state, n in connection.execute(
                "SELECT run_id, state, count(*) FROM operations GROUP BY run_id, state"
            ):
                counted.setdefault(run, {})[state] = n
            outcomes: dict[int, dict[str, int]] = {}
            for run, outcome, n in connection.execute(
                "SELECT run_id, outcome, count(*) FROM operations WHERE state = 'completed' "
                "GROUP BY run_id, outcome"
            ):
                outcomes.setdefault(run, {})[outcome] = n
            tallied: dict[int, dict[str, int]] = {}
            for run, name, n in connection.execute(
                "SELECT run_id, name, n FROM run_tallies WHERE kind = 'outcome' AND n <> 0"
            ):
                tallied.setdefault(run, {})[name] = n
            all_held = {
                row["run_id"]: row["n"]
                for row in connection.execute(
                    "SELECT run_id, count(*) AS n FROM operations WHERE held GROUP BY run_id"
                )
            }
            for row in connection.execute("SELECT * FROM runs"):
                stored = {state: row[state] for state in STATES}
                real = {state: counted.get(row["id"], {}).get(state, 0) for state in STATES}
                real["completed"] += row["pruned"]
                name = f"run {row['run_id']} ({row['state']})"
                if stored != real:
                    found.append(f"{name}: stored {stored}, counted {real}")
                if row["planned"] != sum(stored.values()):
                    found.append(f"{name}: planned {row['planned']} of {stored}")
                held = all_held.get(row["id"], 0)
                if row["held"] != held:
                    found.append(f"{name}: stored {row['held']} held, counted {held}")
                if row["state"] == "drained" and (real["waiting"] or real["pending"] != held):
                    found.append(f"{name}: drained with {real}")
                if not row["pruned"] and tallied.get(row["id"], {}) != outcomes.get(row["id"], {}):
                    found.append(f"{name}: tallies {tallied.get(row['id'])}, "
                                 f"outcomes {outcomes.get(row['id'])}")  # fmt: skip
            half_done = connection.execute(
                "SELECT key, state, outcome, token, due_at FROM operations WHERE "
                "(state = 'completed') <> (outcome IS NOT NULL AND completed_at IS NOT NULL) OR "
                "(state = 'pending') <> (due_at IS NOT NULL) OR "
                "(token IS NOT NULL AND state <> 'pending') OR (held AND state <> 'pending')"
            ).fetchall()
            found += [f"half done: {tuple(row)}" for row in half_done]
            found += row_problems(connection.execute)
        return found

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table, to compare before and after."""
        with self._connection() as connection:
            tables = [row[0] for row in connection.execute(self._tables)]
            return {
                table: [tuple(row) for row in connection.execute(f'SELECT * FROM "{table}"')]  # noqa: S608
                for table in tables
            }

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Hold the database's one write lock: every other writer waits until the end."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """Change the ledger behind its back, in one transaction."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        with closing(sqlite3.connect(self.file, timeout=30, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            yield connection


class PostgresAudit(Audit):
    """The same for a ledger on PostgreSQL at *url*."""

    _snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    _tables = (
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = current_schema() ORDER BY table_name"
    )

    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")

    def watch(self) -> None:
        with self._connection() as connection:
            connection.execute("""
                CREATE TABLE IF NOT EXISTS audit_steps (
                    operation BIGINT, before TEXT, after TEXT, outcome TEXT, run INTEGER);
                CREATE OR REPLACE FUNCTION audit_step() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    INSERT INTO audit_steps
                    VALUES (NEW.id, OLD.state, NEW.state, NEW.outcome, NEW.run_id);
                    RETURN NULL;
                END $$;
                CREATE OR REPLACE TRIGGER audit_step AFTER UPDATE OF state ON operations
                FOR EACH ROW WHEN (OLD.state <> NEW.state OR NEW.state = 'completed')
                EXECUTE FUNCTION audit_step();
            """)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self._connection() as connection:
            connection.execute("BEGIN")
            connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        with psycopg.connect(self.url, autocommit=True, row_factory=_rows) as connection:
            yield _Questions(connection)


class _Questions:
    """A connection whose parameters are question marks, as SQLite's are."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values or None)


class _Row(tuple[Any, ...]):
    """A row that knows its columns by name, too."""

    names: Sequence[str]

    def __getitem__(self, which: Any) -> Any:
        return super().__getitem__(self.names.index(which) if isinstance(which, str) else which)


def _rows(cursor: psycopg.Cursor[Any]) -> Any:
    names = [column.name for column in cursor.description or ()]

    def made(values: Sequence[Any]) -> _Row:
        row = _Row(values)
        row.names = names
        return row

    return made
