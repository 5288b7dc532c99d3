"""Archiving, through the command line and through workers that get killed: an original goes only
once its copy is verified and on record, and whatever happens there is exactly one copy."""

import random
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cli import Cli, fill
from support.faults import OLD, Answer, FaultyS3, error, internal_error, slow_down
from support.forks import Child, Forks, until
from support.harness import SharedClock
from support.kills import LAPSED, held, random_instant, stop

ARCHIVE = {"store": "s", "bucket": "archive", "prefix": "digests/"}


class Archive:
    """A policy that archives ``exports/`` of the bucket ``exports`` into ``archive``."""

    def __init__(self, folder: Path, forks: Forks, faulty: FaultyS3) -> None:
        self.server = faulty
        self.forks = forks
        self.folder = folder
        self.clock = SharedClock(folder / "clock")
        faulty.date = self.clock.now
        faulty.buckets |= {"exports", "archive"}
        self.cli = Cli(folder, forks, faulty.endpoint)
        self.policy()
        self.audit = self.cli.audit
        self.cli("status")
        self.audit.watch()

    def policy(self, version: str = "v1", **archive: str) -> None:
        more: dict[str, Any] = {
            "action": "archive",
            "archive": ARCHIVE | archive,
            "attempts": {"permission": 1, "unknown": 1},
        }
        self.cli.policy("exports", version=version, more=more)

    def start(self, program: str, *arguments: str) -> Child:
        return self.forks.start(f"support.harness:{program}", arguments, cwd=self.folder)

    def plan(self) -> None:
        child = self.start("planner", "exports", "new")
        assert child.wait() == 0, child.said()

    def drain(self) -> None:
        self.clock.step(LAPSED)
        child = self.start("worker", "4", "drain")
        assert child.wait(120) == 0, child.said()

    @property
    def here(self) -> set[str]:
        return self.server.keys("exports")

    @property
    def archived(self) -> dict[str, bytes]:
        """The bodies in the archive by the key of their original; each there once."""
        found: dict[str, bytes] = {}
        for (bucket, key), stored in self.server.objects.items():
            if bucket == "archive":
                original = key.removeprefix("digests/").partition("/")[2]
                assert original not in found, f"two copies of {original}"
                found[original] = stored.body
        return found

    def outcomes(self) -> dict[str, int]:
        return {
            row[0]: row[1]
            for row in self.audit.rows(
                "SELECT coalesce(outcome, state), count(*) FROM operations GROUP BY 1"
            )
        }

    def check(self) -> None:
        """What has to hold at any moment."""
        assert self.audit.problems() == []
        assert self.audit.completed_twice() == []
        ended = self.audit.rows("SELECT key FROM operations WHERE outcome = 'archived'")
        for (key,) in ended:
            assert self.archived.get(key) == key.encode(), f"{key} is archived nowhere"
            assert key not in self.here


@pytest.fixture
def archive(tmp_path: Path, forks: Forks, faulty: FaultyS3) -> Iterator[Archive]:
    made = Archive(tmp_path, forks, faulty)
    yield made
    made.clock.close()


def test_what_is_archived_is_copied_recorded_and_gone(archive: Archive) -> None:
    keys = fill(archive.server, 30)
    archive.server.put("exports", "other/a.json")
    archive.server.copies.describe("exports", keys[0], {"team": "growth"}, content_type="text/x")
    document = archive.cli.json("run", "exports")
    assert document["work"]["outcomes"] == {"archived": 30}
    assert document["state"] == "drained"
    assert archive.here == {"other/a.json"}
    assert archive.archived == {key: key.encode() for key in keys}
    archive.check()
    shown = archive.cli.json("runs", "show", document["plan"]["run_id"])
    total = sum(len(key) for key in keys)
    assert (shown["outcomes"], shown["archived_bytes"], shown["freed_bytes"]) == (
        {"archived": 30},
        total,
        0,
    )
    for line in archive.cli("export").lines:
        assert line["archive"]["bucket"] == "archive"
        assert line["archive"]["key"] == f"digests/{line['operation_id'][:12]}/{line['key']}"
        assert line["archive"]["etag"] == line["etag"]
        assert line["archive"]["copied_at"] <= line["completed_at"]
    (first,) = [key for bucket, key in archive.server.objects if key.endswith(keys[0])]
    details = archive.server.copies.read("archive", first)
    assert (details.headers["content-type"], details.tags) == ("text/x", {"team": "growth"})


def test_a_dry_run_and_a_plan_copy_nothing(archive: Archive) -> None:
    fill(archive.server, 3)
    assert archive.cli.json("plan", "exports", "--dry-run")["eligible"] == 3
    assert archive.cli.json("plan", "exports")["eligible"] == 3
    assert archive.archived == {}
    assert archive.server.asked("CopyObject") == []


