"""Traps in configuration files: every way in refuses them, and nothing is asked of any store."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli import Cli, fill
from support.faults import FaultyS3

COMMANDS = (["plan", "exports"], ["run", "exports", "--yes"], ["check"])


def _refused(cli: Cli, faulty: FaultyS3, *words: str) -> None:
    for command in COMMANDS:
        said = cli(*command, code=2).err
        for word in words:
            assert word in said, (command, said)
    assert faulty.requests == []


@pytest.mark.parametrize(
    "text", [30, "30", "30m", "1M", "30 d", "\u0663\u0660d", "", "d", "-30d", "1e3d", "30d30d"]
)
def test_ambiguous_durations_are_refused_by_name_o_conf_01(
    cli: Cli, faulty: FaultyS3, text: object
) -> None:
    fill(faulty, 3)
    cli.policy("exports", older_than=text)  # type: ignore[arg-type]
    if text == "30 d":  # exact, or refused
        reply = cli("plan", "exports", "--dry-run", "--json", code=None)
        assert reply.code == 2 or reply.json["cutoff"]
        return
    _refused(cli, faulty, "policies.exports.older_than")


@pytest.mark.parametrize(
    ("text", "cutoff"),
    [
        ("1d", "2026-06-30T00:00:00Z"),
        ("30d", "2026-06-01T00:00:00Z"),
        ("P30D", "2026-06-01T00:00:00Z"),
        ("1mo", "2026-06-01T00:00:00Z"),
        ("4w", "2026-06-03T00:00:00Z"),
        ("30min", "2026-06-30T23:30:00Z"),
    ],
)
def test_a_plan_prints_the_cutoff_a_duration_comes_to_o_conf_01(
    cli: Cli, faulty: FaultyS3, text: str, cutoff: str
) -> None:
    cli.policy("exports", older_than=text)
    plan = cli.json("plan", "exports", "--slot", "2026-07-01T00:00:00Z", "--dry-run")
    assert plan["cutoff"] == cutoff


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": {"retension": "90d"}}, ("policies.exports.retension",)),
        ({"more": {"older_then": "90d"}}, ("policies.exports.older_then", "older_than")),
        ({"exlude": ["keep/**"]}, ("policies.exports.objects.exlude",)),
        ({"more": {"keep_last": 1}}, ("policies.exports.keep_last",)),
        ({"max_deletes": 1}, ("policies.exports.objects.max_deletes",)),
    ],
)
def test_misspelt_and_misplaced_keys_are_refused_o_conf_02(
    cli: Cli, faulty: FaultyS3, change: dict[str, object], words: tuple[str, ...]
) -> None:
    fill(faulty, 3)
    cli.policy("exports", **change)  # type: ignore[arg-type]
    _refused(cli, faulty, *words)


@pytest.mark.parametrize("text", [0, "0d", "0s", "P0D"])
def test_no_retention_at_all_is_refused_o_conf_03(cli: Cli, faulty: FaultyS3, text: object) -> None:
    fill(faulty, 10)
    cli.policy("exports", older_than=text)  # type: ignore[arg-type]
    _refused(cli, faulty, "policies.exports.older_than")
    assert len(faulty.keys("exports")) == 10


@pytest.mark.parametrize(
    "text", ["36525000d", "999999999d", "1000000000d", "99999999999999999999s", "9" * 400 + "d"]
)
def test_absurdly_long_durations_select_nothing_and_are_no_overflow_o_conf_04(
    cli: Cli, faulty: FaultyS3, text: str
) -> None:
    fill(faulty, 3)
    cli.policy("healthy", prefix="healthy/")
    fill(faulty, 2, "healthy/")
    cli.policy("exports", older_than=text)
    for command in COMMANDS:
        reply = cli(*command, "--json", code=None)
        if reply.code == 2:
            assert "policies.exports.older_than" in reply.err
        elif command[0] != "check":
            document = reply.json
            assert document.get("plan", document)["eligible"] == 0
    assert {key for key in faulty.keys("exports") if key.startswith("exports/")}
    # A file is refused as a whole; without the bad policy the healthy one runs.
    del cli.policies["exports"]
    cli.write()
    assert cli.json("run", "healthy")["work"]["outcomes"] == {"deleted": 2}


def test_a_cutoff_never_lies_in_the_future(cli: Cli, faulty: FaultyS3) -> None:
    for text in ("1s", "1d", "50y", "1990y"):
        cli.policy("exports", older_than=text, version=f"v-{text}")
        reply = cli("plan", "exports", "--dry-run", "--json", code=None)
        if reply.code == 0:
            cutoff = datetime.fromisoformat(reply.json["cutoff"])
            assert cutoff <= datetime.now(UTC) + timedelta(seconds=1)
