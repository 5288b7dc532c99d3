"""Rows that are archived, and workers killed between any two steps of it: every row is in its table
or in the archive, at any moment, and in the end each is in exactly one of the two."""

from datetime import timedelta

import pytest

from support.cli_shop import OLD
from support.row_archives import ALL, ArchivingShop
from support.row_kills import SEAMS


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("seam", SEAMS)
def test_a_worker_killed_between_two_steps_loses_no_row_and_files_none_twice(
    archiving: ArchivingShop, seam: str, form: str
) -> None:
    archiving.to_files(form)
    archiving("plan", "stale")
    archiving.kill(seam, 2)
    archiving.check_files()
    archiving.drain()
    archiving.check_files()
    files = archiving.files()
    archiving.check_end([id_ for ids in files.values() for id_ in ids])
    assert archiving.named() == files.keys()


@pytest.mark.parametrize("seam", ["written", "recorded", "deleting"])
def test_a_row_that_changes_after_the_kill_is_filed_as_it_is_when_it_goes(
    archiving: ArchivingShop, seam: str
) -> None:
    archiving.to_files("jsonl")
    archiving("plan", "stale")
    archiving.kill(seam, 2)
    later = OLD + timedelta(seconds=12.5)
    archiving.database.run(f"UPDATE orders SET placed_at = '{later}' WHERE id = 12")  # noqa: S608
    archiving.drain()
    archiving.check_files()
    files, named = archiving.files(), archiving.named()
    archiving.check_end([id_ for key in named for id_ in files[key]])
    (there,) = [key for key in named if 12 in files[key]]
    assert f"{later.time()}" in (archiving.bucket / there).read_text()
    # What was on record and counts no more is removed; what never was stays unnamed.
    assert len(files.keys() - named) == (seam == "written")


@pytest.mark.parametrize("stamp", ["", ", bestbefore_operation_id CHAR(64)"])
@pytest.mark.parametrize("seam", ["deleting", "deleted", "told"])
def test_a_worker_killed_around_its_commit_moves_all_of_a_batch_or_nothing(
    archiving: ArchivingShop, seam: str, stamp: str
) -> None:
    archiving.to_table(stamp)
    archiving("plan", "stale")
    archiving.kill(seam, 2)
    assert sorted(archiving.ids() + archiving.ids("gone")) == list(range(1, ALL + 1))
    gone = len(archiving.ids("gone"))
    # A worker tells of several batches at a time.
    assert gone == (10 if seam == "deleting" else 20) or (seam == "told" and 20 < gone <= ALL)
    archiving.drain()
    archiving.check_end(archiving.ids("gone"))