def test_a_key_whose_copy_would_be_too_long_is_refused_by_the_plan(archive: Archive) -> None:
    fits = "exports/" + "k" * (1024 - len("exports/") - len("digests/") - 13)
    archive.server.put("exports", fits, fits.encode())
    archive.server.put("exports", fits + "k")
    document = archive.cli.json("run", "exports")
    assert (document["plan"]["eligible"], document["plan"]["refused"]) == (2, 1)
    assert archive.here == {fits + "k"}
    assert archive.archived == {fits: fits.encode()}
    said = archive.cli.json("explain", "exports", fits + "k")
    assert "its copy's would have 1,025" in said["reasons"][0]


def test_odd_keys_are_archived_to_the_byte(archive: Archive) -> None:
    keys = {
        f"exports/{odd}" for odd in ("a+b", "a b", "%2B", "\x01\x10", "new\nline", "ü", "q?x#y")
    }
    for key in keys:
        archive.server.put("exports", key, key.encode())
    assert archive.cli.json("run", "exports")["work"]["outcomes"] == {"archived": len(keys)}
    assert archive.archived == {key: key.encode() for key in keys}


# -- changes in between --------------------------------------------------------------------------


def test_what_was_overwritten_after_the_plan_is_neither_copied_nor_deleted(
    archive: Archive,
) -> None:
    keys = fill(archive.server, 3)
    archive.cli.json("plan", "exports")
    newer = archive.server.put("exports", keys[1], b"newer")
    assert archive.cli.json("work", "--drain")["outcomes"] == {"archived": 2, "changed": 1}
    assert archive.server.objects["exports", keys[1]] == newer
    assert archive.archived.keys() == {keys[0], keys[2]}


@pytest.mark.parametrize("honoured", [True, False], ids=["conditions", "no conditions"])
def test_what_is_overwritten_after_its_copy_stays_and_so_does_the_copy_of_what_was_seen(
    archive: Archive, honoured: bool
) -> None:
    if not honoured:
        archive.server.honours.clear()
        archive.server.copies.honours_source = False
    (key,) = fill(archive.server, 1)

    def overwrite(truth: Answer) -> Answer:
        archive.server.put("exports", key, b"newer")
        return truth

    archive.server.fail("HeadObject", overwrite, after_effect=True, when=_looks_at_a_copy)
    assert archive.cli.json("run", "exports")["work"]["outcomes"] == {"changed": 1}
    assert archive.server.objects["exports", key].body == b"newer"
    assert archive.archived == {key: key.encode()}
    (event,) = archive.audit.rows("SELECT action, detail, policy FROM events")
    assert event["action"] == "copy left"
    assert event["detail"].startswith("changed after it was copied; the copy stays: digests/")
    assert event["policy"] == "exports"
    archive.check()


def _looks_at_a_copy(request: Any) -> bool:
    return bool(request.bucket == "archive")


def test_what_vanished_before_its_copy_is_absent_and_after_it_archived(archive: Archive) -> None:
    first, second = fill(archive.server, 2)
    archive.cli.json("plan", "exports")
    del archive.server.objects["exports", first]

    def remove(truth: Answer) -> Answer:
        del archive.server.objects["exports", second]
        return truth

    archive.server.fail("HeadObject", remove, after_effect=True, when=_looks_at_a_copy)
    assert archive.cli.json("work", "--drain")["outcomes"] == {"absent": 1, "archived": 1}
    assert archive.archived == {second: second.encode()}


def test_what_is_held_or_tagged_after_the_plan_is_neither_copied_nor_deleted(
    archive: Archive,
) -> None:
    archive.cli.policy(
        "exports",
        version="v2",
        more={"action": "archive", "archive": ARCHIVE},
        lacks_tags=["keep"],
    )
    held_, tagged, goes = fill(archive.server, 3)
    archive.cli.json("plan", "exports")
    archive.server.tags["exports", tagged] = {"keep": "yes"}
    archive.cli("hold", "add", "--store", "s", "--bucket", "exports", "--prefix", held_,
                "--reason", "court")  # fmt: skip
    assert archive.cli.json("work", "--drain")["outcomes"] == {"archived": 1, "protected": 2}
    assert archive.here == {held_, tagged}
    assert archive.archived.keys() == {goes}


