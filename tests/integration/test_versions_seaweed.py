"""Buckets that keep versions, on real SeaweedFS, through the command line."""

import random
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.s3.seaweed import ADMIN, LIMITED, Seaweed
from support.cli import Cli
from support.forks import Forks, until
from support.versions import VersionedBucket, slot, tick

KEY = "exports/a.json"


@pytest.fixture
def cli(tmp_path: Path, forks: Forks, seaweed: Seaweed) -> Cli:
    return Cli(tmp_path, forks, seaweed.endpoint, ADMIN)


def choose(cli: Cli, bucket: VersionedBucket, versions: str | None, **more: Any) -> None:
    """Set the policy: everything older than a second, so that a slot chooses the cutoff."""
    cli.policy("exports", bucket=bucket.name, versions=versions, older_than="1s", **more)


def test_a_mode_has_to_be_chosen_where_versions_are_kept_o_vers_01(
    cli: Cli, versioned: VersionedBucket
) -> None:
    """O-VERS-01, nothing chosen: the plan says what the bucket is and asks for a mode."""
    versioned.put(KEY)
    choose(cli, versioned, None)
    said = cli("plan", "exports", code=2).err
    assert "policies.exports.objects.versions" in said
    assert "Enabled" in said
    assert all(f'"{mode}"' in said for mode in ("marker", "noncurrent", "purge"))


def test_a_mode_is_refused_where_no_versions_are_kept(
    cli: Cli, seaweed: Seaweed, bucket: str
) -> None:
    choose(cli, VersionedBucket(bucket, seaweed.client()), "purge")
    assert "keeps no versions" in cli("plan", "exports", code=2).err


class TestNoncurrent:
    """``versions = "noncurrent"``"""

    def test_versions_go_once_they_were_replaced_long_enough_and_the_current_one_stays(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "noncurrent")
        first, second = versioned.put(KEY, b"1"), versioned.put(KEY, b"22")
        tick()
        # The second stops being current only now, however old it is itself.
        cutoff = tick()
        current = versioned.put(KEY, b"333")
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["plan"]["eligible"] == 1
        assert document["work"]["outcomes"] == {"deleted": 1}
        assert document["work"]["freed_bytes"] == 1
        assert versioned.ids(KEY) == {second, current}
        assert first not in versioned.ids(KEY)
        cutoff = tick()
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["work"]["freed_bytes"] == 2
        assert versioned.ids(KEY) == {current}
        assert versioned.visible() == {KEY}
        assert cli.json("verify", "exports")["overdue"] == 0

    def test_a_marker_goes_once_it_is_all_that_is_left(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "noncurrent")
        versioned.put(KEY)
        marker = versioned.hide(KEY)
        cutoff = tick()
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["work"]["outcomes"] == {"deleted": 1}
        assert versioned.ids(KEY) == {marker}
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["work"]["outcomes"] == {"deleted": 1}
        assert document["work"]["freed_bytes"] == 0
        assert versioned.entries() == []


