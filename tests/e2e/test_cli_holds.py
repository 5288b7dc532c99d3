"""`hold` as an operator types it, and the pages about holds and selection."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cli import Cli, fill
from support.docs import commands, configurations
from support.faults import FaultyS3, error

IDENTITY = {"EXPORTS_KEY_ID": "id", "EXPORTS_SECRET": "secret"}
BUCKET = "weekly-digests"


def add(cli: Cli, *more: str, prefix: str = "exports/2026-01") -> Mapping[str, Any]:
    hold: Mapping[str, Any] = cli.json(
        "hold", "add", "--store", "s", "--bucket", "exports", "--prefix", prefix,
        "--reason", "court case 7", *more,
    )  # fmt: skip
    return hold


def test_a_hold_is_added_listed_and_removed(cli: Cli) -> None:
    until = (datetime.now(UTC) + timedelta(days=9)).strftime("%Y-%m-%dT%H:%M:%SZ")
    added = add(cli, "--until", until)
    assert added["policies"] == ["exports"]
    (listed,) = cli.json("hold", "list")
    assert listed.keys() >= {"hold_id", "scope", "reason", "until", "by"}
    assert listed == {key: value for key, value in added.items() if key != "policies"}
    assert listed["scope"] == {"store": "s", "bucket": "exports", "prefix": "exports/2026-01"}
    assert (listed["reason"], listed["until"]) == ("court case 7", until)
    assert "@" in listed["by"]

    whole = cli.json("hold", "add", "--policy", "exports", "--reason", "audit")
    assert (whole["scope"], whole["until"]) == ({"policy": "exports"}, None)
    assert [h["hold_id"] for h in cli.json("hold", "list")] == [
        added["hold_id"],
        whole["hold_id"],
    ]
    assert cli.json("hold", "remove", whole["hold_id"])["hold_id"] == whole["hold_id"]
    assert "there is no such hold" in cli("hold", "remove", whole["hold_id"], code=2).err
    assert [h["hold_id"] for h in cli.json("hold", "list")] == [added["hold_id"]]


def test_the_same_hold_twice_is_one(cli: Cli) -> None:
    assert add(cli)["hold_id"] == add(cli)["hold_id"]
    assert len(cli.json("hold", "list")) == 1


def test_a_person_is_told_what_a_hold_does(cli: Cli) -> None:
    assert cli("hold", "list").out == "no holds in force\n"
    said = cli("hold", "add", "--policy", "exports", "--reason", "a\nb").out
    assert "in force for every worker within one batch" in said
    assert "a\\nb" in said
    nowhere = cli("hold", "add", "--store", "s", "--bucket", "exprots", "--reason", "typing").out
    assert "no policy of this file looks there" in nowhere
    assert len(cli("hold", "list").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--reason", "r"), "give a policy, or a store and a bucket"),
        (("--policy", "exports"), "Missing option '--reason'"),
        (("--policy", "exports", "--reason", " "), "the reason is empty"),
        (("--policy", "nope", "--reason", "r"), "there is no policy nope"),
        (("--policy", "exports", "--store", "s", "--reason", "r"), "either a policy, or"),
        (("--store", "s", "--reason", "r"), "give a policy, or a store and a bucket"),
        (("--bucket", "exports", "--reason", "r"), "give a policy, or a store and a bucket"),
        (("--store", "x", "--bucket", "b", "--reason", "r"), "no store x; stores are: s"),
        (("--policy", "exports", "--reason", "r", "--until", "2020-01-01"), "has passed"),
        (("--policy", "exports", "--reason", "r", "--until", "soon"), "'soon' is not a time"),
    ],
)
def test_a_hold_that_makes_no_sense_is_refused(
    cli: Cli, arguments: tuple[str, ...], said: str
) -> None:
    assert said in cli("hold", "add", *arguments, code=2).err
    assert cli.json("hold", "list") == []


def test_a_hold_added_between_plan_and_work_keeps_all_of_it(cli: Cli, faulty: FaultyS3) -> None:
    held, free = fill(faulty, 5, "exports/2026-01/"), fill(faulty, 5, "exports/2026-02/")
    assert cli.json("plan", "exports")["published"] == 10
    hold = add(cli)

    work = cli.json("work", "--drain")

    assert work["outcomes"] == {"deleted": 5, "protected": 5}
    assert work["protected"] == {"hold": 5}
    assert faulty.keys("exports") == set(held)
    assert not faulty.keys("exports") & set(free)
    evidence = [line for line in cli("export").lines if line["outcome"] == "protected"]
    assert {line["key"] for line in evidence} == set(held)
    assert all(hold["hold_id"] in line["reason"] for line in evidence)
    explained = cli.json("explain", "exports", held[0])
    assert not explained["eligible"]
    assert any(f"under hold {hold['hold_id']}" in reason for reason in explained["reasons"])
    assert any("protected at" in reason for reason in explained["reasons"])
    verified = cli.json("verify", "exports")
    assert (verified["overdue"], verified["protected"]) == (0, {"hold": 5})
    assert cli.audit.problems() == []


def test_status_and_check_list_holds_in_force(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1)
    hold = add(cli)
    (listed,) = cli.json("status")["holds"]
    assert listed["hold_id"] == hold["hold_id"]
    assert f"held: {hold['hold_id']}" in cli("status").out
    findings = cli.json("check")["findings"]
    assert [hold["hold_id"] in f["message"] for f in findings if f["code"] == "hold-in-force"] == [
        True
    ]


def test_check_says_what_keeps_everything_before_a_plan_does(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1, "exports/2026-01/")
    faulty.fail("GetObjectTagging", error(403, "AccessDenied"), times=1)
    generation = "exports/(?P<generation>[^/]+)/"
    cli.policy("exports", lacks_tags=["keep"], current_pointer="current", generation=generation)

    found = {f["code"]: f for f in cli.json("check", code=1)["findings"]}

    assert "s3:GetObjectTagging" in found["tags-unreadable"]["remedy"]
    assert "there is no object current" in found["pointer-unreadable"]["message"]
    faulty.put("exports", "current", b"2026-01")
    again = {f["code"] for f in cli.json("check")["findings"]}
    assert "everything is kept" not in cli("plan", "exports").err
    faulty.put("exports", "current", b"2026-07")
    cli.new_slot()
    assert "everything is kept: current names no generation" in cli("run", "exports").err
    assert {"tags-readable", "pointer-read"} <= again


def documented(cli: Cli, faulty: FaultyS3) -> str:
    """The bucket that the pages talk about, with their configuration; returns an example's key."""
    (configuration,) = configurations("selection.md")
    text = re.sub(r'endpoint_url = ".*"', f'endpoint_url = "{faulty.endpoint}"', configuration)
    (cli.folder / "bestbefore.toml").write_text(text)
    key = "exports/2026-05/customer-1842.json"
    for name in (key, "exports/2026-01/customer-1.json", "exports/2026-04/customer-1842.json"):
        faulty.put(BUCKET, name)
        faulty.tags[BUCKET, name] = {"team": "growth"}
    faulty.put(BUCKET, "exports/current.json", b'{"generation": "2026-05"}')
    return key


