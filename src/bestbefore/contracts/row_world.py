"""A database of rows as the suites see it, and short words for what they do again and again."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from bestbefore.domain.failure import Failure
from bestbefore.domain.rows import Divided, Effect, RowBatch, RowSource, TimestampKind
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowDeleter, RowReader, RowTask

CUTOFF = datetime(2026, 6, 1, tzinfo=UTC)
OLD, NEW = (int((CUTOFF + timedelta(days=days)).timestamp()) for days in (-1, 1))
"""Epoch seconds, which all databases store alike."""

ME = "tester"


@dataclass(frozen=True, slots=True)
class RowWorld:
    """A database as everybody sees it. ``kind`` is ``postgresql``, ``mysql`` or ``sqlite``.

    ``run`` executes statements as somebody else would, each committed; names in double quotes work
    everywhere. ``ask`` returns the rows of a query, ``holding`` keeps a transaction with some
    statements open. ``schema`` is another one than that of names without a schema, empty; None
    where there is no such thing.
    """

    kind: str
    reader: RowReader
    deleter: RowDeleter
    run: Callable[..., None]
    ask: Callable[[str], list[tuple[Any, ...]]]
    holding: Callable[..., AbstractContextManager[None]]
    schema: str | None = None

    def insert(self, table: str, *rows: Sequence[Any]) -> None:
        """Insert whole rows; strings are quoted."""
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        self.run(f"INSERT INTO {table} VALUES {values}")  # noqa: S608

    def ids(self, table: str, column: str = "id") -> list[Any]:
        return [id_ for (id_,) in self.ask(f"SELECT {column} FROM {table} ORDER BY {column}")]  # noqa: S608

    def plan(self, source: RowSource, size: int = 100, cutoff: datetime = CUTOFF) -> list[RowTask]:
        """Every batch of *source*, as a plan would have it."""
        facts = self.reader.describe(source)
        found: list[RowBatch] = []
        for gap in self.reader.gaps(source, facts, []):
            rest: KeyRange | None = gap
            while rest is not None:
                slice_ = self.reader.slice(source, facts, cutoff, rest, size, 10_000)
                found += slice_.batches
                rest = slice_.rest
        return [task(source, batch, cutoff) for batch in found]

    def task(self, source: RowSource, size: int = 100) -> RowTask:
        """The only batch of *source*."""
        (only,) = self.plan(source, size)
        return only

    def delete(self, source: RowSource, what: RowTask) -> Effect:
        """Delete a batch that nothing keeps from going."""
        end = self.deleter.delete(source, what, ME)
        assert isinstance(end, Effect), end
        return end

    def fails(self, source: RowSource, what: RowTask) -> Failure:
        end = self.deleter.delete(source, what, ME)
        assert isinstance(end, Failure), end
        return end

    def divides(self, source: RowSource, what: RowTask) -> Divided:
        end = self.deleter.delete(source, what, ME)
        assert isinstance(end, Divided), end
        return end

    def drain(self, source: RowSource, size: int = 100) -> list[Effect]:
        """Plan and work until nothing is left of the plan."""
        ends: list[Effect] = []
        waiting = self.plan(source, size)
        while waiting:
            what = waiting.pop(0)
            end = self.deleter.delete(source, what, ME)
            if isinstance(end, Divided):
                waiting += [task(source, part, what.cutoff) for part in end.parts]
            else:
                assert isinstance(end, Effect), end
                ends.append(end)
        return ends

    def keep_on_hold(self) -> None:
        """A trigger that has rows on hold stay, without a word."""
        match self.kind:
            case "sqlite":
                self.run(
                    "CREATE TRIGGER no_hold BEFORE DELETE ON events WHEN OLD.hold = 1 "
                    "BEGIN SELECT RAISE(IGNORE); END"
                )
            case "postgresql":
                self.run(
                    "CREATE FUNCTION no_hold() RETURNS trigger LANGUAGE plpgsql AS "
                    "'BEGIN RETURN CASE WHEN OLD.hold = 1 THEN NULL ELSE OLD END; END'",
                    "CREATE TRIGGER no_hold BEFORE DELETE ON events FOR EACH ROW "
                    "EXECUTE FUNCTION no_hold()",
                )
            case _:
                pytest.skip("triggers cannot do that here")

    def refuse_on_hold(self) -> None:
        """A trigger that fails where a row is on hold."""
        said = "on hold, says the shop"
        match self.kind:
            case "sqlite":
                self.run(
                    "CREATE TRIGGER no_hold BEFORE DELETE ON events WHEN OLD.hold = 1 "
                    f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
                )
            case "postgresql":
                self.run(
                    "CREATE FUNCTION no_hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                    f"IF OLD.hold = 1 THEN RAISE EXCEPTION '{said}'; END IF; RETURN OLD; END $$",
                    "CREATE TRIGGER no_hold BEFORE DELETE ON events FOR EACH ROW "
                    "EXECUTE FUNCTION no_hold()",
                )
            case _:
                self.run(
                    "CREATE TRIGGER no_hold BEFORE DELETE ON events FOR EACH ROW "
                    "IF OLD.hold = 1 THEN SIGNAL SQLSTATE '45000' "
                    f"SET MESSAGE_TEXT = '{said}'; END IF"
                )

    def log_twice(self) -> None:
        """A trigger that writes two rows for each that goes."""
        insert = "INSERT INTO log VALUES (OLD.id), (OLD.id)"
        body = f"BEGIN {insert}; END"
        if self.kind == "postgresql":
            self.run(
                "CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS "
                f"'BEGIN {insert}; RETURN OLD; END'"
            )
            body = "EXECUTE FUNCTION log_it()"
        self.run(f"CREATE TRIGGER log_it AFTER DELETE ON events FOR EACH ROW {body}")


def table(name: str = "events", **more: Any) -> RowSource:
    """A source whose times are epoch seconds in ``at``."""
    said = {"timestamp": "at", "timestamp_kind": TimestampKind.EPOCH_S, "allow_full_scan": True}
    return RowSource("shop", name, **(said | more))  # type: ignore[arg-type]


def task(source: RowSource, batch: RowBatch, cutoff: datetime = CUTOFF) -> RowTask:
    """*batch* as a worker gets it."""
    name = f"{source.table} {cutoff} {batch.label}"
    return RowTask(sha256(name.encode()).digest(), "stale", "v1", batch, cutoff)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