def test_what_is_put_on_hold_while_a_long_copy_is_made_is_not_deleted(archive: Archive) -> None:
    (key,) = fill(archive.server, 1)
    archive.plan()
    with held(archive.server, "CopyObject") as come:
        child = archive.start("worker", "1", "drain")
        assert come.wait(30)
        archive.cli("hold", "add", "--policy", "exports", "--reason", "court")
        archive.clock.step(timedelta(seconds=31))
    assert child.wait() == 0, child.said()
    assert archive.outcomes() == {"protected": 1}
    assert archive.here == {key}


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [error(200, "InternalError"), internal_error(), slow_down(retry_after="0")],
    ids=["an error inside a success", "500", "slow down"],
)
def test_a_copy_that_fails_is_tried_again_and_deletes_nothing_meanwhile(
    archive: Archive, answer: Answer
) -> None:
    (key,) = fill(archive.server, 1)
    archive.server.fail("CopyObject", answer)
    document = archive.cli.json("run", "exports")
    assert document["work"]["outcomes"] == {"archived": 1}
    assert sum(document["work"]["retried"].values()) == 1
    copies = [i for i, r in enumerate(archive.server.requests) if r.operation == "CopyObject"]
    deletes = [
        i for i, r in enumerate(archive.server.requests) if r.operation.startswith("Delete")
        and key in (r.key, *r.keys)
    ]  # fmt: skip
    assert len(copies) == 2
    assert min(deletes) > max(copies)


def test_a_missing_archive_stops_the_policy_with_one_dead_letter(archive: Archive) -> None:
    archive.policy("v2", bucket="nowhere")
    keys = fill(archive.server, 20)
    assert archive.cli.json("run", "exports", code=1)["work"]["dead"] == 1
    assert archive.here == set(keys)
    (letter,) = archive.cli.json("dlq", "list")
    assert letter["failure_class"] == "malformed"
    assert "s3://nowhere" in letter["error"]
    assert "NoSuchBucket" in archive.cli.json("status")["policies"][0]["paused"]
    archive.server.buckets.add("nowhere")
    archive.cli("resume", "exports")
    archive.cli("dlq", "redrive", "--all")
    assert archive.cli.json("work", "--drain")["outcomes"] == {"archived": 20}


def test_a_denied_copy_deletes_nothing_and_leaves_its_neighbours_alone(archive: Archive) -> None:
    keys = fill(archive.server, 5)
    archive.cli.json("plan", "exports")
    operation = archive.audit.one("SELECT hex(operation_id) FROM operations WHERE key = ?", keys[2])
    archive.server.copies.unwritable.add(f"digests/{operation[:12].lower()}")
    document = archive.cli.json("work", "--drain", code=1)
    assert (document["outcomes"], document["dead"]) == ({"archived": 4}, 1)
    assert archive.here == {keys[2]}
    (letter,) = archive.cli.json("dlq", "list")
    assert letter["failure_class"] == "permission"
    assert archive.cli.json("dlq", "show", letter["operation_id"])["archive"] is None


def test_a_delete_denied_after_the_copy_is_redriven_without_another_copy(archive: Archive) -> None:
    (key,) = fill(archive.server, 1)
    archive.server.denied.add("exports/")
    assert archive.cli.json("run", "exports", code=1)["work"]["dead"] == 1
    assert archive.here == {key}
    (letter,) = archive.cli.json("dlq", "list")
    shown = archive.cli.json("dlq", "show", letter["operation_id"])
    assert shown["archive"]["key"].endswith(key)
    assert "copied to archive/digests/" in archive.cli("dlq", "show", letter["operation_id"]).out
    archive.server.denied.clear()
    archive.cli("dlq", "redrive", "--all")
    assert archive.cli.json("work", "--drain")["outcomes"] == {"archived": 1}
    assert len(archive.server.asked("CopyObject")) == 1
    archive.check()


def test_a_recorded_copy_that_is_gone_by_the_redrive_is_made_again(archive: Archive) -> None:
    (key,) = fill(archive.server, 1)
    archive.server.denied.add("exports/")
    archive.cli.json("run", "exports", code=1)
    archive.server.objects = {p: o for p, o in archive.server.objects.items() if p[0] == "exports"}
    archive.server.denied.clear()
    archive.cli("dlq", "redrive", "--all")
    assert archive.cli.json("work", "--drain")["outcomes"] == {"archived": 1}
    assert archive.archived == {key: key.encode()}
    assert len(archive.server.asked("CopyObject")) == 2


# -- kills ---------------------------------------------------------------------------------------


def _in_archive(request: Any) -> bool:
    return bool(request.bucket == "archive")


