"""What a person decides: approve, cancel, dry runs, pauses, versions, dead letters."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cli import PARTS, Cli, fill
from support.faults import OLD, FaultyS3, error
from support.forks import until

SLOT = "2026-06-01T02:00:00Z"
LATER = "2026-06-02T02:00:00Z"


def _parts(plan: dict[str, Any]) -> dict[str, int]:
    return {part: plan[part] for part in PARTS if plan[part]}


# -- parked runs -----------------------------------------------------------------------------


def test_a_run_over_max_deletes_parks_is_shown_approved_and_then_works(
    cli: Cli, faulty: FaultyS3
) -> None:
    cli.policy("exports", more={"max_deletes": 2})
    keys = fill(faulty, 3)
    parked = cli.json("plan", "exports", "--slot", SLOT, code=1)
    assert parked["state"] == "parked"
    assert "max_deletes is 2" in parked["reason"]
    assert _parts(parked) == {"waiting": 3}
    run_id = parked["run_id"]

    again = cli.json("plan", "exports", "--slot", SLOT, code=1)
    assert again["repeated"]
    assert _parts(again) == {"waiting": 3}
    assert cli.json("work", "--drain")["left"] == {"parked": 3}
    assert faulty.keys("exports") == set(keys)
    shown = cli.json("runs", "show", run_id)
    assert shown["state"] == "parked"
    assert shown["sample"] == [f"exports/{key}" for key in keys]
    assert cli.json("status")["policies"][0]["state"] == "parked"

    assert cli.json("runs", "approve", run_id)["state"] == "open"
    assert "only a parked run can be approved" in cli("runs", "approve", run_id, code=2).err
    assert cli.json("work", "--drain")["outcomes"] == {"deleted": 3}
    assert cli.json("runs", "show", run_id)["state"] == "drained"
    assert faulty.keys("exports") == set()


def test_a_blocked_run_is_a_failure_and_its_approval_is_bound_to_its_plan_o_guard_02(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-GUARD-02: approve, add one object, run: blocked again."""
    cli.policy("exports", more={"max_fraction": 0.5})
    fill(faulty, 96)
    for number in range(4):
        faulty.put("exports", f"exports/young-{number}.json", modified=datetime.now(UTC))
    blocked = cli.json("run", "exports", "--slot", SLOT, code=1)
    assert blocked["state"] == "parked"
    assert "96 of 100 objects in scope selected (96.0%)" in blocked["plan"]["reason"]
    assert _parts(blocked["plan"]) == {"waiting": 96}
    assert blocked["work"]["received"] == 0
    assert len(faulty.keys("exports")) == 100

    faulty.put("exports", "exports/added.json")
    again = cli.json("run", "exports", "--slot", LATER, code=1)
    assert again["state"] == "parked"
    assert _parts(again["plan"]) == {"waiting": 97}
    # The plan that was shown has been taken over: approving it now decides nothing.
    old = blocked["plan"]["run_id"]
    assert cli.json("runs", "show", old)["state"] == "cancelled"
    cli("runs", "approve", old, code=2)

    cli("runs", "approve", again["plan"]["run_id"])
    faulty.put("exports", "exports/after-the-approval.json")
    approved = cli.json("run", "exports", "--slot", LATER)
    assert approved["state"] == "drained"
    left = {key for key in faulty.keys("exports") if "young" not in key}
    assert left == {"exports/after-the-approval.json"}
    fill(faulty, 20, "exports/next-")
    assert cli.json("run", "exports", code=1)["state"] == "parked"
    assert cli.audit.problems() == []


def test_the_first_run_of_a_version_over_its_limit_parks_whatever_started_it(
    cli: Cli, faulty: FaultyS3
) -> None:
    """S-REACH-10."""
    cli.policy("exports", more={"first_run_limit": 2})
    fill(faulty, 3)
    parked = cli.json("run", "exports", "--slot", SLOT, code=1)
    assert "first run of version v1" in parked["plan"]["reason"]
    cli.policy("other", prefix="other/", more={"first_run_limit": 2})
    fill(faulty, 3, "other/")
    planned = cli.json("plan", "other", code=1)
    assert (planned["state"], planned["reason"]) == ("parked", parked["plan"]["reason"])
    assert planned["would"]["n"] == 3


