"""Archived rows come back, once, into their table, and over nothing else."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cli_shop import NOW, SLOT
from support.row_archives import ALL, OLD, ArchivingShop

STAMP = ", bestbefore_operation_id CHAR(64)"
KINDS = ["gone", "gone stamped", "jsonl", "parquet"]


def archive(shop: ArchivingShop, kind: str = "gone stamped") -> tuple[list[Any], str]:
    """Archive all old orders; the table as it was, and the run."""
    if kind.startswith("gone"):
        shop.to_table(STAMP if "stamped" in kind else "")
    else:
        shop.to_files(kind)
    before = shop.database.ask("SELECT * FROM orders ORDER BY id")
    run = shop.json("run", "stale", "--slot", SLOT)
    assert run["work"]["rows"] == {"archived": OLD}
    assert len(shop.ids()) == ALL - OLD
    return before, run["plan"]["run_id"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_comes_back_once_and_every_row_as_it_was(archiving: ArchivingShop, kind: str) -> None:
    before, run = archive(archiving, kind)

    said = archiving.json("restore", "--run", run, "--dry-run")
    assert (said["would_restore"], said["restored"], said["unit"]) == (OLD, 0, "row")
    assert len(archiving.ids()) == ALL - OLD

    said = archiving.json("restore", "--run", run)
    assert (said["restored"], said["already_there"], said["complete"]) == (OLD, 0, True)
    assert (said["conflicts"], said["missing"], said["failed"]) == ([], [], [])
    assert said["selected_again"] == ["stale"]
    assert archiving.database.ask("SELECT * FROM orders ORDER BY id") == before
    if kind.startswith("gone"):
        assert archiving.ids("gone") == []
    else:
        assert sum(map(len, archiving.files().values())) == OLD
    assert all(line["archive"]["restored_at"] for line in archiving("export").lines)

    said = archiving.json("restore", "--run", run)
    assert (said["restored"], said["already_there"]) == (0, OLD)
    assert archiving.database.ask("SELECT * FROM orders ORDER BY id") == before


def test_one_batch_comes_back_by_its_operation(archiving: ArchivingShop) -> None:
    _, _ = archive(archiving)
    first = archiving("export").lines[0]
    assert first["archive"] == {"table": "gone", "restored_at": None}
    reply = archiving("restore", "--id", first["operation_id"][:16])
    assert "brought back 10 rows" in reply.out
    assert "the next run of stale takes them again" in reply.out
    assert "bestbefore hold add --policy stale" in reply.out
    assert len(archiving.ids()) == ALL - OLD + 10
    (event,) = archiving.audit.rows("SELECT action, detail, policy FROM events")
    assert tuple(event) == ("restore", "brought back 10 rows into orders", "stale")


def test_a_hold_keeps_what_came_back_and_without_one_it_goes_again(
    archiving: ArchivingShop,
) -> None:
    _, run = archive(archiving)
    archiving("restore", "--run", run)
    held = archiving.json("hold", "add", "--policy", "stale", "--reason", "looking")["hold_id"]
    next_, last = ((NOW + timedelta(seconds=n)).isoformat() + "Z" for n in (1, 2))
    assert archiving.json("run", "stale", "--slot", next_)["plan"]["published"] == 0
    assert len(archiving.ids()) == ALL
    archiving("hold", "remove", held)
    again = archiving.json("run", "stale", "--slot", last, "--yes")
    assert again["work"]["rows"] == {"archived": OLD}
    assert archiving.ids("gone") == list(range(1, OLD + 1))


@pytest.mark.parametrize("kind", ["gone stamped", "jsonl"])
def test_what_has_a_rows_place_by_now_is_left_alone_and_told_of(
    archiving: ArchivingShop, kind: str
) -> None:
    _, run = archive(archiving, kind)
    archiving.insert("orders", (3, NOW))
    said = archiving.json("restore", "--run", run, code=1)
    assert said["restored"] == OLD - 1
    (conflict,) = said["conflicts"]
    assert "1 rows were left where they are" in conflict["error"]
    assert conflict["bucket"] == "orders"
    assert archiving.ids() == list(range(1, ALL + 1))
    if kind.startswith("gone"):
        assert archiving.ids("gone") == [3]
    archiving.database.run("DELETE FROM orders WHERE id = 3")
    said = archiving.json("restore", "--run", run)
    assert (said["restored"], said["already_there"]) == (1, OLD - 1)


def test_a_file_that_is_gone_or_is_another_one_brings_nothing_back(
    archiving: ArchivingShop,
) -> None:
    _, run = archive(archiving, "jsonl")
    one, two, three = (archiving.bucket / key for key in archiving.files())
    one.unlink()
    two.write_bytes(two.read_bytes().replace(b'"id": ', b'"id": 4', 1))
    three.write_bytes(three.read_bytes()[:-1])

    said = archiving.json("restore", "--run", run, code=1)

    assert said["restored"] == 0
    (missing,) = said["missing"]
    assert "no such file" in missing["error"]
    assert Path(missing["archive"]["key"]).name == one.name
    assert len(said["failed"]) == 2
    assert len(archiving.ids()) == ALL - OLD


def test_rows_of_a_file_of_another_batch_are_not_taken_for_its_own(
    archiving: ArchivingShop,
) -> None:
    _, run = archive(archiving, "parquet")
    files = archiving.files()
    one, two, _ = files
    (archiving.bucket / one).write_bytes((archiving.bucket / two).read_bytes())
    said = archiving.json("restore", "--run", run, code=1)
    (failed,) = said["failed"]
    assert "not the file that was written" in failed["error"]
    assert said["restored"] == OLD - len(files[one])


def test_rows_come_back_after_their_policy_is_gone(archiving: ArchivingShop) -> None:
    before, run = archive(archiving, "jsonl")
    file = archiving.folder / "bestbefore.toml"
    sections = ["[" + part for part in file.read_text().split("\n[") if "policies" not in part]
    file.write_text("\n".join(part.replace("[[", "[") for part in sections))
    archiving("restore", "--run", run)
    assert archiving.database.ask("SELECT * FROM orders ORDER BY id") == before


def test_without_its_database_nothing_comes_back_and_it_says_which(
    archiving: ArchivingShop,
) -> None:
    _, run = archive(archiving)
    (archiving.folder / "bestbefore.toml").write_text("")
    assert (
        "databases.shop: expected this database" in archiving("restore", "--run", run, code=2).err
    )