def _is_delete(request: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("operation", "effect", "when", "recorded"),
    [
        ("CopyObject", False, _in_archive, False),
        ("CopyObject", True, _in_archive, False),
        ("HeadObject", True, _in_archive, False),
        ("DeleteObjects", False, _is_delete, True),
        ("DeleteObjects", True, _is_delete, True),
    ],
    ids=[
        "before the copy",
        "after the copy",
        "between the copy and its record",
        "between the record and the delete",
        "between the delete and its record",
    ],
)
def test_a_kill_at_any_point_leaves_one_copy_and_no_original(
    archive: Archive, operation: str, effect: bool, when: Callable[[Any], bool], recorded: bool
) -> None:
    keys = fill(archive.server, 5)
    archive.plan()
    with held(archive.server, operation, effect=effect, when=when) as come:
        child = archive.start("worker", "1")
        assert come.wait(30)
        if operation != "DeleteObjects":
            # The other copies of the batch get as far as they can.
            until(lambda: len(archive.server.asked("CopyObject")) == len(keys), what="all copies")
        child.kill()
        assert child.wait() == -signal.SIGKILL
    copied = archive.audit.one("SELECT count(*) FROM operations WHERE copied_at IS NOT NULL")
    assert copied == (len(keys) if recorded else 0)
    archive.check()
    asked = len(archive.server.asked("CopyObject"))
    archive.drain()
    archive.check()
    assert archive.outcomes() == {"archived": len(keys)}
    assert archive.here == set()
    assert archive.archived == {key: key.encode() for key in keys}
    again = len(archive.server.asked("CopyObject")) - asked
    assert again == (0 if recorded else len(keys))


def test_a_worker_that_wakes_up_after_its_lease_deletes_nothing_it_did_not_record(
    archive: Archive,
) -> None:
    (key,) = fill(archive.server, 1)
    archive.plan()
    with held(archive.server, "HeadObject", when=_in_archive) as come:
        sleeper = archive.start("worker", "1", "drain")
        assert come.wait(30)
        stop(sleeper, archive.folder)
        archive.clock.step(LAPSED)
        # Claimed again under another token, as a second worker would.
        with archive.audit.writing() as connection:
            connection.execute("UPDATE operations SET token = 1")
            connection.execute("COMMIT")
            connection.execute("BEGIN")
    sleeper.kill(signal.SIGCONT)
    until(lambda: "lease" in sleeper.said(), what="a word about the lost lease")
    sleeper.kill()
    sleeper.wait()
    assert archive.here == {key}
    assert archive.audit.one("SELECT count(*) FROM operations WHERE copied_at IS NOT NULL") == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kills_at_random_instants_lose_nothing(archive: Archive, seed: int) -> None:
    chance = random.Random(seed)
    keys = set(fill(archive.server, 60))
    archive.plan()
    killed = 0
    while killed < 12:
        child = archive.start("worker", str(chance.choice((1, 4))), "drain")
        random_instant(chance, archive.server, [child], (1, 2, 3, 5, 8, 13, 40))
        child.kill()
        child.wait()
        killed += 1
        archive.check()
        archive.clock.step(LAPSED)
    archive.drain()
    crashed = archive.cli.json("dlq", "list")
    if crashed:
        archive.cli("dlq", "redrive", "--all")
        archive.drain()
    archive.check()
    assert archive.outcomes() == {"archived": len(keys)}
    assert archive.archived == {key: key.encode() for key in keys}
    assert archive.here == set()


def test_an_overwrite_while_a_killed_workers_command_waits_is_kept(archive: Archive) -> None:
    (key,) = fill(archive.server, 1)
    archive.plan()
    with held(archive.server, "DeleteObjects", effect=False) as come:
        child = archive.start("worker", "1")
        assert come.wait(30)
        child.kill()
        child.wait()
    newer = archive.server.put("exports", key, b"newer", OLD)
    archive.drain()
    assert archive.outcomes() == {"changed": 1}
    assert archive.server.objects["exports", key] == newer
    assert archive.archived == {key: key.encode()}


def test_a_copy_that_outlasts_its_lease_keeps_it(archive: Archive) -> None:
    (key,) = fill(archive.server, 1)
    archive.plan()
    with held(archive.server, "CopyObject") as come:
        child = archive.start("worker", "1", "drain")
        assert come.wait(30)
        for _ in range(5):
            before = archive.audit.one("SELECT due_at FROM operations")
            archive.clock.step(timedelta(seconds=40))
            until(
                lambda: archive.audit.one("SELECT due_at FROM operations") > before,  # noqa: B023
                what="a longer lease",
            )
        assert archive.outcomes() == {"pending": 1}
    assert child.wait() == 0, child.said()
    assert "lease" not in child.said()
    assert archive.outcomes() == {"archived": 1}
    assert archive.archived == {key: key.encode()}
    assert len(archive.server.asked("CopyObject")) == 1
