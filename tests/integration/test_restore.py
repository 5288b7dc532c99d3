"""Archived objects come back, once, to where they were, and never over anything else."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.cli import Cli, fill
from support.faults import OLD, FaultyS3, error, internal_error, slow_down
from support.forks import Forks
from support.kills import held

ARCHIVE = {"store": "s", "bucket": "archive", "prefix": "digests/"}


class Archived:
    """A policy whose only run has archived *keys*."""

    def __init__(self, folder: Path, forks: Forks, faulty: FaultyS3) -> None:
        self.server = faulty
        faulty.buckets |= {"exports", "archive"}
        self.cli = Cli(folder, forks, faulty.endpoint)
        self.cli.policy("exports", more={"action": "archive", "archive": ARCHIVE})
        self.keys = fill(faulty, 10)
        faulty.copies.describe("exports", self.keys[0], {"team": "growth"}, content_type="text/x")
        self.run = self.cli.json("run", "exports")["plan"]["run_id"]
        assert faulty.keys("exports") == set()

    def restore(self, *more: str, code: int = 0) -> Any:
        return self.cli.json("restore", "--run", self.run, *more, code=code)

    def copy_of(self, key: str) -> tuple[str, str]:
        (found,) = [place for place in self.server.objects if place[1].endswith(f"/{key}")]
        return found

    @property
    def here(self) -> dict[str, bytes]:
        return {
            key: stored.body
            for (bucket, key), stored in self.server.objects.items()
            if bucket == "exports"
        }


@pytest.fixture
def archived(tmp_path: Path, forks: Forks, faulty: FaultyS3) -> Archived:
    return Archived(tmp_path, forks, faulty)


def test_a_run_comes_back_with_metadata_and_tags_and_the_archive_keeps_its_copies(
    archived: Archived,
) -> None:
    said = archived.restore()
    assert (said["restored"], said["already_there"], said["complete"]) == (10, 0, True)
    assert (said["conflicts"], said["missing"], said["failed"]) == ([], [], [])
    assert archived.here == {key: key.encode() for key in archived.keys}
    details = archived.server.copies.read("exports", archived.keys[0])
    assert (details.headers["content-type"], details.tags) == ("text/x", {"team": "growth"})
    assert len(archived.server.keys("archive")) == 10
    events = archived.cli.audit.rows("SELECT action, detail, by FROM events")
    assert [event["action"] for event in events] == ["restore"] * 10
    assert all(event["detail"].startswith("brought back from digests/") for event in events)
    assert all("@" in event["by"] for event in events)
    assert all(line["archive"]["restored_at"] for line in archived.cli("export").lines)


def test_twice_is_harmless_and_says_so(archived: Archived) -> None:
    archived.restore()
    copies = len(archived.server.asked("CopyObject"))
    said = archived.restore()
    assert (said["restored"], said["already_there"]) == (0, 10)
    assert len(archived.server.asked("CopyObject")) == copies
    assert "already there: 10" in archived.cli("restore", "--run", archived.run).out


def test_one_operation_comes_back_by_the_beginning_of_its_id(archived: Archived) -> None:
    line = next(line for line in archived.cli("export").lines if line["key"] == archived.keys[3])
    said = archived.cli.json("restore", "--id", line["operation_id"][:16])
    assert said["restored"] == 1
    assert archived.here.keys() == {archived.keys[3]}


def test_a_dry_run_looks_and_copies_nothing(archived: Archived) -> None:
    archived.server.put("exports", archived.keys[0], b"other")
    said = archived.restore("--dry-run", code=1)
    assert (said["restored"], said["would_restore"], len(said["conflicts"])) == (0, 9, 1)
    assert archived.here == {archived.keys[0]: b"other"}


def test_what_is_there_now_is_left_alone(archived: Archived) -> None:
    newer = archived.server.put("exports", archived.keys[4], b"newer")
    said = archived.restore(code=1)
    assert said["restored"] == 9
    (conflict,) = said["conflicts"]
    assert conflict["key"] == archived.keys[4]
    assert conflict["archive"]["key"].endswith(archived.keys[4])
    assert archived.server.objects["exports", archived.keys[4]] == newer


def test_what_appears_between_the_look_and_the_copy_is_left_alone(archived: Archived) -> None:
    key = archived.keys[4]

    def appear(_truth: Any) -> Any:
        archived.server.put("exports", key, b"newer")
        return error(412, "PreconditionFailed")

    archived.server.fail("CopyObject", appear, when=lambda r: r.key == key)
    said = archived.restore(code=1)
    assert [conflict["key"] for conflict in said["conflicts"]] == [key]
    assert archived.here[key] == b"newer"


def test_a_copy_that_is_gone_is_missing_and_one_that_is_another_is_not_taken(
    archived: Archived,
) -> None:
    del archived.server.objects[archived.copy_of(archived.keys[1])]
    bucket, other = archived.copy_of(archived.keys[2])
    archived.server.put(bucket, other, b"something else")
    said = archived.restore(code=1)
    assert said["restored"] == 8
    assert [entry["key"] for entry in said["missing"]] == [archived.keys[1]]
    assert [entry["key"] for entry in said["failed"]] == [archived.keys[2]]
    assert "not the copy that was archived" in said["failed"][0]["error"]
    assert archived.here.keys() == set(archived.keys) - {archived.keys[1], archived.keys[2]}


def test_one_object_that_may_not_be_written_fails_alone(archived: Archived) -> None:
    archived.server.copies.unwritable.add(archived.keys[7])
    said = archived.restore(code=1)
    assert said["restored"] == 9
    (failed,) = said["failed"]
    assert "AccessDenied" in failed["error"]
    archived.server.copies.unwritable.clear()
    said = archived.restore()
    assert (said["restored"], said["already_there"]) == (1, 9)


@pytest.mark.parametrize("answer", [internal_error(), slow_down(retry_after="0")])
def test_a_store_that_is_merely_busy_is_asked_again(archived: Archived, answer: Any) -> None:
    archived.server.fail("CopyObject", answer, times=2)
    assert archived.restore()["restored"] == 10


def test_a_restored_object_is_not_due_again_at_once(archived: Archived) -> None:
    """It is as old as its return: what the policy counts from is LastModified."""
    archived.restore()
    archived.cli.new_slot()
    again = archived.cli.json("plan", "exports", "--yes")
    assert (again["scanned"], again["eligible"], again["reappeared"]) == (10, 0, 0)


def test_a_restored_object_that_grows_old_again_is_archived_beside_the_first_copy(
    archived: Archived,
) -> None:
    archived.restore()
    for place, stored in list(archived.server.objects.items()):
        if place[0] == "exports":
            later = datetime(2026, 2, 1, tzinfo=UTC)
            archived.server.objects[place] = stored._replace(modified=later)
    archived.cli.new_slot()
    assert archived.cli.json("run", "exports", "--yes")["work"]["outcomes"] == {"archived": 10}
    assert len(archived.server.keys("archive")) == 20


def test_a_killed_restore_is_finished_by_the_same_command(archived: Archived) -> None:
    with held(archived.server, "HeadObject", when=lambda r: r.bucket == "exports") as come:
        child = archived.cli.spawn("restore", "--run", archived.run)
        assert come.wait(30)
        child.kill()
        child.wait()
    said = archived.restore()
    assert said["restored"] + said["already_there"] == 10
    assert archived.here == {key: key.encode() for key in archived.keys}


def test_ctrl_c_ends_after_the_batch_in_hand_and_the_same_command_goes_on(
    archived: Archived,
) -> None:
    with held(archived.server, "CopyObject") as come:
        child = archived.cli.spawn("restore", "--run", archived.run, "--json")
        assert come.wait(30)
        child.kill(2)
    assert child.wait() == 0  # ten objects are one batch
    assert archived.restore()["already_there"] == 10


def test_a_policy_that_is_gone_from_the_file_can_still_be_undone(archived: Archived) -> None:
    del archived.cli.policies["exports"]
    archived.cli.write()
    assert archived.restore()["restored"] == 10


def test_a_store_that_is_gone_from_the_file_is_asked_for(archived: Archived) -> None:
    del archived.cli.policies["exports"]
    archived.cli.stores = {"other": archived.cli.stores["s"]}
    archived.cli.write()
    reply = archived.cli("restore", "--run", archived.run, code=2)
    assert "stores.s: expected this store" in reply.err


def test_what_was_never_archived_is_said(archived: Archived) -> None:
    assert "say which" in archived.cli("restore", code=2).err
    reply = archived.cli("restore", "--id", "ffff", code=2)
    assert "operation ffff has no copy in an archive" in reply.err
    assert "no such run" in archived.cli("restore", "--run", "ffff", code=2).err
    archived.server.put("exports", "exports/now.json", b"x", OLD)
    archived.cli.policy("exports", version="v2")
    archived.cli.new_slot()
    run = archived.cli.json("run", "exports", "--yes")["plan"]["run_id"]
    assert archived.cli.json("restore", "--run", run)["restored"] == 0
    assert archived.cli.json("restore", "--run", archived.run, "--policy", "x")["restored"] == 0