def test_yes_lets_one_run_go_ahead_and_releases_the_parked_run_of_its_slot(
    cli: Cli, faulty: FaultyS3
) -> None:
    cli.policy("exports", more={"max_deletes": 1})
    fill(faulty, 3)
    cli.json("plan", "exports", "--slot", SLOT, code=1)
    released = cli.json("plan", "exports", "--slot", SLOT, "--yes")
    assert released["state"] == "open"
    assert _parts(released) == {"published": 3}
    cli("work", "--drain")
    fill(faulty, 3, "exports/next-")
    assert cli.json("run", "exports", "--yes")["state"] == "drained"
    fill(faulty, 3, "exports/last-")
    cli.new_slot()
    assert cli.json("run", "exports", code=1)["state"] == "parked"


def test_a_cancelled_run_deletes_nothing_and_its_objects_are_planned_again(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    run_id = cli.json("plan", "exports", "--slot", SLOT)["run_id"]
    shown = cli.json("runs", "cancel", run_id, "--reason", "wrong bucket")
    assert shown["state"] == "cancelled"
    assert shown["outcomes"] == {"cancelled": 3}
    assert cli.json("work", "--drain")["received"] == 0
    assert len(faulty.keys("exports")) == 3
    assert _parts(cli.json("plan", "exports", "--slot", LATER)) == {"published": 3}
    assert cli.json("work", "--drain")["outcomes"] == {"deleted": 3}
    drained = cli.json("runs", "list")[0]["run_id"]
    assert "drained" in cli("runs", "cancel", drained, code=2).err
    assert "there is no such run" in cli("runs", "show", "000000000000", code=2).err
    assert cli.audit.problems() == []


# -- dry runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *itertools.chain.from_iterable(
            ([verb, "exports", "--dry-run", "--yes"], [verb, "exports", "--yes", "--dry-run"],
             [verb, "exports", "--slot", SLOT, "--yes", "--dry-run"])
            for verb in ("plan", "run")
        ),
        ["dlq", "redrive", "--all", "--dry-run", "--yes"],
        ["dlq", "redrive", "--all", "--yes", "--dry-run"],
        ["dlq", "redrive", "--class", "permission", "--yes", "--dry-run", "--rate", "1"],
        ["dlq", "discard", "--all", "--reason", "x", "--dry-run"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_dry_run_always_wins_o_conf_05(cli: Cli, faulty: FaultyS3, command: list[str]) -> None:
    """O-CONF-05: bucket, queue and ledger are the same before and after."""
    cli.policy("exports", more={"max_deletes": 3, "attempts": {"permission": 1}})
    fill(faulty, 3)
    faulty.denied.add("exports/00001")
    cli("plan", "exports", "--slot", SLOT)
    cli("work", "--drain", code=1)
    fill(faulty, 5, "exports/parked-")
    cli("plan", "exports", "--slot", LATER, code=1)
    before = (dict(faulty.objects), cli.audit.contents())
    faulty.requests.clear()
    reply = cli(*command)
    assert "dry run" in reply.out or "would" in reply.out
    assert (dict(faulty.objects), cli.audit.contents()) == before
    assert {r.operation for r in faulty.requests} <= {"GetBucketVersioning", "ListObjectsV2"}


def test_a_dry_run_says_what_the_run_would_do(cli: Cli, faulty: FaultyS3) -> None:
    cli.policy("exports", more={"max_deletes": 2})
    fill(faulty, 3)
    preview = cli.json("run", "exports", "--slot", SLOT, "--dry-run", code=1)
    assert cli.json("plan", "exports", "--slot", SLOT, "--dry-run", code=1) == preview["plan"]
    assert preview["work"] is None
    assert preview["plan"]["dry_run"]
    assert _parts(preview["plan"]) == {"waiting": 3}
    assert "max_deletes is 2" in preview["plan"]["reason"]
    assert cli.json("runs", "list") == []
    real = cli.json("plan", "exports", "--slot", SLOT, code=1)
    assert {k: real[k] for k in ("scanned", "eligible", "protected", "cutoff")} == {
        k: preview["plan"][k] for k in ("scanned", "eligible", "protected", "cutoff")
    }


def test_the_environment_cannot_switch_a_dry_run_off_o_conf_05(cli: Cli, faulty: FaultyS3) -> None:
    """O-CONF-05: no variable stands for a flag; only the file's name comes from the environment."""
    fill(faulty, 2)
    forged = dict.fromkeys(("DRY_RUN", "BESTBEFORE_DRY_RUN", "BESTBEFORE_PLAN_DRY_RUN"), "0")
    cli("run", "exports", "--dry-run", "--yes", env=forged | {"BESTBEFORE_YES": "1"})
    assert len(faulty.keys("exports")) == 2


# -- pauses ----------------------------------------------------------------------------------


def test_a_pause_stops_a_running_worker_within_one_batch_and_resume_lets_it_go_on(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    cli("plan", "exports", "--slot", SLOT)
    with cli.start("work", "--concurrency", "1"):
        until(lambda: not faulty.keys("exports"), what="the first batch")
        paused = cli.json("pause", "exports", "--reason", "audit\x1b[2J")
        assert paused == {
            "paused": "exports",
            "reason": "audit\x1b[2J",
            "until": None,
            "misses": [],
        }
        fill(faulty, 3, "exports/more-")
        planned = cli.json("plan", "exports", "--slot", LATER)
        assert planned["published"] == 3
        assert cli.json("work", "--drain")["left"] == {"paused": 3}
        cli("status")
        assert cli.json("status")["policies"][0]["paused"] == "audit\x1b[2J"
        assert len(faulty.keys("exports")) == 3
        resumed = cli.json("resume", "exports")
        assert resumed == {"resumed": True, "backlog": {"exports": 3}, "first": []}
        until(lambda: not faulty.keys("exports"), what="the second batch")
    assert cli.json("resume", "exports")["resumed"] is False


def test_a_pause_of_everything_and_one_that_ended_by_itself(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    cli("plan", "exports", "--slot", SLOT)
    cli("pause", "--reason", "maintenance")
    assert cli.json("work", "--drain")["left"] == {"paused": 2}
    cli("resume")
    ended = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    cli("pause", "exports", "--reason", "over", "--until", ended)
    assert cli.json("work", "--drain")["completed"] == 2
    assert "there is no policy other" in cli("pause", "other", "--reason", "x", code=2).err


# -- versions --------------------------------------------------------------------------------


def test_a_policy_edited_under_its_version_is_refused_naming_what_changed(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 2)
    cli("plan", "exports", "--slot", SLOT)
    cli.policy("exports", older_than="7d")
    for command in (["plan", "exports"], ["work", "--drain"], ["status"], ["run", "exports"]):
        refused = cli(*command, code=2)
        assert "older_than" in refused.err
        assert "v1" in refused.err
    cli.policy("exports", prefix="exports/2026/")
    assert "objects.prefix" in cli("plan", "exports", code=2).err
    assert len(faulty.keys("exports")) == 2
    cli.policy("exports", owner="somebody-else", more={"max_deletes": 5})  # decides nothing
    assert cli.json("work", "--drain")["completed"] == 2


def test_operations_of_an_older_version_are_superseded_not_executed(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = fill(faulty, 3)
    cli("plan", "exports", "--slot", SLOT)
    cli.policy("exports", version="v2", match="00000.json")
    planned = cli.json("plan", "exports", "--slot", LATER)
    assert (planned["policy_version"], planned["eligible"]) == ("v2", 1)
    work = cli.json("work", "--drain")
    assert work["outcomes"] == {"superseded": 3, "deleted": 1}
    assert faulty.keys("exports") == set(keys[1:])
    first = cli.json("runs", "list")[1]["run_id"]
    assert cli.json("runs", "show", first)["outcomes"] == {"superseded": 3}


def test_each_dead_letter_goes_back_to_where_it_came_from_o_dlq_02(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-DLQ-02: two of A, one of B, one of a policy version that is no more; redrive them all."""
    for name, n in (("a", 2), ("b", 1), ("c", 1)):
        prefix = f"{name}/"
        fill(faulty, n, prefix)
        faulty.denied.add(prefix)
        cli.policy(name, prefix=prefix, more={"attempts": {"permission": 1}})
        cli.json("run", name, "--yes", code=1)
    cli.policy("c", version="v2", prefix="c/", match="*.gone")
    cli.json("plan", "c")
    faulty.denied.clear()

    done = cli.json("dlq", "redrive", "--all", code=None)

    assert (done["redriven"], done["refused"]) == (3, 1)
    assert faulty.keys("exports") == {
        "a/00000.json",
        "a/00001.json",
        "b/00000.json",
        "c/00000.json",
    }
    assert cli.json("work", "--drain", code=1)["outcomes"] == {"deleted": 3}
    assert faulty.keys("exports") == {"c/00000.json"}
    (left,) = cli.json("dlq", "list")
    assert (left["policy"], left["superseded"]) == ("c", True)


def test_dead_letters_of_an_older_version_are_refused_a_redrive_and_can_be_discarded(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 2)
    faulty.denied.add("exports/")
    cli("run", "exports", "--slot", SLOT, code=1)
    cli.policy("exports", version="v2", prefix="nothing/")
    cli("plan", "exports", "--slot", LATER)
    done = cli.json("dlq", "redrive", "--all")
    assert (done["redriven"], done["refused"]) == (0, 2)
    assert all(letter["superseded"] for letter in cli.json("dlq", "list", "--superseded"))
    assert cli.json("dlq", "discard", "--superseded", "--reason", "old")["discarded"] == 2
    assert cli.json("dlq", "list") == []


# -- dead letters ----------------------------------------------------------------------------


@pytest.fixture
def letters(cli: Cli, faulty: FaultyS3) -> list[dict[str, Any]]:
    """Six dead letters by key: four denied (the last of another policy), two of another class."""
    cli.policy("other", prefix="other/", more={"attempts": {"permission": 1}})
    fill(faulty, 5)
    fill(faulty, 1, "other/")
    for number in (0, 1, 2):
        faulty.denied.add(f"exports/0000{number}")
    faulty.denied.add("other/")
    faulty.refuse("exports/00003.json", "SomethingNew")
    faulty.refuse("exports/00004.json", "SomethingNew")
    cli("plan", "exports", "--slot", SLOT)
    cli("plan", "other", "--slot", SLOT)
    cli("work", "--drain", code=1)
    faulty.denied.clear()
    faulty._refusals.clear()
    found = cli.json("dlq", "list")
    assert len(found) == 6
    return sorted(found, key=lambda letter: str(letter["command"]["key"]))


def test_a_dead_letter_shows_everything_needed_to_diagnose_it(
    cli: Cli, letters: list[dict[str, Any]]
) -> None:
    letter = next(one for one in letters if one["command"]["key"] == "exports/00000.json")
    assert letter.keys() >= {
        "operation_id", "policy", "policy_version", "command", "failure_class", "error",
        "attempts", "first_failed_at", "last_failed_at",
    }  # fmt: skip
    assert (letter["policy"], letter["policy_version"]) == ("exports", "v1")
    assert (letter["failure_class"], letter["attempts"]) == ("permission", 1)
    assert "AccessDenied" in letter["error"]
    command = letter["command"]
    assert (command["v"], command["kind"], command["action"]) == (1, "object", "delete")
    assert command["operation_id"] == letter["operation_id"]
    assert command["slot"] == SLOT
    shown = cli.json("dlq", "show", letter["operation_id"][:16])
    assert len(shown["history"]) == 1
    assert "operation id is empty" in cli("dlq", "show", "", code=2).err
    assert "is no operation id" in cli("dlq", "show", "zzzz", code=2).err
    assert "is no dead letter" in cli("dlq", "show", "0" * 64, code=2).err
    assert "is no operation id" in cli("dlq", "show", "0" * 65 + "g", code=2).err


@pytest.mark.parametrize(
    ("which", "n"),
    [
        (["--policy", "exports"], 5),
        (["--policy", "other"], 1),
        (["--class", "permission"], 4),
        (["--class", "unknown"], 2),
        (["--class", "permission", "--policy", "exports"], 3),
        (["--policy", "nobody"], 0),
        (["--superseded"], 0),
        (["--all"], 6),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_filtered_redrive_sends_exactly_those(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]], which: list[str], n: int
) -> None:
    filters = [] if which == ["--all"] else which
    meant = {letter["command"]["key"] for letter in cli.json("dlq", "list", *filters)}
    assert len(meant) == n
    before = faulty.keys("exports")
    dry = cli.json("dlq", "redrive", *which, "--dry-run")
    assert (dry["redriven"], dry["would_redrive"]) == (0, n)
    assert cli.json("dlq", "redrive", *which)["redriven"] == n
    assert cli.json("work", "--drain", code=1 if n < 6 else 0)["outcomes"] == (
        {"deleted": n} if n else {}
    )
    assert before - faulty.keys("exports") == meant
    assert len(cli.json("dlq", "list")) == 6 - n
    assert cli.audit.problems() == []


def test_a_redrive_by_id_keeps_the_id_and_gives_a_fresh_budget(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    letter = letters[0]
    faulty.denied.add(letter["command"]["key"])
    assert cli.json("dlq", "redrive", "--id", letter["operation_id"][:12])["redriven"] == 1
    cli("work", "--drain", code=1)
    again = next(
        one for one in cli.json("dlq", "list") if one["operation_id"] == letter["operation_id"]
    )
    assert again["attempts"] == 1
    assert again["redriven"] == 1
    assert len(cli.json("dlq", "show", letter["operation_id"])["history"]) == 2


def test_a_canary_goes_first_and_the_rest_waits(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    done = cli.json("dlq", "redrive", "--all", "--canary", "2")
    assert (done["redriven"], done["remaining"]) == (2, 4)
    assert cli.json("work", "--drain", code=1)["completed"] == 2
    assert len(cli.json("dlq", "list")) == 4


def test_a_rate_spreads_the_redrive_out(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    assert cli.json("dlq", "redrive", "--all", "--rate", "10")["redriven"] == 6
    due = [row["due_at"] for row in cli.audit.rows(
        "SELECT due_at FROM operations WHERE state = 'pending' ORDER BY due_at")]  # fmt: skip
    assert [(later - due[0]) // 1000 for later in due] == [0, 100, 200, 300, 400, 500]
    assert cli.json("work", "--drain")["completed"] == 6


def test_a_redrive_looks_at_the_source_again(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    key = letters[0]["command"]["key"]
    faulty.objects.pop(("exports", key))
    faulty.put("exports", key, key.encode(), datetime.now(UTC))  # the same bytes, uploaded again
    cli("dlq", "redrive", "--all")
    assert cli.json("work", "--drain")["outcomes"] == {"changed": 1, "deleted": 5}
    assert faulty.keys("exports") == {key}


def test_a_wrong_target_is_corrected_by_a_new_linked_operation(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    letter = letters[0]
    right = "exports/right [*] ü\n.json"
    faulty.put("exports", right)
    wanted = ("--id", letter["operation_id"], "--set", f"key={right}")
    dry = cli.json("dlq", "redrive", *wanted, "--dry-run")
    assert (dry["redriven"], dry["would_redrive"]) == (0, 1)
    done = cli.json("dlq", "redrive", *wanted)
    assert done["redriven"] == 1
    assert len(cli.json("dlq", "list")) == 5
    assert cli.json("work", "--drain", code=1)["outcomes"] == {"deleted": 1}
    assert right not in faulty.keys("exports")
    lines = {line["operation_id"]: line for line in cli("export").lines}
    assert lines[letter["operation_id"]]["outcome"] == "corrected"
    assert lines[done["corrected_by"]]["corrects"] == letter["operation_id"]
    assert lines[done["corrected_by"]]["key"] == right
    assert cli.audit.problems() == []


def test_a_correction_passes_the_same_checks_as_a_plan(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    faulty.put("exports", "exports/young.json", modified=datetime.now(UTC))
    faulty.put("exports", "elsewhere/old.json")
    wanted = ("dlq", "redrive", "--id", letters[0]["operation_id"], "--set")
    for key, why in (
        ("exports/young.json", "young"),
        ("elsewhere/old.json", "outside"),
        ("exports/nothing.json", "there is no object"),
        ("", "empty"),
        ("x" * 1025, "1,025 bytes"),
        (letters[1]["command"]["key"], "the ledger has this target already"),
    ):
        assert why in cli(*wanted, f"key={key}", code=2).err
    assert cli("dlq", "redrive", "--all", "--set", "key=x", code=2)
    nobody = ("dlq", "redrive", "--id", "0" * 64, "--set", "key=exports/00001.json")
    assert "is no dead letter" in cli(*nobody, code=2).err
    assert cli(*wanted, "bucket=x", code=2)
    assert len(cli.json("dlq", "list")) == 6


def test_discarding_closes_a_dead_letter_for_good(
    cli: Cli, faulty: FaultyS3, letters: list[dict[str, Any]]
) -> None:
    wanted = ("dlq", "discard", "--class", "unknown")
    assert "--reason" in cli(*wanted, code=2).err
    done = cli.json(*wanted, "--reason", "someone else's")
    assert done["discarded"] == 2
    assert len(faulty.keys("exports")) == 6
    planned = cli.json("plan", "exports", "--slot", LATER)
    assert _parts(planned) == {"already_dead": 5}
    assert len(cli.json("dlq", "list")) == 4


def test_the_start_of_an_id_that_fits_several_dead_letters_means_none_of_them(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 17)  # so that two ids begin alike
    faulty.denied.add("exports/")
    cli("run", "exports", code=1)
    starts = [letter["operation_id"][0] for letter in cli.json("dlq", "list")]
    start = next(one for one in starts if starts.count(one) > 1)
    for verb in (["show", start], ["redrive", "--id", start],
                 ["discard", "--id", start, "--reason", "x"]):  # fmt: skip
        assert "fits several dead letters" in cli("dlq", *verb, code=2).err
    assert "is no dead letter" in cli("dlq", "discard", "--id", "0" * 64, "--reason", "x",
                                      code=2).err  # fmt: skip
    assert len(cli.json("dlq", "list")) == 17


def test_which_dead_letters_are_meant_has_to_be_said(
    cli: Cli, letters: list[dict[str, Any]]
) -> None:
    for verb in (["redrive"], ["discard", "--reason", "x"]):
        assert "say which" in cli("dlq", *verb, code=2).err
        assert "say which" in cli("dlq", *verb, "--all", "--policy", "exports", code=2).err
    assert cli("dlq", "list", "--class", "nonsense", code=2)
    # What an unset variable of a script leaves must not mean more than what it should have held.
    for verb in (["redrive"], ["discard", "--reason", "x"]):
        assert "is empty" in cli("dlq", *verb, "--id", "", "--policy", "exports", code=2).err
        assert "is empty" in cli("dlq", *verb, "--id", "", code=2).err
        cli("dlq", *verb, "--policy", "")
        assert "say which" in cli("dlq", *verb, "--policy", "", "--all", code=2).err
    assert len(cli.json("dlq", "list")) == 6
    none = {"absorbed": 0, "due_again": 0, "already_ended": 0, "in_ledger": 0, "strays": 0}
    assert cli.json("dlq", "absorb") == none | {"queue": None}


def test_a_policy_whose_bucket_vanished_has_one_dead_letter_and_is_paused(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 5)
    cli("plan", "exports", "--slot", SLOT)
    faulty.fail("DeleteObjects", error(404, "NoSuchBucket"), times=100, when=lambda _: True)
    work = cli.json("work", "--drain", code=1)
    assert work["dead"] == 1
    assert work["left"] == {"dead": 1, "paused": 4}
    assert "NoSuchBucket" in cli.json("status")["policies"][0]["paused"]


# -- explain ---------------------------------------------------------------------------------


def test_explain_gives_the_reason_for_any_key(cli: Cli, faulty: FaultyS3) -> None:
    cli.policy(
        "exports",
        regex=r"(?P<rest>.*)",
        min_size="1B",
        max_size="100B",
        generation=r"exports/(?P<generation>\d{4}-\d{2})/",
        keep_generations=1,
        keep_last=1,
        keep_last_group=r"exports/\d{4}-\d{2}/(\w)",
    )
    now = datetime.now(UTC)
    faulty.put("exports", "exports/2026-01/a1.json")
    faulty.put("exports", "exports/2026-01/a2.json", modified=OLD + timedelta(days=1))
    faulty.put("exports", "exports/2026-01/b.json")
    faulty.put("exports", "exports/2026-02/a.json", modified=OLD - timedelta(days=1))
    faulty.put("exports", "exports/2026-02/young.json", modified=now - timedelta(days=1))
    faulty.put("exports", "exports/2026-02/future.json", modified=now + timedelta(days=1))
    faulty.put("exports", "exports/2026-01/empty.json", b"")
    faulty.put("exports", "exports/2026-01/", b"")
    faulty.put("exports", "exports/loose.json")
    faulty.put("exports", "other/a.json")
    for key, verdict, reason in (
        ("exports/2026-01/a1.json", True, "before the cutoff"),
        ("exports/2026-01/a2.json", False, "among the newest"),
        ("exports/2026-02/a.json", False, "among the newest"),
        ("exports/2026-02/young.json", False, "not before the cutoff"),
        ("exports/2026-02/future.json", False, "in the future"),
        ("exports/2026-01/empty.json", False, "its size, 0 bytes"),
        ("exports/2026-01/", False, "folder marker"),
        ("exports/loose.json", False, "no generation can be read"),
        ("other/a.json", False, "outside the policy's scope (prefix 'exports/'"),
        ("exports/nothing.json", False, "there is no such object"),
        ("x" * 1025, False, "an S3 key at most 1,024"),
        ("", False, "the key is empty"),
    ):
        document = cli.json("explain", "exports", key)
        assert document["key"] == key
        assert document["eligible"] is verdict, document
        assert reason in document["reasons"][-1], document


def test_explain_tells_the_history_of_a_key(cli: Cli, faulty: FaultyS3) -> None:
    denied, gone = fill(faulty, 2)
    faulty.denied.add(denied)
    run_id = cli.json("run", "exports", code=1)["plan"]["run_id"]
    dead = cli.json("explain", "exports", denied)
    assert dead["eligible"]
    assert f"run {run_id} planned it" in dead["reasons"][-1]
    assert "permission: " in dead["reasons"][-1]
    deleted = cli.json("explain", "exports", gone)
    assert not deleted["eligible"]
    assert deleted["reasons"][0] == "there is no such object in exports"
    assert "deleted at" in deleted["reasons"][-1]
