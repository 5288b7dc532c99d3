"""A dry run worth reading (S-REACH-09), and `plan` parks like `run` (S-REACH-10)."""

import os
import signal
from datetime import UTC, datetime

import pytest

from support.cli import Cli, fill
from support.cli_shop import SLOT as SHOP_SLOT
from support.cli_shop import CliShop
from support.faults import FaultyS3
from support.terminal import at_terminal

SLOT = "2026-06-01T02:00:00Z"
QUESTION = "Release these 5 now? [y/N]"


@pytest.fixture
def five(cli: Cli, faulty: FaultyS3) -> Cli:
    """A first run that selects five objects, two more than its limit."""
    cli.policy("exports", more={"first_run_limit": 3})
    fill(faulty, 3, "exports/2026-01/")
    fill(faulty, 2, "exports/2026-02/")
    faulty.put("exports", "exports/2026-06/young.json", modified=datetime.now(UTC))
    return cli


def state(cli: Cli) -> str:
    (run,) = cli.json("runs", "list")
    return str(run["state"])


# -- what a dry run shows --------------------------------------------------------------------


def test_a_dry_run_shows_what_would_be_removed_and_what_stays(five: Cli) -> None:
    """S-REACH-09."""
    document = five.json("plan", "exports", "--dry-run", "--slot", SLOT, code=1)
    would = document["would"]

    assert (document["run_id"], document["state"]) == (None, "parked")
    assert would["n"] == 5
    assert would["bytes"] == sum(one["size"] for one in would["sample"])
    assert [(one["prefix"], one["n"]) for one in would["prefixes"]] == [
        ("exports/2026-01/", 3),
        ("exports/2026-02/", 2),
    ]
    (young,) = would["stays"]
    assert (young["reason"], young["n"]) == ("young", 1)
    assert young["prefixes"][0]["prefix"] == "exports/2026-06/"
    assert would["oldest"] <= would["newest"] < document["cutoff"]
    assert (would["first_batch"], would["statement"], would["triggers"]) == ([], None, [])
    assert five.json("runs", "list") == []


def test_a_dry_run_reads_well_and_ends_with_what_to_type_next(five: Cli) -> None:
    """S-REACH-09."""
    text = five("plan", "exports", "--dry-run", code=1).out.splitlines()

    assert any(line.startswith("would remove 5 objects, ") for line in text)
    for heading in ("by prefix", "objects that stay", "sample"):
        assert heading in text
    assert "it would park: first run of version v1: 5 objects selected" in text[-2]
    assert text[-1].startswith("next: `bestbefore plan exports`")


def test_a_dry_run_ends_with_1_only_where_the_run_would_park(five: Cli) -> None:
    for verb in ("plan", "run"):
        five(verb, "exports", "--dry-run", code=1)
        five(verb, "exports", "--dry-run", "--yes", code=0)


def test_list_names_every_target_and_the_summary_last(five: Cli, faulty: FaultyS3) -> None:
    """S-REACH-09."""
    listed = five("plan", "exports", "--dry-run", "--list", "--json", code=1).lines

    assert {one["key"] for one in listed[:-1]} == {
        key for key in faulty.keys("exports") if "young" not in key
    }
    assert {one["kind"] for one in listed[:-1]} == {"object"}
    assert (listed[-1]["kind"], listed[-1]["would"]["n"]) == ("summary", 5)
    some = five("plan", "--list=2", "exports", "--dry-run", "--json", code=1).lines
    assert len(some) == 3
    text = five("plan", "--dry-run", "--list", "exports", code=1).out
    assert sum("exports/2026-0" in line for line in text.split("\n\n")[0].splitlines()) == 5


def test_list_without_a_dry_run_is_refused(five: Cli) -> None:
    assert "--list belongs to --dry-run" in five("plan", "exports", "--list", code=2).err
    assert (
        "not a number of targets" in five("plan", "exports", "--dry-run", "--list=some", code=2).err
    )


def test_a_parked_run_is_shown_as_its_dry_run_was(five: Cli) -> None:
    """S-REACH-09."""
    would = five.json("plan", "exports", "--slot", SLOT, "--dry-run", code=1)["would"]
    planned = five.json("plan", "exports", "--slot", SLOT, code=1)

    shown = five.json("runs", "show", planned["run_id"])

    assert planned["would"] == shown["would"] == would
    assert shown["owner"] == "growth-team"
    assert shown["rule"] == [
        "Objects in exports/exports/ in the store s that are older than 30d are deleted."
    ]
    text = five("runs", "show", planned["run_id"]).out
    assert "would remove 5 objects" in text
    assert f"`bestbefore runs approve {planned['run_id']}` releases exactly this" in text


