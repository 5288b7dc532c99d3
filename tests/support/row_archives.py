"""A shop that archives its old orders, and where every order is."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.formats import row_format
from support.audit import Audit
from support.cli_shop import CliShop
from support.forks import Child, Forks
from support.harness import SharedClock
from support.kills import LAPSED
from support.row_databases import RowDatabase

OLD, ALL = 24, 30


class ArchivingShop(CliShop):
    """24 old and 6 young orders, in batches of 10."""

    def __init__(self, folder: Path, forks: Forks, database: RowDatabase) -> None:
        super().__init__(folder, forks, database)
        self.clock = SharedClock(folder / "clock")
        self.audit = Audit(folder / "bestbefore.db")
        self.bucket = folder / "files" / "archive"
        self.bucket.mkdir(parents=True)
        self.orders(OLD, young=ALL - OLD)

    def to_files(self, form: str, **more: Any) -> None:
        """Have the orders go to files of a directory store."""
        files = {"store": "cold", "bucket": "archive", "prefix": "orders/", "format": form}
        root = {"kind": "directory", "root": str(self.bucket.parent)}
        self._archive(files, {"stores.cold": root}, more)

    def to_table(self, more_columns: str = "", **more: Any) -> None:
        """Have the orders go to the table ``gone``, with *more_columns*."""
        columns = f"id BIGINT PRIMARY KEY, placed_at {self.instant} NULL{more_columns}"
        self.database.run(f"CREATE TABLE gone ({columns})")
        self._archive({"table": "gone"}, {}, more)

    def _archive(
        self, archive: dict[str, Any], others: dict[str, dict[str, Any]], rows: dict[str, Any]
    ) -> None:
        self.write(policy='action = "archive"', **rows)
        sections = {"policies.stale.archive": archive} | others
        with (self.folder / "bestbefore.toml").open("a") as file:
            for name, keys in sections.items():
                lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                file.write(f"[{name}]\n{lines}")

    def start(self, program: str, *arguments: str) -> Child:
        return self.forks.start(program, arguments, cwd=self.folder)

    def kill(self, seam: str, number: int) -> None:
        """Have a worker die at a seam of `support.row_kills`."""
        child = self.start("support.row_kills:work", seam, str(number))
        assert child.wait(120) == -signal.SIGKILL, child.said()

    def drain(self) -> None:
        """Work on what a dead worker held, and on all the rest."""
        self.clock.step(LAPSED)
        child = self.start("support.harness:worker", "1", "drain")
        assert child.wait(120) == 0, child.said()

    def ids(self, table: str = "orders") -> list[int]:
        return list(map(int, self.left(table)))

    def files(self) -> dict[str, list[int]]:
        """The rows of each file in the archive, by its key. Every file is whole."""
        found = {}
        for path in sorted(self.bucket.rglob("*")):
            if path.is_file() and not path.name.endswith(".partial"):
                file = row_format(path.suffix[1:]).decode(path.read_bytes())
                found[str(path.relative_to(self.bucket))] = [int(str(row[0])) for row in file.rows]
        return found

    def named(self) -> set[str]:
        """The keys of the files that the ledger knows."""
        found = self.audit.rows("SELECT archive_key FROM operations WHERE copied_at IS NOT NULL")
        return {key for (key,) in found}

    def check_files(self) -> None:
        """What has to hold at any moment."""
        rows, files = set(self.ids()), self.files()
        for ids in files.values():
            assert len(set(ids)) == len(ids), "a row twice in one file"
        filed = {id_ for ids in files.values() for id_ in ids}
        assert filed | rows == set(range(1, ALL + 1)), "a row is in neither place"
        for key, archived in self.audit.rows(
            "SELECT o.archive_key, b.archived FROM operations o "
            "JOIN row_batches b ON b.operation = o.id WHERE o.outcome = 'archived'"
        ):
            assert len(files[key]) == archived
            assert rows.isdisjoint(files[key]), "archived, and still there"

    def check_end(self, archived: list[int]) -> None:
        """What has to hold once nothing is left to do."""
        assert sorted(archived) == list(range(1, OLD + 1)), "not each old row exactly once"
        assert self.ids() == list(range(OLD + 1, ALL + 1))
        assert self.audit.problems() == []
        ended = self.audit.rows("SELECT outcome, count(*) FROM operations GROUP BY outcome")
        assert [tuple(row) for row in ended] == [("archived", 3)]


@pytest.fixture
def archiving(tmp_path: Path, forks: Forks, row_database: RowDatabase) -> Iterator[ArchivingShop]:
    """On each kind of database."""
    made = ArchivingShop(tmp_path, forks, row_database)
    yield made
    made.clock.close()