def test_the_page_about_selection_does_what_it_says(cli: Cli, faulty: FaultyS3) -> None:
    key = documented(cli, faulty)
    check, plan, explain = commands("selection.md")
    assert cli(*check, env=IDENTITY).out.endswith("ok\n")
    drawn = cli(*plan, "--json", env=IDENTITY).json
    assert (drawn["eligible"], drawn["protected"]) == (2, {"pointer": 2})
    assert explain[-1] == key
    why = cli(*explain, "--json", env=IDENTITY).json
    assert not why["eligible"]
    assert "exports/current.json names its generation 2026-05" in why["reasons"][-1]


def test_the_page_about_holds_does_what_it_says(cli: Cli, faulty: FaultyS3) -> None:
    documented(cli, faulty)
    add_prefix, add_policy, list_, plan, remove = commands("holds.md")
    by_prefix = cli(*add_prefix, "--json", env=IDENTITY).json
    assert by_prefix["hold_id"] == remove[-1]
    by_policy = cli(*add_policy, "--json", env=IDENTITY).json
    assert [h["hold_id"] for h in cli(*list_, "--json", env=IDENTITY).json] == [
        by_prefix["hold_id"],
        by_policy["hold_id"],
    ]
    assert cli(*plan, "--json", env=IDENTITY).json["protected"]["hold"] == 3
    cli(*remove, env=IDENTITY)
    cli("hold", "remove", by_policy["hold_id"], env=IDENTITY)
    assert "hold" not in cli(*plan, "--json", env=IDENTITY).json["protected"]
