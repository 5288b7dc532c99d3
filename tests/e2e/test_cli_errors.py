"""What goes wrong before or around a run: exit status 2, one line that names it, no traceback.

`Cli` looks for tracebacks and control characters in every answer.
"""

import os
import signal
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.cli import Cli, fill
from support.faults import Answer, FaultyS3, error, redirect, slow_down
from support.forks import until

SLOT = "2026-06-01T02:00:00Z"


def test_an_unknown_policy_is_named_beside_those_there_are(cli: Cli) -> None:
    for command in (["plan"], ["run"], ["verify"], ["pause", "--reason", "x"]):
        said = cli(*command, "nope", code=2).err
        assert "there is no policy nope" in said
        assert "exports" in said
    assert "there is no policy nope" in cli("explain", "nope", "key", code=2).err


def test_a_missing_configuration_is_named(cli: Cli) -> None:
    (cli.folder / "bestbefore.toml").unlink()
    for command in (["plan", "exports"], ["work"], ["status"], ["check"], ["dlq", "list"]):
        assert "bestbefore.toml" in cli(*command, code=2).err
    assert "other.toml" in cli("status", "--config", "other.toml", code=2).err


def test_an_unknown_verb_or_option_is_wrong_usage(cli: Cli) -> None:
    assert cli("clean", code=2).err
    assert cli("plan", code=2).err
    assert cli("plan", "exports", "--force", code=2).err
    assert cli("work", "--concurrency", "0", code=2).err


