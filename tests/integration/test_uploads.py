"""Unfinished multipart uploads: planned beside the objects, aborted, never the young ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.s3 import S3Deleter, S3Lister, S3Settings, connect
from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import UPLOADS, KeyRange, StoreError, Upload
from support.cli import Cli, fill
from support.faults import Answer, FaultyS3, error
from support.forks import Forks
from support.harness import SharedClock
from support.kills import LAPSED, held
from support.s3 import FrozenClock

ODD = ["p/a b+c%2B", "p/größe", "p/q?uploadId=1", "p/<&>", "p/plain"]
YOUNG = datetime.now(UTC) - timedelta(days=1)


class Sides:
    """Both sides of the adapter on one connection."""

    def __init__(self, settings: S3Settings, bucket: str) -> None:
        connection = connect(settings, FrozenClock())
        self.lister = S3Lister(settings, FrozenClock(), connection=connection)
        self.deleter = S3Deleter(settings, FrozenClock(), connection=connection)
        self.bucket = bucket

    def listed(self, prefix: str = "p/") -> list[Upload]:
        found: list[Upload] = []
        rest: KeyRange | None = UPLOADS
        while rest is not None:
            assert rest.upload is not None
            page = self.lister.uploads(self.bucket, prefix, rest)
            assert not page.items
            found += page.uploads
            rest = page.rest
        return found

    def abort(self, *uploads: Upload) -> list[Outcome | Failure]:
        return list(self.deleter.abort(self.bucket, uploads))


@pytest.fixture
def faulty_sides(faulty: FaultyS3) -> Sides:
    faulty.buckets.add("bucket")
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
    return Sides(settings, "bucket")


def test_on_a_real_server_odd_keys_are_listed_to_the_byte_and_aborted(
    seaweed: Seaweed, bucket: str
) -> None:
    client = seaweed.client()
    ids = {
        client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]: key
        for key in [*ODD, "p/plain", "other/x"]
    }
    sides = Sides(seaweed.settings(), bucket)
    found = sides.listed()
    assert {u.upload_id: u.key for u in found} == {
        id_: key for id_, key in ids.items() if key != "other/x"
    }
    assert all(abs(u.initiated - datetime.now(UTC)) < timedelta(minutes=1) for u in found)
    for upload in found:
        assert sides.abort(upload) == [Outcome.DELETED]
        assert sides.abort(upload) == [Outcome.ABSENT]
    assert [u.key for u in sides.listed("")] == ["other/x"]


def test_on_a_real_server_pages_follow_each_other(
    seaweed: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestbefore.adapters.objects.s3.uploads._PAGE", 2)
    client = seaweed.client()
    keys = [f"p/{n % 3}" for n in range(7)]
    ids = {client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in keys}
    found = Sides(seaweed.settings(), bucket).listed()
    assert len(found) == 7
    assert {upload.upload_id for upload in found} == ids


def test_many_uploads_of_one_key_are_listed_across_pages(
    faulty: FaultyS3, faulty_sides: Sides
) -> None:
    faulty.copies.upload_page = 2
    ids = {faulty.copies.begin("bucket", key) for key in ["p/a"] * 5 + ["p/b +%"] * 3 + ["p/c"]}
    assert {upload.upload_id for upload in faulty_sides.listed()} == ids


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200),
        error(200, "InternalError"),
        Answer(200, b"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>"
               b"</ListMultipartUploadsResult>"),
        Answer(200, b"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><Upload><Key>p/a"
               b"</Key></Upload></ListMultipartUploadsResult>"),
        Answer(200, b"<ListMultipartUploadsResult><IsTrunc"),
    ],
    ids=["empty", "an error inside a success", "endless", "without an id", "cut off"],
)  # fmt: skip
def test_a_listing_that_says_nothing_is_not_no_uploads(
    faulty: FaultyS3, faulty_sides: Sides, answer: Answer
) -> None:
    faulty.fail("ListMultipartUploads", answer)
    with pytest.raises(StoreError) as raised:
        faulty_sides.listed()
    assert raised.value.failure.failure_class is FailureClass.TRANSIENT


def test_an_abort_that_leaves_arriving_parts_is_tried_again(
    faulty: FaultyS3, faulty_sides: Sides
) -> None:
    faulty.copies.begin("bucket", "p/a")
    faulty.copies.parts_arrive = 1
    (upload,) = faulty_sides.listed()
    (failure,) = faulty_sides.abort(upload)
    assert isinstance(failure, Failure)
    assert failure.failure_class is FailureClass.TRANSIENT
    assert "still arriving" in failure.error
    assert faulty_sides.abort(upload) == [Outcome.DELETED]


def test_where_nobody_may_look_at_parts_the_answer_to_the_abort_has_to_do(
    faulty: FaultyS3, faulty_sides: Sides
) -> None:
    faulty.copies.begin("bucket", "p/a")
    (upload,) = faulty_sides.listed()
    faulty.fail("ListParts", error(403, "AccessDenied"), times=4)
    assert faulty_sides.abort(upload) == [Outcome.DELETED]
    assert faulty_sides.abort(upload) == [Outcome.ABSENT]


def test_each_upload_has_a_result_of_its_own(faulty: FaultyS3, faulty_sides: Sides) -> None:
    for key in ("p/a", "p/denied", "p/gone"):
        faulty.copies.begin("bucket", key)
    faulty.denied.add("p/denied")
    a, denied, gone = faulty_sides.listed()
    del faulty.copies.uploads[gone.upload_id]
    first, second, third = faulty_sides.abort(gone, denied, a)
    assert (first, third) == (Outcome.ABSENT, Outcome.DELETED)
    assert isinstance(second, Failure)
    assert second.failure_class is FailureClass.PERMISSION


# -- through the command line ------------------------------------------------------------------


class Exports:
    """A policy that also takes unfinished uploads."""

    def __init__(self, folder: Path, forks: Forks, faulty: FaultyS3) -> None:
        self.server = faulty
        self.forks = forks
        self.folder = folder
        faulty.buckets |= {"exports", "archive"}
        self.cli = Cli(folder, forks, faulty.endpoint)
        self.policy()

    def policy(self, version: str = "v1", more: dict[str, Any] | None = None, **objects: Any):
        more = {"attempts": {"permission": 1}} | (more or {})
        self.cli.policy(
            "exports", version=version, more=more, abort_incomplete_uploads=True, **objects
        )

    def begin(self, *names: str, young: bool = False) -> list[str]:
        begin = self.server.copies.begin
        if young:
            return [begin("exports", f"exports/{name}", YOUNG) for name in names]
        return [begin("exports", f"exports/{name}") for name in names]

    @property
    def left(self) -> set[str]:
        return set(self.server.copies.uploads)


@pytest.fixture
def exports(tmp_path: Path, forks: Forks, faulty: FaultyS3) -> Exports:
    return Exports(tmp_path, forks, faulty)


def test_old_uploads_are_aborted_in_the_same_run_and_young_ones_are_left(exports: Exports) -> None:
    fill(exports.server, 3)
    exports.begin("a", "b", "b")
    (young,) = exports.begin("a", young=True)
    outside = exports.server.copies.begin("exports", "other/a")
    document = exports.cli.json("run", "exports")
    plan = document["plan"]
    assert (plan["scanned"], plan["in_scope"], plan["eligible"]) == (7, 7, 6)
    assert plan["uploads"] == {"scanned": 4, "eligible": 3}
    assert document["work"]["outcomes"] == {"deleted": 6}
    assert document["state"] == "drained"
    assert exports.left == {young, outside}
    assert exports.cli.audit.problems() == []
    shown = exports.cli.json("runs", "show", plan["run_id"])
    assert shown["uploads"] == {"scanned": 4, "eligible": 3}
    lines = exports.cli("export").lines
    uploads = [line for line in lines if line["upload_id"]]
    assert sorted(line["key"] for line in uploads) == ["exports/a", "exports/b", "exports/b"]
    assert {line["etag"] for line in uploads} == {""}
    assert {(line["outcome"], line["size"]) for line in uploads} == {("deleted", 0)}


def test_without_the_key_nobody_asks_for_uploads(exports: Exports) -> None:
    exports.cli.policy("exports")
    exports.begin("a")
    assert exports.cli.json("run", "exports")["plan"]["uploads"] == {"scanned": 0, "eligible": 0}
    assert exports.server.asked("ListMultipartUploads") == []
    assert len(exports.left) == 1


def test_a_dry_run_counts_uploads_and_aborts_none(exports: Exports) -> None:
    exports.begin("a", "b")
    reply = exports.cli("plan", "exports", "--dry-run")
    assert "2 unfinished ones among these, 2 eligible" in reply.out
    assert len(exports.left) == 2


def test_a_pattern_speaks_about_uploads_too(exports: Exports) -> None:
    exports.policy(match="*.json")
    kept, _ = exports.begin("a.tmp", "a.json")
    plan = exports.cli.json("run", "exports")["plan"]
    assert plan["uploads"] == {"scanned": 2, "eligible": 1}
    assert plan["in_scope"] == 1
    assert exports.left == {kept}


def test_a_cap_counts_uploads_too(exports: Exports) -> None:
    exports.policy(more={"max_deletes": 3})
    fill(exports.server, 2)
    exports.begin("a", "b")
    plan = exports.cli.json("plan", "exports", code=1)
    assert (plan["state"], plan["waiting"]) == ("parked", 4)
    assert len(exports.left) == 2


def test_uploads_of_a_kept_generation_are_kept(exports: Exports) -> None:
    exports.policy(generation=r"exports/(?P<generation>\d{4}-\d{2})/", keep_generations=1)
    for month in ("2026-01", "2026-02"):
        exports.server.put("exports", f"exports/{month}/a.json")
    old, kept, unreadable = exports.begin("2026-01/b", "2026-02/b", "b")
    document = exports.cli.json("run", "exports")
    assert document["plan"]["uploads"] == {"scanned": 3, "eligible": 1}
    assert document["plan"]["protected"] == {"generation": 2, "no_generation": 1}
    assert exports.left == {kept, unreadable}
    assert old not in exports.left


def test_uploads_do_not_count_among_the_last_n_and_are_not_kept_as_such(exports: Exports) -> None:
    exports.policy(keep_last=1)
    exports.server.put("exports", "exports/a.json")
    exports.begin("z", "a.json")
    document = exports.cli.json("run", "exports")
    assert document["work"]["outcomes"] == {"deleted": 2}
    assert exports.server.keys("exports") == {"exports/a.json"}
    assert exports.left == set()


def test_uploads_under_a_hold_are_kept_by_the_plan_and_by_the_worker(exports: Exports) -> None:
    early, late, goes = exports.begin("early/a", "late/a", "a")
    add = ("hold", "add", "--store", "s", "--bucket", "exports", "--reason", "court", "--prefix")
    exports.cli(*add, "exports/early/")
    plan = exports.cli.json("plan", "exports")
    assert plan["protected"] == {"hold": 1}
    assert plan["uploads"] == {"scanned": 3, "eligible": 2}
    exports.cli(*add, "exports/late/")
    assert exports.cli.json("work", "--drain")["outcomes"] == {"deleted": 1, "protected": 1}
    assert exports.left == {early, late}
    assert goes not in exports.left


def test_a_policy_that_archives_aborts_uploads(exports: Exports) -> None:
    archive = {"store": "s", "bucket": "archive", "prefix": "x/"}
    exports.policy(more={"action": "archive", "archive": archive})
    fill(exports.server, 2)
    exports.begin("a")
    outcomes = exports.cli.json("run", "exports")["work"]["outcomes"]
    assert outcomes == {"archived": 2, "deleted": 1}
    assert len(exports.server.keys("archive")) == 2


def test_an_upload_that_ended_meanwhile_is_absent(exports: Exports) -> None:
    finished, aborted = exports.begin("a", "b")
    exports.cli.json("plan", "exports")
    del exports.server.copies.uploads[finished], exports.server.copies.uploads[aborted]
    exports.server.put("exports", "exports/a", b"finished")
    assert exports.cli.json("work", "--drain")["outcomes"] == {"absent": 2}
    assert exports.server.keys("exports") == {"exports/a"}


def test_an_abort_that_is_denied_is_a_dead_letter_that_names_its_upload(exports: Exports) -> None:
    (upload_id,) = exports.begin("a")
    exports.server.denied.add("exports/")
    exports.cli.json("run", "exports", code=1)
    (letter,) = exports.cli.json("dlq", "list")
    assert letter["failure_class"] == "permission"
    assert letter["command"]["upload_id"] == upload_id
    assert letter["command"]["operation_id"] == letter["operation_id"]
    shown = exports.cli("dlq", "show", letter["operation_id"]).out
    assert f"unfinished upload {upload_id}, begun 2026-01-01T00:00:00Z" in shown
    reply = exports.cli(
        "dlq", "redrive", "--id", letter["operation_id"], "--set", "key=exports/b", code=2
    )
    assert "unfinished upload" in reply.err
    exports.server.denied.clear()
    exports.cli("dlq", "redrive", "--all")
    assert exports.cli.json("work", "--drain")["outcomes"] == {"deleted": 1}


def test_what_is_aborted_is_not_overdue_and_what_is_not_is(exports: Exports) -> None:
    exports.begin("a")
    exports.cli.json("run", "exports")
    assert exports.cli.json("verify", "exports")["overdue"] == 0
    exports.begin("late")
    found = exports.cli.json("verify", "exports", code=1)
    assert (found["overdue"], found["sample"]) == (1, ["exports/late"])


def test_an_upload_that_is_listed_after_it_was_aborted_reappears(exports: Exports) -> None:
    (upload_id,) = exports.begin("a")
    gone = exports.server.copies.uploads[upload_id]
    exports.cli.json("run", "exports")
    exports.server.copies.uploads[upload_id] = gone
    exports.cli.new_slot()
    plan = exports.cli.json("plan", "exports")
    # Deleted a moment ago: the listing may lag behind.
    assert (plan["already_completed"], plan["reappeared"]) == (1, 0)


def test_uploads_under_a_check_that_may_not_list_them_are_an_error(exports: Exports) -> None:
    exports.server.fail("ListMultipartUploads", error(403, "AccessDenied"))
    assert "store-permission" in exports.cli("check", code=1).out
    assert "store-permission" not in exports.cli("check").out


def test_a_planner_killed_between_two_pages_of_uploads_goes_on_there(exports: Exports) -> None:
    clock = SharedClock(exports.folder / "clock")
    exports.server.copies.upload_page = 2
    exports.cli("status")
    exports.begin(*(f"{n:02} +%" for n in range(9)))
    asked = exports.server.asked

    def third(_request: Any) -> bool:
        return len(asked("ListMultipartUploads")) >= 3

    with held(exports.server, "ListMultipartUploads", when=third) as come:
        child = exports.forks.start("support.harness:planner", ("exports",), cwd=exports.folder)
        assert come.wait(30)
        child.kill()
        child.wait()
    before = exports.cli.audit.one("SELECT planned FROM runs")
    assert 0 < before < 9
    clock.step(LAPSED)
    child = exports.forks.start("support.harness:planner", ("exports",), cwd=exports.folder)
    assert child.wait() == 0, child.said()
    assert exports.cli.audit.one("SELECT planned FROM runs") == 9
    assert exports.cli.audit.one("SELECT already_pending FROM runs") == 0, (
        "a page was planned twice"
    )
    clock.close()
    assert exports.cli.json("work", "--drain")["outcomes"] == {"deleted": 9}


def test_a_worker_killed_between_an_abort_and_its_record_repeats_it_safely(
    exports: Exports,
) -> None:
    clock = SharedClock(exports.folder / "clock")
    exports.cli("status")
    exports.begin("a", "b")
    exports.cli.json("plan", "exports")
    with held(exports.server, "AbortMultipartUpload") as come:
        child = exports.forks.start("support.harness:worker", ("1",), cwd=exports.folder)
        assert come.wait(30)
        child.kill()
        child.wait()
    clock.step(LAPSED)
    child = exports.forks.start("support.harness:worker", ("1", "drain"), cwd=exports.folder)
    assert child.wait(60) == 0, child.said()
    clock.close()
    assert exports.left == set()
    rows = exports.cli.audit.rows("SELECT outcome FROM operations")
    assert {row[0] for row in rows} <= {"deleted", "absent"}
    assert exports.cli.audit.problems() == []
