"""The command line on a real S3 server: rights that come and go, overwrites, odd keys, and what is
kept.

Objects on a real server are always new, so policies say ``older_than = "1s"`` and tests wait for
the clock. What is more than five minutes old there cannot be had; a redriven dead letter is looked
at again just the same.
"""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.s3.seaweed import ADMIN, LIMITED, Seaweed
from support.cli import Cli, finish
from support.forks import Forks, until

ODD = [
    "exports/q/a+b",
    "exports/q/run_dt%3D2026-01-01%252012%253A30",
    "exports/ctl/\x10\x10foo.jpg",
    'exports/r>&<d/"q".json',
    "exports/r>&<d/&amp;.json",
    "exports/new\nline",
    "exports/esc\x1b[2J",
    "exports/u\uffff",
    "exports/\U0001f600",
    "exports/\u00f6",
    "exports/o\u0308",
    "exports/*",
    "exports/up/movie[2019].mkv",
    "exports/q?x=1#y",
    "exports/trailing ",
    "exports/" + "/".join(4 * ["k" * 253]),  # 1,023 bytes
]
DECOYS = [
    "exports/q/a b",
    "exports/q/a%20b",
    "exports/q/a%2Bb",
    "exports/r>&<d/&.json",
    "exports/up/movie2.mkv",
    "exports/up/movie2019.mkv",
    "exports/keep.txt",
]
"""What some layer might take for one of `ODD`."""