def test_an_endpoint_nobody_listens_on_is_named(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        cli.store("s", endpoint, ("key-id", "secret"))
        for command in (["plan", "exports"], ["plan", "exports", "--dry-run"], ["run", "exports"],
                        ["explain", "exports", "exports/a"]):  # fmt: skip
            said = cli(*command, code=2).err
            assert "s3://exports" in said
            assert "the connection failed" in said
        findings = cli.json("check", code=1)["findings"]
        assert "store-transient" in {finding["code"] for finding in findings}
    assert cli.json("runs", "list") == []


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"])
def test_refused_credentials_are_said_in_the_stores_own_words(
    cli: Cli, faulty: FaultyS3, code: str
) -> None:
    faulty.fail("GetBucketVersioning", error(403, code, message="who are you"), times=100)
    said = cli("plan", "exports", code=2).err
    assert code in said
    assert "who are you" in said
    document = cli.json("check", code=1)
    assert not document["ok"]
    (finding,) = (f for f in document["findings"] if f["code"] == "store-credentials")
    assert "stores.s" in finding["remedy"]


def test_a_missing_bucket_is_named(cli: Cli, faulty: FaultyS3) -> None:
    faulty.buckets.clear()
    said = cli("plan", "exports", code=2).err
    assert "s3://exports" in said
    assert "NoSuchBucket" in said
    assert not cli.json("check", code=1)["ok"]


def test_a_versioned_bucket_is_refused_with_the_reason(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    for versioning in ("Enabled", "Suspended"):
        faulty.versioning = versioning
        said = cli("plan", "exports", code=2).err
        assert f"versioning of exports is {versioning}" in said
        assert "policies.exports.objects.versions" in said
        assert 'choose "marker"' in said
    assert "plan-refused" in {f["code"] for f in cli.json("check", code=1)["findings"]}
    assert len(faulty.keys("exports")) == 2


@pytest.mark.parametrize("minutes", [-6, 6, 60 * 24 * 365])
def test_a_clock_that_is_off_is_refused(cli: Cli, faulty: FaultyS3, minutes: int) -> None:
    fill(faulty, 1)
    faulty.date = lambda: datetime.now(UTC) + timedelta(minutes=minutes)
    said = cli("plan", "exports", code=2).err
    assert "this clock says" in said
    assert "set the clock right" in said
    cli("run", "exports", code=2)
    assert faulty.keys("exports")


def test_a_clock_that_is_a_little_off_is_not(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1)
    faulty.date = lambda: datetime.now(UTC) + timedelta(minutes=4)
    assert cli.json("run", "exports")["state"] == "drained"


def test_a_slot_in_the_future_is_refused_unless_it_is_about_to_come(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 1)
    far = (datetime.now(UTC) + timedelta(minutes=3)).isoformat()
    assert "is in the future" in cli("plan", "exports", "--slot", far, code=2).err
    near = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    assert cli.json("plan", "exports", "--slot", near)["published"] == 1
    for wrong in ("yesterday", "2026-13-01", "0001-01-01T00:00:00Z"):
        assert "Invalid value for '--slot'" in cli("plan", "exports", "--slot", wrong, code=2).err


def test_listing_goes_on_after_the_network_was_down_in_the_middle(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 5)
    faulty.page_size = 2
    seen = 0

    def hangs_up(_: Answer) -> Answer:
        return None  # type: ignore[return-value]

    def second(_: object) -> bool:
        nonlocal seen
        seen += 1
        return seen == 2

    faulty.fail("ListObjectsV2", hangs_up, when=second)
    assert cli.json("plan", "exports")["published"] == 5


def test_deleting_goes_on_after_the_network_was_down_in_the_middle(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 5)

    def hangs_up(_: Answer) -> Answer:
        return None  # type: ignore[return-value]

    faulty.fail("DeleteObjects", hangs_up, times=2)
    document = cli.json("run", "exports")
    assert document["state"] == "drained"
    assert document["work"]["retried"].keys() == {"transient"}
    assert document["work"]["completed"] == 5
    assert faulty.keys("exports") == set()


def test_a_listing_that_is_denied_ends_the_plan_and_the_next_one_goes_on(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    faulty.fail("ListObjectsV2", error(403, "AccessDenied"))
    said = cli("run", "exports", "--slot", SLOT, code=2).err
    assert "AccessDenied" in said
    assert faulty.keys("exports")
    again = cli.json("run", "exports", "--slot", SLOT)
    assert again["state"] == "drained"
    assert again["plan"]["published"] == 3


def test_a_busy_store_is_waited_for_while_listing(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    faulty.fail("ListObjectsV2", slow_down(retry_after="0"))
    assert cli.json("plan", "exports")["published"] == 3


def test_a_redirect_is_one_configuration_error_not_many_failures_o_s3err_02(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-S3ERR-02: nothing counts as done, and the dead letters are not flooded."""
    fill(faulty, 5)
    faulty.fail("GetBucketVersioning", redirect(), times=1)
    said = cli("plan", "exports", code=2).err
    assert "PermanentRedirect" in said
    cli("plan", "exports")
    for operation in ("DeleteObjects", "DeleteObject", "HeadObject", "ListObjectsV2"):
        faulty.fail(operation, redirect(), times=1000, when=lambda _: True)
    work = cli.json("work", "--drain", code=1)
    assert work["completed"] == 0
    assert work["left"] == {"dead": 1, "paused": 4}
    assert len(cli.json("dlq", "list")) == 1
    assert "PermanentRedirect" in cli.json("status")["policies"][0]["paused"]
    assert len(faulty.keys("exports")) == 5


def test_expired_credentials_open_the_breaker_and_spend_no_attempts(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    cli("plan", "exports")
    faulty.fail("DeleteObjects", error(403, "ExpiredToken"), times=1000, when=lambda _: True)
    with cli.start("work", "--drain") as worker:
        from support.forks import until

        until(lambda: cli.json("status")["breakers"], what="an open breaker")
        assert worker.running
    (breaker,) = cli.json("status")["breakers"]
    assert breaker["connection"] == "s"
    assert "ExpiredToken" in breaker["reason"]
    assert cli.json("dlq", "list") == []
    spent = cli.audit.rows("SELECT budget FROM operations WHERE budget IS NOT NULL")
    assert all('"spent": {}' in row["budget"] for row in spent)


def test_a_state_database_that_cannot_be_opened_is_named(cli: Cli) -> None:
    cli.extra = '[state]\nurl = "sqlite:///missing/folder/state.db"\n'
    cli.write()
    said = cli("status", code=2).err
    assert "state.db" in said


def test_a_state_database_that_is_something_else_is_named(cli: Cli) -> None:
    (cli.folder / "bestbefore.db").write_text("this is not a database, and it is long enough\n" * 9)
    assert "bestbefore.db" in cli("status", code=2).err


def test_a_state_database_of_a_newer_version_is_refused(cli: Cli) -> None:
    import sqlite3

    cli("status")
    with sqlite3.connect(cli.folder / "bestbefore.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    said = cli("status", code=2).err
    assert "newer than this process" in said


@pytest.mark.parametrize(
    "profile", ["[default]\ncredential_process = /bin/false\n", "[profile other]\n"]
)
def test_a_store_that_the_environment_gives_no_client_for_keeps_no_other_waiting(
    cli: Cli, faulty: FaultyS3, tmp_path: Path, profile: str
) -> None:
    fill(faulty, 2)
    old = tmp_path / "disk" / "logs" / "old.log"
    old.parent.mkdir(parents=True)
    old.write_text("x")
    os.utime(old, (0, 0))
    cli.stores["disk"] = {"kind": "directory", "root": str(tmp_path / "disk")}
    cli.policy("logs", store="disk", bucket="logs", prefix=None, whole_bucket=True)
    cli("plan", "exports")
    cli("plan", "logs")
    for key in ("access_key_id", "secret_access_key"):
        del cli.stores["s"][key]
    cli.write()
    config = tmp_path / "aws"
    config.write_text(profile)
    env = {"AWS_CONFIG_FILE": str(config)}
    env |= {} if "default" in profile else {"AWS_PROFILE": "nowhere"}

    worker = cli.spawn("work", env=env)
    until(lambda: not old.exists(), what="the other store's delete")
    until(lambda: "leaves the commands of s to others" in worker.said(), what="a word about it")
    worker.kill(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()
    drained = cli("work", "--drain", "--json", code=1, env=env).json
    check = cli("check", code=1, env=env)
    said = cli("plan", "exports", "--slot", SLOT, code=2, env=env).err

    assert [row["state"] for row in cli.audit.rows("SELECT state FROM operations")].count(
        "dead"
    ) == 0
    assert cli.audit.one("SELECT count(*) FROM breakers") == 0, "another process may have a client"
    assert drained["left"] == {"no_client": 2}
    for told in (check.out, said):
        assert "CredentialRetrievalError" in told or "ProfileNotFound" in told
        assert "stores.s: " in told
    cli.store("s", faulty.endpoint, ("key-id", "secret"))
    assert cli.json("work", "--drain")["outcomes"] == {"deleted": 2}
