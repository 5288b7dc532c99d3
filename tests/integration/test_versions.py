"""Buckets that keep versions, on a server that notices whatever comes back to life."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cli import Cli
from support.docs import commands, configurations
from support.faults import OLD, error
from support.forks import Forks, until
from support.stacks import Lock, VersionedS3

BUCKET = "exports"
KEY = "exports/a.json"


@pytest.fixture
def cli(tmp_path: Path, forks: Forks, stacked: VersionedS3) -> Cli:
    made = Cli(tmp_path, forks, stacked.endpoint)
    stacked.buckets.add(BUCKET)
    return made


def choose(cli: Cli, versions: str, **more: Any) -> None:
    cli.policy("exports", versions=versions, **more)


def stack(server: VersionedS3, key: str, n: int, *, hidden: bool = False) -> list[str]:
    """*n* old versions of *key*, and a marker over them; returns their ids, the oldest first."""
    ids = []
    for number in range(n):
        server.put(BUCKET, key, f"{key} {number}".encode(), OLD + timedelta(seconds=number))
        ids.append(server.newest(BUCKET, key))
    if hidden:
        ids.append(server.hide(BUCKET, key, OLD + timedelta(seconds=n)))
    return ids


@pytest.mark.parametrize("apart", [False, True], ids=["interleaved", "markers apart"])
@pytest.mark.parametrize("page_size", [1, 2, 7, 1000])
def test_purge_leaves_nothing_and_brings_nothing_back_whatever_the_pages(
    cli: Cli, stacked: VersionedS3, page_size: int, apart: bool
) -> None:
    stacked.page_size, stacked.apart = page_size, apart
    choose(cli, "purge")
    for n in range(9):
        stack(stacked, f"exports/{n}.json", n % 4 + 1, hidden=bool(n % 3))
    stack(stacked, "exports/many.json", 20, hidden=True)
    stacked.put(BUCKET, "elsewhere/a.json")
    total = len(stacked.entries(BUCKET))
    document = cli.json("run", "exports")
    assert document["state"] == "drained"
    assert document["work"]["outcomes"] == {"deleted": total - 1}
    assert document["work"]["retried"] == {}
    assert stacked.entries(BUCKET) == {
        ("elsewhere/a.json", stacked.newest(BUCKET, "elsewhere/a.json"))
    }
    assert stacked.resurrected == []
    assert cli.audit.problems() == []


@pytest.mark.parametrize("key", ["exports/\x01\x10", "exports/a+b %2B<&>\n", "exports/größe/"])
def test_odd_keys_are_purged_exactly(cli: Cli, stacked: VersionedS3, key: str) -> None:
    stack(stacked, key, 3, hidden=True)
    stack(stacked, "exports/other", 2)
    choose(cli, "purge", version="v1", folder_markers="delete")
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 6}
    assert stacked.entries(BUCKET) == set()
    assert stacked.resurrected == []


def test_the_newest_waits_while_one_under_it_is_dead_and_goes_after_it(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "purge", more={"attempts": {"unknown": 1, "permission": 1}})
    stack(stacked, KEY, 3, hidden=True)
    stack(stacked, "exports/b.json", 2)
    stacked.refuse(KEY, "AccessDenied", times=1)
    document = cli.json("run", "exports", code=1)
    assert document["work"]["outcomes"] == {"deleted": 4}
    assert document["work"]["left"] == {"dead": 1, "held": 1}
    assert document["state"] == "drained", "what is left waits for a person"
    assert len(stacked.stacks[BUCKET, KEY]) == 2
    assert stacked.newest(BUCKET, KEY) == "4"
    assert cli.json("status")["policies"][0]["held"] == 1
    assert cli.audit.problems() == []
    cli.json("dlq", "redrive", "--all")
    report = cli.json("work", "--drain")
    assert report["outcomes"] == {"deleted": 2}
    assert stacked.entries(BUCKET) == set()
    assert stacked.resurrected == []
    assert {run["state"] for run in cli.json("runs", "list")} == {"drained"}


def test_the_newest_stays_over_one_that_a_person_discarded(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", more={"attempts": {"unknown": 1, "permission": 1}})
    stack(stacked, KEY, 2, hidden=True)
    stacked.refuse(KEY, "AccessDenied", times=1)
    cli.json("run", "exports", code=1)
    cli.json("dlq", "discard", "--all", "--reason", "legal keeps it")
    assert cli.json("work", "--drain")["outcomes"] == {"protected": 1}
    assert len(stacked.stacks[BUCKET, KEY]) == 2
    assert stacked.objects.get((BUCKET, KEY)) is None, "it is still hidden"
    cli.new_slot()
    again = cli.json("run", "exports")
    assert (again["plan"]["already_dead"], again["plan"]["already_completed"]) == (1, 1)
    assert stacked.resurrected == []
    assert cli.audit.problems() == []


def test_a_newer_run_over_a_newer_version_does_not_wait_in_a_circle(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "purge", more={"attempts": {"unknown": 1, "permission": 1}})
    stack(stacked, KEY, 2)
    stacked.refuse(KEY, "AccessDenied", times=1)
    cli.json("run", "exports", code=1)  # the first is dead, and the second waits for it
    stacked.put(BUCKET, KEY, b"third", OLD + timedelta(hours=1))
    cli.new_slot()
    document = cli.json("run", "exports", code=1)
    assert document["work"]["outcomes"] == {"deleted": 1}, "the second is not the newest any more"
    assert [entry.id for entry in stacked.stacks[BUCKET, KEY]] == ["3", "1"]
    assert cli.audit.problems() == []
    cli.json("dlq", "redrive", "--all")
    assert cli.json("work", "--drain")["outcomes"] == {"deleted": 2}
    assert stacked.entries(BUCKET) == set()
    assert stacked.resurrected == []
    assert cli.audit.problems() == []


def test_cancelling_what_the_newest_waits_for_keeps_it(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", more={"attempts": {"unknown": 1, "permission": 1}})
    stack(stacked, KEY, 3)
    first = cli.json("plan", "exports")
    cli.json("runs", "cancel", first["run_id"])
    assert cli.json("work", "--drain")["received"] == 0
    assert len(stacked.stacks[BUCKET, KEY]) == 3
    cli.new_slot()
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 3}
    assert stacked.resurrected == []
    assert cli.audit.problems() == []


def test_a_version_that_somebody_else_removed_is_absent_and_frees_nothing(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "purge")
    stack(stacked, KEY, 2)
    stacked.fail("DeleteObjects", error(500, "InternalError"), after_effect=True, times=1)
    document = cli.json("run", "exports")
    assert document["work"]["outcomes"]["absent"] == 1
    assert stacked.entries(BUCKET) == set()


def test_noncurrent_counts_from_the_successor_and_leaves_what_readers_see(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "noncurrent")
    now = datetime.now(UTC)
    stack(stacked, KEY, 2)
    stacked.put(BUCKET, KEY, b"now", now)
    stack(stacked, "exports/hidden.json", 2, hidden=True)
    stacked.hide(BUCKET, "exports/lone.json")
    stacked.hide(BUCKET, "exports/young.json", now)
    document = cli.json("run", "exports")
    # Of a.json the first: the second is current until now. Of hidden.json both.
    assert document["plan"]["eligible"] == 4
    assert document["work"]["outcomes"] == {"deleted": 4}
    assert document["work"]["freed_bytes"] == len(b"exports/a.json 0") + 2 * len(
        b"exports/hidden.json 0"
    )
    assert [entry.id for entry in stacked.stacks[BUCKET, KEY]] == ["3", "2"]
    assert len(stacked.stacks[BUCKET, "exports/hidden.json"]) == 1
    assert stacked.resurrected == []
    assert (BUCKET, "exports/young.json") in stacked.stacks


def test_three_deliveries_leave_one_marker_o_vers_02(
    cli: Cli, stacked: VersionedS3, tmp_path: Path
) -> None:
    """O-VERS-02: the same command three times, and one for a key that never existed."""
    choose(cli, "marker")
    stacked.put(BUCKET, KEY)
    cli.json("plan", "exports")
    for _ in range(2):
        with stacked.stall("HeadObject"):
            # The first two die after the store has written the marker, before anything is
            # recorded: what they had in hand is delivered again.
            stacked.fail("DeleteObjects", error(500, "InternalError"), after_effect=True)
            worker = cli.spawn("work")
            until(lambda: len(stacked.stacks[BUCKET, KEY]) == 2, what="a marker")
            worker.kill()
            worker.wait()
        _make_due(cli)
    report = cli.json("work", "--drain")
    assert report["outcomes"] == {"absent": 1}
    assert [entry.stored is None for entry in stacked.stacks[BUCKET, KEY]] == [True, False]
    assert cli.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'") == 1


def _make_due(cli: Cli) -> None:
    """What a killed worker held is anybody's: as if its lease had run out."""
    with cli.audit.changing() as connection:
        connection.execute("UPDATE operations SET due_at = 0 WHERE state = 'pending'")


