"""The command line with one policy, ``stale``, about the ``orders`` of a shop.

shop.orders(25, young=5)
assert shop.json("run", "stale")["work"]["rows"] == {"deleted": 25}
assert shop.left() == ["26", "27", "28", "29", "30"]
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cli import PARTS, Reply, check_output, finish
from support.forks import Forks
from support.row_databases import RowDatabase, _sqlite

NOW = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
OLD, YOUNG = NOW - timedelta(days=90), NOW - timedelta(days=1)
SLOT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


class CliShop:
    """A configuration in *folder* about *database*."""

    def __init__(self, folder: Path, forks: Forks, database: RowDatabase) -> None:
        self.folder, self.forks, self.database = folder, forks, database
        self.instant = "DATETIME(6)" if database.kind == "mysql" else "TIMESTAMP"
        self.write()

    def write(
        self,
        url: str | None = None,
        database: str = "",
        policy: str = "",
        more: str = "",
        version: str = "v1",
        **rows: Any,
    ) -> None:
        """Write the file. *database* and *policy* are more lines of these, *more* whole sections;
        *rows* more keys of the policy's rows, or others in their place."""
        keys = {"database": "shop", "table": "orders", "timestamp": "placed_at",
                "timestamp_zone": "UTC", "batch_size": 10} | rows  # fmt: skip
        (self.folder / "bestbefore.toml").write_text(
            f"[databases.shop]\nurl = {json.dumps(url or self.database.url)}\n{database}\n"
            f'[policies.stale]\nversion = "{version}"\nowner = "shop"\nolder_than = "30d"\n'
            f"{policy}\n"
            "[policies.stale.rows]\n"
            + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
            + more
        )

    def __call__(self, *words: str, code: int = 0, env: Mapping[str, str] | None = None) -> Reply:
        """Run a command to its end; it must exit with *code*."""
        child = self.forks.start("support.harness:program", words, cwd=self.folder, env=env)
        reply = finish(child)
        check_output(reply, words)
        assert reply.code == code, (words, reply)
        return reply

    def json(self, *words: str, code: int = 0) -> Any:
        """The document that a command prints with ``--json``."""
        document = self(*words, "--json", code=code).json
        plan = document.get("plan", document) if isinstance(document, dict) else {}
        if "eligible" in plan and "published" in plan:
            assert plan["eligible"] == sum(plan[part] for part in PARTS), plan
        return document

    def orders(self, n: int = 25, *, young: int = 5) -> None:
        """A table with *n* old orders and some *young* ones, numbered on."""
        dates = [OLD + timedelta(seconds=number) for number in range(1, n + 1)] + young * [YOUNG]
        self.database.run(
            f"CREATE TABLE orders (id BIGINT PRIMARY KEY, placed_at {self.instant} NULL)",
            "CREATE INDEX orders_by_date ON orders (placed_at, id)",
        )
        self.insert("orders", *enumerate(dates, 1))

    def lines(self, *orders: int) -> None:
        """A table whose rows, numbered from 1, refer to *orders*."""
        self.database.run(
            "CREATE TABLE order_lines (id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL, "
            "FOREIGN KEY (order_id) REFERENCES orders (id))",
            "CREATE INDEX lines_by_order ON order_lines (order_id)",
        )
        self.insert("order_lines", *enumerate(orders, 1))

    def insert(self, table: str, *rows: Sequence[object]) -> None:
        """Insert whole rows; numbers go as they are."""
        values = ", ".join(
            "(" + ", ".join(f"{v}" if isinstance(v, int) else f"'{v}'" for v in row) + ")"
            for row in rows
        )
        self.database.run(f"INSERT INTO {table} VALUES {values}")  # noqa: S608

    def refuse(self, order: int) -> None:
        """A trigger that lets nobody delete *order*; `allow` takes it away."""
        match self.database.kind:
            case "sqlite":
                self.database.run(
                    f"CREATE TRIGGER no BEFORE DELETE ON orders WHEN OLD.id = {order} "
                    "BEGIN SELECT RAISE(ABORT, 'says the shop'); END"
                )
            case "postgresql":
                self.database.run(
                    "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                    f"IF OLD.id = {order} THEN RAISE EXCEPTION 'says the shop'; END IF; "
                    "RETURN OLD; END $$",
                    "CREATE TRIGGER no BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION no()",
                )
            case _:
                self.database.run(
                    f"CREATE TRIGGER no BEFORE DELETE ON orders FOR EACH ROW IF OLD.id = {order} "
                    "THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'says the shop'; END IF"
                )

    def allow(self) -> None:
        on = " ON orders" if self.database.kind == "postgresql" else ""
        self.database.run(f"DROP TRIGGER no{on}")

    def left(self, table: str = "orders") -> list[str]:
        """What is left of a table, by id."""
        return [str(key) for (key,) in self.database.ask(f"SELECT id FROM {table} ORDER BY id")]  # noqa: S608


@pytest.fixture
def shop(tmp_path: Path, forks: Forks, row_database: RowDatabase) -> CliShop:
    """On each kind of database."""
    return CliShop(tmp_path, forks, row_database)


@pytest.fixture
def small_shop(tmp_path: Path, forks: Forks) -> CliShop:
    """On SQLite alone, for what is the same on every database."""
    return CliShop(tmp_path, forks, _sqlite(tmp_path / "rows.db"))