class RealS3:
    """A bucket on SeaweedFS and the command line, as a client whose rights can be taken away."""

    def __init__(self, folder: Path, forks: Forks, seaweed: Seaweed, bucket: str) -> None:
        self.seaweed = seaweed
        self.bucket = bucket
        self.client = seaweed.client()
        self.cli = Cli(folder, forks, seaweed.endpoint, LIMITED)
        self.policy()
        self._written = 0.0

    def policy(self, more: dict[str, Any] | None = None, **objects: Any) -> None:
        more = {"attempts": {"permission": 2}} | (more or {})
        self.cli.policy("exports", older_than="1s", more=more, bucket=self.bucket, **objects)

    def put(self, *keys: str, body: bytes = b"content") -> None:
        with ThreadPoolExecutor(8) as threads:
            put = self.client.put_object
            list(threads.map(lambda key: put(Bucket=self.bucket, Key=key, Body=body), keys))
        self._written = time.time()

    def tag(self, key: str, **tags: str) -> None:
        """Give an object these tags, in place of those it has."""
        tagging = {"TagSet": [{"Key": name, "Value": value} for name, value in tags.items()]}
        self.client.put_object_tagging(Bucket=self.bucket, Key=key, Tagging=tagging)

    def due(self) -> None:
        """Wait until everything written so far is past its time, and its slot is a new one."""
        until(lambda: time.time() > self._written + 2.1, what="the clock")

    def body(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def keys(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {item["Key"] for page in pages for item in page.get("Contents", [])}

    def completed_at(self) -> dict[str, Any]:
        return {
            row["key"]: (row["completed_at"], row["outcome"])
            for row in self.cli.audit.rows("SELECT * FROM operations WHERE state = 'completed'")
        }


@pytest.fixture
def real(tmp_path: Path, forks: Forks, seaweed: Seaweed, bucket: str) -> RealS3:
    return RealS3(tmp_path, forks, seaweed, bucket)


def _keys(n: int, folder: str) -> list[str]:
    return [f"exports/{folder}/{number:04}.json" for number in range(n)]


def test_what_is_denied_dies_after_its_attempts_and_only_that_is_redriven_once_granted(
    real: RealS3,
) -> None:
    allowed, private = _keys(6, "allowed"), _keys(3, "private")
    real.put(*allowed, *private)
    real.seaweed.grant(real.bucket, "exports/allowed/")
    real.due()
    run = real.cli.json("run", "exports", code=1)
    assert run["plan"]["published"] == 9
    assert run["work"]["outcomes"] == {"deleted": 6}
    assert run["work"]["retried"] == {"permission": 3}
    assert run["work"]["dead"] == 3
    assert real.keys() == set(private)
    letters = real.cli.json("dlq", "list")
    assert {letter["command"]["key"] for letter in letters} == set(private)
    assert {(one["failure_class"], one["attempts"]) for one in letters} == {("permission", 2)}
    assert all("AccessDenied" in letter["error"] for letter in letters)
    assert real.cli.json("verify", "exports", code=1)["overdue"] == 3

    before = real.completed_at()
    real.seaweed.grant(real.bucket, "exports/private/")
    assert real.cli.json("dlq", "redrive", "--class", "permission", "--dry-run")[
        "would_redrive"] == 3  # fmt: skip
    assert real.cli.json("dlq", "redrive", "--class", "permission")["redriven"] == 3
    work = real.cli.json("work", "--drain")
    assert work["received"] == 3, "only the three were sent again"
    assert work["outcomes"] == {"deleted": 3}
    assert real.cli.json("verify", "exports")["overdue"] == 0
    assert real.keys() == set()
    after = real.completed_at()
    assert {key: after[key] for key in before} == before
    assert real.cli.json("status")["policies"][0]["dead"] == 0
    assert real.cli.audit.problems() == []


def test_an_object_overwritten_after_the_plan_survives_and_is_planned_once_it_is_due_o_race_01(
    real: RealS3,
) -> None:
    """O-RACE-01 on a real server."""
    overwritten, removed, _ = keys = _keys(3, "a")
    real.seaweed.grant(real.bucket)
    real.put(*keys)
    real.due()
    real.cli.json("plan", "exports")
    real.put(overwritten, body=b"newer")
    real.client.delete_object(Bucket=real.bucket, Key=removed)
    work = real.cli.json("work", "--drain")
    assert work["outcomes"] == {"changed": 1, "absent": 1, "deleted": 1}
    assert real.keys() == {overwritten}
    assert real.body(overwritten) == b"newer"
    assert real.cli.json("dlq", "list") == []
    real.due()
    assert real.cli.json("run", "exports")["plan"]["published"] == 1
    assert real.keys() == set()


def test_an_identical_upload_is_told_from_what_was_seen_by_the_second_look(real: RealS3) -> None:
    again, _ = keys = _keys(2, "private")
    real.put(*keys)
    real.due()
    real.cli.json("run", "exports", code=1)
    assert len(real.cli.json("dlq", "list")) == 2
    real.put(again)  # the same bytes, and so the same ETag
    real.seaweed.grant(real.bucket)
    real.cli.json("dlq", "redrive", "--all")
    work = real.cli.json("work", "--drain")
    assert work["outcomes"] == {"changed": 1, "deleted": 1}
    assert real.keys() == {again}
    real.due()
    assert real.cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 1}


def test_odd_keys_are_the_same_to_the_byte_on_every_way_out_o_key_01_to_04(real: RealS3) -> None:
    """O-KEY-01, O-KEY-02, O-KEY-04 and O-SCOPE-03, through the whole command line."""
    real.policy({"attempts": {"permission": 1}})
    real.put(*ODD)
    real.due()
    planned = real.cli.json("plan", "exports")
    assert (planned["published"], planned["refused"]) == (len(ODD), 0)
    real.put(*DECOYS)
    real.cli.json("work", "--drain", code=1)
    letters = {one["command"]["key"]: one for one in real.cli.json("dlq", "list")}
    assert letters.keys() == set(ODD)
    assert len({one["operation_id"] for one in letters.values()}) == len(ODD)
    assert {line["key"] for line in real.cli("export").lines} == set(ODD)
    real.cli("dlq", "list")  # for a person, without a control character
    for key in ("exports/ctl/\x10\x10foo.jpg", "exports/q/a+b", "exports/esc\x1b[2J"):
        told = real.cli.json("explain", "exports", key)
        assert told["key"] == key
        assert told["eligible"]
        assert "permission" in told["reasons"][-1]
    # One by one, each takes exactly itself.
    real.seaweed.grant(real.bucket)
    for key in ("exports/*", "exports/up/movie[2019].mkv", "exports/q/a+b"):
        before = real.keys()
        real.cli.json("dlq", "redrive", "--id", letters[key]["operation_id"])
        real.cli.json("work", "--drain", code=1)
        assert before - real.keys() == {key}
    real.cli.json("dlq", "redrive", "--all")
    assert real.cli.json("work", "--drain")["completed"] == len(ODD) - 3
    assert real.keys() == set(DECOYS)


def test_the_current_generation_is_never_touched(real: RealS3) -> None:
    real.seaweed.grant(real.bucket)
    real.policy(
        generation=r"exports/(?P<generation>\d{4}-\d{2})/", keep_generations=2, match="*.json"
    )
    generations = {
        month: [f"exports/2026-{month:02}/{n}.json" for n in range(3)] for month in range(1, 6)
    }
    for keys in generations.values():
        real.put(*keys)
    real.put("exports/loose.json", "exports/2026-01/index.html")
    real.due()
    run = real.cli.json("run", "exports")
    assert run["plan"]["published"] == 9
    assert run["plan"]["protected"] == {"generation": 6, "no_generation": 1}
    kept = {*generations[4], *generations[5], "exports/loose.json", "exports/2026-01/index.html"}
    assert real.keys() == kept
    real.cli.new_slot()
    again = real.cli.json("run", "exports")
    assert again["plan"]["eligible"] == 0
    assert real.keys() == kept


def test_nothing_goes_once_a_kept_generation_has_vanished(real: RealS3) -> None:
    real.seaweed.grant(real.bucket)
    real.policy(generation=r"exports/(?P<generation>\d{4}-\d{2})/", keep_generations=1)
    old, kept = _keys(2, "2026-01"), _keys(2, "2026-02")
    real.put(*old)
    real.put(*kept)  # later, as the newest by age is kept as well
    real.due()
    assert real.cli.json("plan", "exports")["published"] == 2
    for key in kept:
        real.client.delete_object(Bucket=real.bucket, Key=key)
    assert real.cli.json("work", "--drain")["outcomes"] == {"protected": 2}
    assert real.keys() == set(old)


def test_the_last_n_of_each_group_stay_whatever_their_names_say_o_guard_01(real: RealS3) -> None:
    """O-GUARD-01: age decides, not the order of names; a sole copy is never a candidate."""
    real.seaweed.grant(real.bucket)
    real.policy(keep_last=1, keep_last_group=r"exports/(\w+)-", keep_last_min_size="2B")
    real.put("exports/a-3.dump", "exports/b-1.dump", "exports/only-1.dump")
    real.due()
    real.put("exports/a-2.dump")
    real.due()
    real.put("exports/a-1.dump")
    real.due()
    real.put("exports/b-2.dump", body=b"x")  # too small to be a copy
    real.due()
    assert real.cli.json("explain", "exports", "exports/only-1.dump")["eligible"] is False
    run = real.cli.json("run", "exports")
    assert run["work"]["outcomes"] == {"deleted": 3}
    assert real.keys() == {"exports/a-1.dump", "exports/b-1.dump", "exports/only-1.dump"}


def test_in_a_thousand_commands_each_odd_one_ends_in_its_own_class_and_all_others_go(
    real: RealS3,
) -> None:
    """P1: one denied, one overwritten, one that XML cannot carry; nobody else notices."""
    real.policy({"attempts": {"permission": 2}})
    others = _keys(997, "ok")
    denied, overwritten, control = (
        "exports/private/a.json",
        "exports/ok/overwritten.json",
        "exports/ok/control\x01.json",
    )
    real.put(*others, denied, overwritten, control)
    real.seaweed.grant(real.bucket, "exports/ok/")
    real.due()
    planned = real.cli.json("plan", "exports")
    assert planned["published"] == 1000
    real.put(overwritten, body=b"newer")
    work = real.cli.json("work", "--drain", code=1)
    assert work["outcomes"] == {"deleted": 998, "changed": 1}
    assert work["retried"] == {"permission": 1}
    assert work["dead"] == 1
    assert work["received"] == 1001, "somebody's neighbour was sent again"
    assert real.keys() == {denied, overwritten}
    assert real.body(overwritten) == b"newer"
    (letter,) = real.cli.json("dlq", "list")
    assert (letter["command"]["key"], letter["failure_class"]) == (denied, "permission")
    ended = {key: outcome for key, (_, outcome) in real.completed_at().items()}
    assert ended[control] == "deleted"
    assert ended[overwritten] == "changed"
    assert real.cli.audit.problems() == []


def test_two_workers_and_duplicate_deliveries_come_to_one_end_each(real: RealS3) -> None:
    """P3: claims are made to lapse under both workers, so that commands can arrive twice."""
    real.seaweed.grant(real.bucket)
    keys = _keys(150, "a")
    real.put(*keys)
    real.due()
    assert real.cli.json("plan", "exports")["published"] == 150
    real.cli.audit.watch()
    children = [real.cli.spawn("work", "--drain", "--json") for _ in range(2)]
    lapsed = until(lambda: _lapse(real.cli.audit.file), what="a claim")
    reports = [finish(child) for child in children]
    assert [report.code for report in reports] == [0, 0], reports
    documents = [json.loads(report.out) for report in reports]
    assert lapsed > 0
    assert sum(document["completed"] for document in documents) == 150
    # A worker that was quick enough has recorded before the other could take its commands.
    assert sum(document["received"] for document in documents) >= 150
    assert real.cli.audit.completed_twice() == []
    assert real.cli.audit.problems() == []
    assert real.cli.audit.one("SELECT completed FROM runs") == 150
    assert real.keys() == set()


def test_two_planners_of_one_slot_make_one_run(real: RealS3) -> None:
    """P5: a trigger twice is one run."""
    real.seaweed.grant(real.bucket)
    real.put(*_keys(30, "a"))
    real.due()
    slot = "--slot", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    children = [real.cli.spawn("plan", "exports", *slot, "--json") for _ in range(3)]
    documents = [finish(child).out for child in children]
    ids = {json.loads(document)["run_id"] for document in documents}
    assert len(ids) == 1
    assert real.cli.audit.one("SELECT count(*) FROM runs") == 1
    real.cli.json("work", "--drain")
    assert real.cli.audit.one("SELECT planned FROM runs") == 30
    assert real.keys() == set()


def test_wrong_credentials_are_said_and_nothing_is_planned(real: RealS3) -> None:
    real.put(*_keys(2, "a"))
    for identity in ((ADMIN.access_key_id, "wrong"), ("nobody", "wrong")):
        real.cli.store("s", real.seaweed.endpoint, identity)
        said = real.cli("plan", "exports", code=2).err
        assert "SignatureDoesNotMatch" in said or "InvalidAccessKeyId" in said
        assert not real.cli.json("check", code=1)["ok"]
    assert real.cli.json("runs", "list") == []


def test_a_versioned_bucket_and_a_missing_one_are_refused(real: RealS3) -> None:
    real.seaweed.grant(real.bucket)
    real.put(*_keys(2, "a"))
    real.client.put_bucket_versioning(
        Bucket=real.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    real.cli.store("s", real.seaweed.endpoint, ADMIN)
    assert "versioning" in real.cli("plan", "exports", code=2).err
    real.cli.policy("exports", bucket="there-is-no-such-bucket")
    assert "NoSuchBucket" in real.cli("plan", "exports", code=2).err
    real.client.put_bucket_versioning(
        Bucket=real.bucket, VersioningConfiguration={"Status": "Suspended"}
    )


def _lapse(file: Path) -> int:
    """End every lease there is, as if its worker had stalled; how many there were."""
    with closing(sqlite3.connect(file, timeout=30)) as connection, connection:
        return connection.execute(
            "UPDATE operations SET due_at = 0 WHERE state = 'pending' AND token IS NOT NULL"
        ).rowcount


def test_a_tag_added_between_plan_and_work_keeps_that_object_and_only_that(real: RealS3) -> None:
    """As long as the plan is not older than five minutes nothing but the tag could tell."""
    real.policy(lacks_tags=["legal-hold"], tags={"team": "growth"})
    keys = _keys(40, "a")
    real.put(*keys)
    for key in keys[1:]:
        real.tag(key, team="growth")
    real.tag(keys[1], team="growth", **{"legal-hold": "case 7"})
    real.seaweed.grant(real.bucket, "exports/")
    real.due()
    plan = real.cli.json("plan", "exports")
    assert (plan["published"], plan["protected"]) == (38, {"tags": 2})
    real.tag(keys[20], team="growth", **{"legal-hold": ""})
    real.tag(keys[30])

    work = real.cli.json("work", "--drain")

    assert work["outcomes"] == {"deleted": 36, "protected": 2}
    assert work["protected"] == {"tags": 2}
    assert real.keys() == {keys[0], keys[1], keys[20], keys[30]}
    why = real.cli.json("explain", "exports", keys[20])["reasons"]
    assert "but it has the tag legal-hold" in why
    verified = real.cli.json("verify", "exports")
    assert (verified["overdue"], verified["protected"]) == (0, {"tags": 4})
    assert real.cli.audit.problems() == []


def test_what_the_pointer_names_stays_also_when_it_moves_after_the_plan(real: RealS3) -> None:
    pattern = r"exports/(?P<generation>\d{4}-\d{2})/"
    real.policy(generation=pattern, current_pointer="exports/current.json")
    months = {month: _keys(10, month) for month in ("2026-01", "2026-02", "2026-03")}
    for keys in months.values():
        real.put(*keys)
    real.put("exports/current.json", body=b'{"current": "exports/2026-03/"}')
    real.seaweed.grant(real.bucket, "exports/")
    real.due()
    plan = real.cli.json("plan", "exports")
    assert (plan["published"], plan["protected"]) == (20, {"pointer": 11})
    real.put("exports/current.json", body=b"2026-01")

    work = real.cli.json("work", "--drain")

    assert work["outcomes"] == {"deleted": 10, "protected": 10}
    assert real.keys() == {*months["2026-01"], *months["2026-03"], "exports/current.json"}
    real.client.delete_object(Bucket=real.bucket, Key="exports/current.json")
    real.due()
    nothing = real.cli.json("plan", "exports", "--dry-run")
    assert (nothing["waiting"], nothing["already_completed"]) == (0, 10)
    assert nothing["protected"] == {"pointer": 10}
    why = real.cli.json("explain", "exports", months["2026-03"][0])["reasons"]
    assert "there is no object exports/current.json" in why[-1]
    assert real.cli.audit.problems() == []