def test_a_locked_version_is_tried_once_and_its_newest_waits(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "purge")
    locked, newest = stack(stacked, KEY, 2)
    stacked.lock(BUCKET, KEY, locked, Lock(datetime.now(UTC) + timedelta(days=60)))
    for _ in range(3):
        document = cli.json("run", "exports")
        assert document["state"] == "drained"
        assert document["work"]["left"] == {"held": 2}
        cli.new_slot()
    assert stacked.removals == [(KEY, locked)]
    assert stacked.newest(BUCKET, KEY) == newest
    assert cli.json("verify", "exports")["held"] == 2
    assert cli.audit.problems() == []


def test_a_lock_that_cannot_be_seen_is_a_lack_of_rights(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", more={"attempts": {"permission": 1}})
    (only,) = stack(stacked, KEY, 1)
    stacked.lock(BUCKET, KEY, only, Lock(legal=True))
    stacked.fail("HeadObject", error(403, "AccessDenied"), times=9)
    cli.json("run", "exports", code=1)
    (letter,) = cli.json("dlq", "list")
    assert letter["failure_class"] == "permission"


def test_a_corrected_dead_letter_names_a_version(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", more={"attempts": {"permission": 1}})
    old, newest = stack(stacked, KEY, 2)
    stacked.refuse(KEY, "AccessDenied", times=1)
    cli.json("run", "exports", code=1)
    (letter,) = cli.json("dlq", "list")
    other, _ = stack(stacked, "exports/b.json", 2)
    id_ = letter["operation_id"]
    said = cli("dlq", "redrive", "--id", id_, "--set", "key=exports/b.json", code=2).err
    assert "version=ID" in said
    assert letter["command"]["version_id"] == old
    newer = stacked.newest(BUCKET, "exports/b.json")
    said = cli("dlq", "redrive", "--id", id_, "--set", "key=exports/b.json",
               "--set", f"version={newer}", code=2).err  # fmt: skip
    assert "leave it to the next run" in said
    cli.json("dlq", "redrive", "--id", id_, "--set", "key=exports/b.json",
             "--set", f"version={other}")  # fmt: skip
    cli.json("work", "--drain")
    assert [entry.id for entry in stacked.stacks[BUCKET, "exports/b.json"]] == [newer]
    assert stacked.newest(BUCKET, KEY) == newest, "what was under it is still there"
    assert stacked.resurrected == []


def test_explain_says_of_each_version_why_it_stays_or_goes(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "noncurrent")
    stack(stacked, KEY, 2)
    stacked.put(BUCKET, KEY, b"now", datetime.now(UTC))
    document = cli.json("explain", "exports", KEY)
    assert document["eligible"] is True
    young, old, newest = document["reasons"]
    assert young.startswith("version 2,")
    assert "stays" in young
    assert old.startswith("version 1,")
    assert old.endswith("goes")
    assert newest.startswith("newest version 3,")
    assert "only those before it go" in newest


def test_the_page_about_versions_can_be_typed_as_it_stands(cli: Cli, stacked: VersionedS3) -> None:
    cli.policies.clear()
    cli.extra = '[policies.weekly-digest-exports]\nversion = "v1"\nolder_than = "30d"\n\n'
    cli.extra += configurations("versions.md")[0]
    cli.store("exports", stacked.endpoint, ("key-id", "secret"))
    key = "exports/2026-06/customer-1842.json"
    for n in range(3):
        stacked.put("weekly-digests", key, b"%d" % n)
    stacked.hide("weekly-digests", "exports/2026-06/gone.json")
    for arguments in commands("versions.md"):
        cli(*arguments)
    assert stacked.entries("weekly-digests") == set()
    assert stacked.resurrected == []


def test_marker_mode_on_a_store_that_ignores_conditions_hides_once_and_keeps_what_is_new(
    cli: Cli, stacked: VersionedS3
) -> None:
    stacked.honours.clear()
    choose(cli, "marker")
    for name in "abc":
        stacked.put(BUCKET, f"exports/{name}.json", b"seen")
    cli.json("plan", "exports")
    stacked.put(BUCKET, "exports/b.json", b"rewritten", datetime.now(UTC))
    stacked.hide(BUCKET, "exports/c.json")
    assert cli.json("work", "--drain")["outcomes"] == {"absent": 1, "changed": 1, "deleted": 1}
    markers = {
        key: sum(entry.stored is None for entry in stack)
        for (_, key), stack in stacked.stacks.items()
    }
    assert markers == {"exports/a.json": 1, "exports/b.json": 0, "exports/c.json": 1}


def test_a_null_marker_goes_and_what_took_its_place_stays(cli: Cli, stacked: VersionedS3) -> None:
    stacked.versioning = "Suspended"
    choose(cli, "noncurrent")
    for name in "ab":
        stacked.hide(BUCKET, f"exports/{name}.json")
    cli.json("plan", "exports")
    stacked.put(BUCKET, "exports/b.json", b"new")
    assert cli.json("work", "--drain")["outcomes"] == {"changed": 1, "deleted": 1}
    assert stacked.objects.keys() == {(BUCKET, "exports/b.json")}


def test_a_store_without_multi_delete_removes_versions_one_by_one(
    cli: Cli, stacked: VersionedS3
) -> None:
    stacked.fail("DeleteObjects", error(501, "NotImplemented"), times=99, when=lambda _: True)
    choose(cli, "purge")
    stack(stacked, KEY, 3, hidden=True)
    stack(stacked, "exports/b.json", 2)
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 6}
    assert stacked.entries(BUCKET) == set()
    assert stacked.resurrected == []


def test_a_version_that_the_answer_does_not_name_is_unknown_and_tried_again(
    cli: Cli, stacked: VersionedS3
) -> None:
    choose(cli, "purge")
    stack(stacked, KEY, 2)
    stacked.hidden.add(KEY)
    document = cli.json("run", "exports")
    assert document["work"]["retried"] == {"unknown": 2}
    assert document["work"]["outcomes"] == {"absent": 2}
    assert document["work"]["freed_bytes"] == 0


def test_generations_and_the_last_n_count_what_readers_see(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", generation=r"exports/(?P<generation>\d{4}-\d{2})/", keep_generations=1)
    stack(stacked, "exports/2026-01/a.json", 2)
    stack(stacked, "exports/2026-02/a.json", 3)
    stack(stacked, "exports/2026-03/a.json", 2, hidden=True)  # nobody sees this one any more
    document = cli.json("run", "exports")
    assert document["plan"]["protected"] == {"generation": 3}
    assert {key for key, _ in stacked.entries(BUCKET)} == {"exports/2026-02/a.json"}
    assert stacked.resurrected == []


def test_the_last_n_stay_without_what_lies_under_them(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge", keep_last=1)
    stack(stacked, "exports/a.json", 2)
    kept = stack(stacked, "exports/b.json", 4)[-1]
    document = cli.json("run", "exports")
    assert document["plan"]["protected"] == {"keep_last": 1}
    assert stacked.entries(BUCKET) == {("exports/b.json", kept)}
    assert stacked.resurrected == []


def test_check_says_whether_versions_may_be_removed(cli: Cli, stacked: VersionedS3) -> None:
    choose(cli, "purge")
    codes = {finding["code"] for finding in cli.json("check")["findings"]}
    assert "versions-removable" in codes
    stacked.fail("DeleteObject", error(403, "AccessDenied"), when=lambda _: True)
    findings = {finding["code"]: finding for finding in cli.json("check")["findings"]}
    finding = findings["delete-unproven"]
    assert "s3:DeleteObjectVersion" in finding["remedy"]
    assert stacked.entries(BUCKET) == set(), "a probe leaves nothing"