def test_a_dry_run_of_rows_shows_the_statement_and_the_ends_of_batches(shop: CliShop) -> None:
    """S-REACH-09."""
    shop.orders(25, young=5)
    shop.write(policy="first_run_limit = 10")
    words = ("plan", "stale", "--slot", SHOP_SLOT)

    would = shop.json(*words, "--dry-run", code=1)["would"]

    assert (would["n"], would["bytes"], would["prefixes"]) == (25, None, [])
    first, last = would["first_batch"]
    assert (first[-1], last[-1]) == ("1", "10")
    assert "DELETE" in would["statement"]
    assert {one["rows"] for one in would["sample"]} == {10, 5}
    listed = shop(*words, "--dry-run", "--list", "--json", code=1).lines
    assert [one["rows"] for one in listed[:-1]] == [10, 10, 5]
    assert listed[0]["kind"] == "rows"
    planned = shop.json(*words, code=1)
    assert planned["would"] == would == shop.json("runs", "show", planned["run_id"])["would"]
    text = shop("runs", "show", planned["run_id"]).out
    assert "would remove 25 rows" in text
    assert "it executes" in text
    assert shop.left() == [str(n) for n in range(1, 31)]


def test_rows_that_stay_are_counted_by_reason(small_shop: CliShop) -> None:
    """S-REACH-09."""
    small_shop.orders(25, young=0)
    small_shop.lines(3, 4, 4)
    small_shop.write(dependents="none")

    would = small_shop.json("plan", "stale", "--dry-run")["would"]

    assert {one["reason"]: one["n"] for one in would["stays"]} == {"referenced": 2}


# -- plan parks like run ---------------------------------------------------------------------


def test_plan_in_a_cron_job_parks_and_publishes_nothing(five: Cli, faulty: FaultyS3) -> None:
    """S-REACH-10."""
    parked = five.json("plan", "exports", "--slot", SLOT, code=1)
    again = five.json("plan", "exports", "--slot", SLOT, code=1)

    assert (parked["state"], parked["published"]) == ("parked", 0)
    assert (again["state"], again["repeated"], again["would"]) == ("parked", True, parked["would"])
    assert five.json("work", "--drain")["left"] == {"parked": 5}
    assert len(faulty.keys("exports")) == 6
    released = five.json("plan", "exports", "--slot", SLOT, "--yes")
    assert released["state"] == "open"
    assert five.json("work", "--drain")["outcomes"] == {"deleted": 5}


def test_yes_approves_only_the_run_it_was_said_for(five: Cli, faulty: FaultyS3) -> None:
    """S-REACH-10."""
    five.json("plan", "exports", "--slot", SLOT, "--yes")
    five.policy("exports", version="v2", more={"first_run_limit": 3})
    fill(faulty, 5, "exports/again-")

    assert five.json("plan", "exports", code=1)["state"] == "parked"


def test_at_a_terminal_yes_releases_what_was_shown(five: Cli) -> None:
    """S-REACH-10."""
    said = at_terminal(five.folder, "plan", "exports", "--slot", SLOT, answer="y\n")

    assert (said.code, state(five)) == (0, "open")
    assert QUESTION in said.shown
    assert "would remove 5 objects" in said.out
    assert QUESTION not in said.out, "stdout holds the result and nothing else"
    assert five.json("work", "--drain")["outcomes"] == {"deleted": 5}


@pytest.mark.parametrize("answer", ["\n", "n\n", "yep\n", "", signal.SIGINT, signal.SIGTERM])
def test_at_a_terminal_anything_else_leaves_it_parked(
    five: Cli, answer: str | signal.Signals
) -> None:
    """S-REACH-10: also Ctrl-C and Ctrl-D at the question."""
    said = at_terminal(five.folder, "plan", "exports", "--slot", SLOT, answer=answer)

    assert (said.code, state(five)) == (1, "parked")
    assert QUESTION in said.shown
    assert "Traceback" not in said.shown


def test_a_parked_run_is_asked_about_again_and_can_be_released_then(five: Cli) -> None:
    """S-REACH-10: `plan` twice."""
    words = ("plan", "exports", "--slot", SLOT)
    assert at_terminal(five.folder, *words, answer="n\n").code == 1

    assert at_terminal(five.folder, *words, answer="yes\n").code == 0

    assert state(five) == "open"


def test_with_json_or_without_an_input_no_question_is_asked(five: Cli) -> None:
    """S-REACH-10."""
    words = ("plan", "exports", "--slot", SLOT)
    asked_for_json = at_terminal(five.folder, *words, "--json", answer="y\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    from_cron = at_terminal(five.folder, *words, answer="y\n", stdin=nothing)
    os.close(nothing)

    for said in (asked_for_json, from_cron):
        assert (said.code, QUESTION in said.shown) == (1, False)
    assert state(five) == "parked"


def test_a_run_that_goes_ahead_is_not_asked_about(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)

    said = at_terminal(cli.folder, "plan", "exports", answer="n\n")

    assert (said.code, "[y/N]" in said.shown, state(cli)) == (0, False, "open")


def test_an_approval_can_have_a_reason(five: Cli) -> None:
    run_id = five.json("plan", "exports", "--slot", SLOT, code=1)["run_id"]

    five("runs", "approve", run_id, "--reason", "checked with billing")

    events = five("export", "--events").lines
    assert events[-1]["detail"].endswith("; approved because checked with billing")