class TestPurge:
    """``versions = "purge"``"""

    def test_nothing_is_left_and_nothing_comes_back_o_vers_01(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        """O-VERS-01: no versions and no markers left, and the bytes of all versions freed."""
        choose(cli, versioned, "purge")
        for key in ("exports/a.json", "exports/b.json", "exports/c.json"):
            versioned.put(key, b"12345")
            versioned.put(key, b"678")
        versioned.hide("exports/c.json")
        versioned.put("exports/lone.json", b"1")
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["state"] == "drained"
        assert document["plan"]["eligible"] == 8
        assert document["work"]["outcomes"] == {"deleted": 8}
        assert document["work"]["freed_bytes"] == 3 * 8 + 1
        assert versioned.entries() == []
        shown = cli.json("runs", "show", document["plan"]["run_id"])
        assert shown["freed_bytes"] == 3 * 8 + 1
        assert sum(line["freed_bytes"] for line in cli("export").lines) == 3 * 8 + 1
        assert cli.json("verify", "exports")["overdue"] == 0

    def test_a_young_current_version_stays_and_what_is_old_under_it_goes(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "purge")
        versioned.put(KEY)
        versioned.put(KEY)
        cutoff = tick()
        young = versioned.put(KEY)
        cli.json("run", "exports", "--slot", slot(cutoff))
        assert versioned.ids(KEY) == {young}

    def test_the_newest_stays_over_one_that_a_rule_keeps(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "purge", min_size="3B")
        kept = versioned.put(KEY, b"1")
        versioned.put(KEY, b"333")
        newest = versioned.put(KEY, b"4444")
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["plan"]["protected"] == {"covers_kept": 1, "size": 1}
        assert versioned.ids(KEY) == {kept, newest}
        assert cli.json("verify", "exports")["overdue"] == 0


class TestMarker:
    """``versions = "marker"``"""

    def test_one_marker_per_key_and_nothing_freed_o_vers_01(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        """O-VERS-01: exactly one marker per key, and freed bytes are 0."""
        choose(cli, versioned, "marker")
        keys = [f"exports/{n}.json" for n in range(3)]
        for key in keys:
            versioned.put(key, b"old")
            versioned.put(key, b"newer")
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["work"]["outcomes"] == {"deleted": 3}
        assert document["work"]["freed_bytes"] == 0
        assert versioned.visible() == set()
        markers = [entry.key for entry in versioned.entries() if entry.marker]
        assert markers == keys
        assert len(versioned.entries()) == 9
        assert cli.json("runs", "show", document["plan"]["run_id"])["freed_bytes"] == 0
        assert {line["freed_bytes"] for line in cli("export").lines} == {0}
        assert cli.json("verify", "exports")["overdue"] == 0

    def test_a_key_that_somebody_hid_or_rewrote_gets_no_marker_o_vers_02(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "marker")
        versioned.put(KEY)
        versioned.put("exports/b.json", b"seen")
        cli.json("plan", "exports", "--slot", slot(tick()))
        versioned.hide(KEY)
        versioned.put("exports/b.json", b"rewritten")
        assert cli.json("work", "--drain")["outcomes"] == {"absent": 1, "changed": 1}
        assert sum(entry.marker for entry in versioned.entries()) == 1

    def test_suspended_versioning_is_refused_as_it_would_not_only_hide(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "marker")
        versioned.suspend()
        said = cli("plan", "exports", code=2).err
        assert "Suspended" in said
        assert '"null"' in said

    def test_versioning_suspended_between_plan_and_work_is_noticed(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        choose(cli, versioned, "marker")
        versioned.put(KEY)
        cli.json("plan", "exports", "--slot", slot(tick()))
        versioned.suspend()
        report = cli.json("work", "--drain", code=1)
        assert (report["outcomes"], report["dead"]) == ({}, 1)
        assert versioned.visible() == {KEY}
        (row,) = cli.json("status")["policies"]
        assert "Suspended" in row["paused"]


class TestNull:
    """Versions without an id of their own."""

    def test_what_was_there_before_versioning_goes_as_any_other(
        self, cli: Cli, seaweed: Seaweed, bucket: str
    ) -> None:
        plain = VersionedBucket(bucket, seaweed.client())
        plain.put("exports/alone.json")
        plain.put(KEY)
        plain.enable()
        plain.put(KEY)
        choose(cli, plain, "purge")
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["work"]["outcomes"] == {"deleted": 3}
        assert plain.entries() == []
        assert {line["version_id"] for line in cli("export").lines} >= {"null"}

    def test_suspended_versioning_purges_the_null_version_last(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        versioned.put(KEY, b"with an id")
        versioned.suspend()
        versioned.put(KEY, b"without")
        choose(cli, versioned, "purge")
        document = cli.json("run", "exports", "--slot", slot(tick()))
        assert document["work"]["outcomes"] == {"deleted": 2}
        assert versioned.entries() == []

    def test_a_null_version_that_was_replaced_meanwhile_stays(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        versioned.suspend()
        versioned.put(KEY, b"same bytes")
        choose(cli, versioned, "purge")
        cli.json("plan", "exports", "--slot", slot(tick()))
        tick()
        versioned.put(KEY, b"same bytes")
        assert cli.json("work", "--drain")["outcomes"] == {"changed": 1}
        assert versioned.visible() == {KEY}

    def test_a_new_object_in_the_place_of_a_null_marker_stays(
        self, cli: Cli, versioned: VersionedBucket
    ) -> None:
        # That the marker itself goes is tested elsewhere: SeaweedFS 4.48 says so and keeps it.
        versioned.suspend()
        versioned.put(KEY)
        assert versioned.hide(KEY) == "null"
        choose(cli, versioned, "noncurrent")
        assert cli.json("plan", "exports", "--slot", slot(tick()))["eligible"] == 1
        versioned.put(KEY)
        assert cli.json("work", "--drain")["outcomes"] == {"changed": 1}
        assert versioned.visible() == {KEY}


class TestLocks:
    """Retention and legal holds."""

    def test_a_lock_holds_one_version_and_nothing_else_o_vers_03(
        self, cli: Cli, locking: VersionedBucket
    ) -> None:
        """O-VERS-03: told from a lack of rights, not tried again before its date, shown."""
        choose(cli, locking, "purge")
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        ids = [locking.put(f"exports/{n}.json") for n in range(9)]
        lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
        locked = locking.put("exports/locked.json", **lock)
        assert len(ids) == 9
        cutoff = tick()
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["state"] == "drained"
        assert document["work"]["outcomes"] == {"deleted": 9}
        assert document["work"]["left"] == {"held": 1}
        assert document["work"]["dead"] == 0
        assert [entry.id for entry in locking.entries()] == [locked]
        for n in (1, 2):
            again = cli.json("run", "exports", "--slot", slot(cutoff + timedelta(seconds=n)))
            assert again["plan"]["already_pending"] == 1
            assert again["work"]["received"] == 0
        (row,) = cli.json("status")["policies"]
        assert (row["held"], row["backlog"], row["dead"], row["overdue"]) == (1, 0, 0, 0)
        verified = cli.json("verify", "exports")
        assert (verified["overdue"], verified["held"]) == (0, 1)
        (line,) = [line for line in cli("export").lines if line["held"]]
        assert line["held_until"] == f"{until:%Y-%m-%dT%H:%M:%SZ}"
        assert len(line["attempts"]) == 1
        assert "locked until" in line["error"]
        assert line["failure_class"] == "held"

    def test_what_was_locked_goes_by_itself_once_its_date_has_come(
        self, cli: Cli, locking: VersionedBucket
    ) -> None:
        choose(cli, locking, "purge")
        end = datetime.now(UTC) + timedelta(seconds=8)
        locking.put(KEY, ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=end)
        locking.put(KEY)
        cli.json("run", "exports", "--slot", slot(tick()))
        with cli.start("work"):  # not --drain, which would not wait for it
            until(
                lambda: (
                    not cli.audit.one("SELECT count(*) FROM operations WHERE state <> 'completed'")
                ),
                within=60,
                what="the end of the lock",
            )
        assert locking.entries() == []
        (row,) = cli.json("status")["policies"]
        assert (row["held"], row["dead"]) == (0, 0)
        outcomes = [run["counts"] for run in cli.json("runs", "list")]
        assert [(counts["completed"], counts["held"]) for counts in outcomes] == [(2, 0)]

    def test_a_lifted_legal_hold_is_tried_once_by_the_next_run_that_lists_it(
        self, cli: Cli, locking: VersionedBucket
    ) -> None:
        choose(cli, locking, "purge")
        version = locking.put(KEY)
        locking.hold(KEY, version, "ON")
        cutoff = tick()
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["work"]["left"] == {"held": 1}
        assert cli.json("work", "--drain")["received"] == 0
        later = cli.json("run", "exports", "--slot", slot(cutoff + timedelta(seconds=1)))
        assert later["work"]["received"] == 1, "once for each run that lists it"
        assert later["work"]["left"] == {"held": 1}
        locking.hold(KEY, version, "OFF")
        assert cli.json("work", "--drain")["received"] == 0
        # To SeaweedFS a version is as new as the change of its hold, which takes it a while.
        for _ in range(5):
            cli.json("run", "exports", "--slot", slot(tick()))
            if not locking.entries():
                break
        assert locking.entries() == []

    def test_governance_gives_way_only_where_the_policy_says_so(
        self, cli: Cli, locking: VersionedBucket
    ) -> None:
        until = datetime.now(UTC) + timedelta(hours=1)
        lock = {"ObjectLockRetainUntilDate": until}
        choose(cli, locking, "purge")
        governed = locking.put("exports/g.json", ObjectLockMode="GOVERNANCE", **lock)
        locking.put("exports/g.json")
        cutoff = tick()
        document = cli.json("run", "exports", "--slot", slot(cutoff))
        assert document["work"]["left"] == {"held": 2}, "what is over a locked one waits with it"
        assert governed in locking.ids("exports/g.json")
        assert locking.visible() == {"exports/g.json"}
        choose(cli, locking, "purge", version="v2", bypass_governance=True)
        document = cli.json("run", "exports", "--slot", slot(cutoff + timedelta(seconds=1)))
        assert document["work"]["outcomes"]["deleted"] == 2
        assert locking.entries() == []
        cli("work", "--drain")
        assert cli.json("status")["policies"][0]["held"] == 0, "the old version's are closed"

    def test_a_denied_version_without_a_lock_is_a_lack_of_rights(
        self, tmp_path: Path, forks: Forks, seaweed: Seaweed, versioned: VersionedBucket
    ) -> None:
        cli = Cli(tmp_path, forks, seaweed.endpoint, LIMITED)
        cli.policy("exports", bucket=versioned.name, versions="purge", older_than="1s",
                   more={"attempts": {"permission": 1}})  # fmt: skip
        versioned.put(KEY)
        document = cli.json("run", "exports", "--slot", slot(tick()), code=1)
        assert document["work"]["left"] == {"dead": 1}
        (letter,) = cli.json("dlq", "list")
        assert letter["failure_class"] == "permission"
        assert letter["command"]["version_id"] in versioned.ids(KEY)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_never_bring_a_deleted_key_back_to_life(
    cli: Cli, versioned: VersionedBucket, seed: int
) -> None:
    """Purge order under SIGKILL: hidden keys stay hidden, at every look a reader takes."""
    chance = random.Random(seed)
    keys = [f"exports/{n:02}.json" for n in range(12)]
    newest = {}
    for key in keys:
        for _ in range(chance.randint(1, 4)):
            newest[key] = versioned.put(key, key.encode())
        if chance.random() < 0.6:
            versioned.hide(key)
            newest[key] = ""
    hidden = {key for key in keys if not newest[key]}
    choose(cli, versioned, "purge")
    cli.json("plan", "exports", "--slot", slot(tick()))
    killed = 0
    while versioned.entries() and cli.json("runs", "list")[0]["state"] != "drained":
        worker = cli.spawn("work", "--concurrency", "2")
        # Until so many more are gone, so that a busy machine does not have all killed at birth.
        left = max(0, len(versioned.entries()) - chance.choice((0, 1, 1, 2, 4)))
        gives_up = time.monotonic() + 5
        while len(versioned.entries()) > left and worker.running and time.monotonic() < gives_up:
            assert not hidden & versioned.visible()
        worker.kill()
        killed += worker.wait() == -signal.SIGKILL
        for entry in versioned.entries():
            # What readers see of the others is what they saw before, or nothing.
            if entry.latest and not entry.marker:
                assert entry.id == newest[entry.key]
        with cli.audit.changing() as connection:  # as if the leases had run out
            connection.execute("UPDATE operations SET due_at = 0 WHERE token IS NOT NULL")
            connection.execute("UPDATE operations SET deliveries = 1 WHERE deliveries > 1")
        assert killed < 60, "it never ends"
    assert killed
    cli.json("work", "--drain")
    assert cli.audit.problems() == []
    # A newest entry that saw one under it go only after its look stays, for a later run.
    stays = {line["key"] for line in cli("export").lines if line["outcome"] == "protected"}
    assert {entry.key for entry in versioned.entries()} <= stays
    assert not hidden & versioned.visible()
