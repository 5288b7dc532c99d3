"""What each verb's ``--json`` promises, in every state a run can be in, and its exit status."""

from datetime import UTC, datetime, timedelta

from support.cli import PARTS, Cli, fill
from support.faults import OLD, FaultyS3

SLOT = "2026-06-01T02:00:00Z"
PLAN_FIELDS = {
    "run_id", "policy", "policy_version", "slot", "cutoff", "state", "unit", "scanned", "eligible",
    "protected", "published", "waiting", "already_pending", "already_completed", "already_dead",
    "reappeared", "refused", "repeated", "complete", "reason",
}  # fmt: skip


def _parts(plan: dict[str, int]) -> dict[str, int]:
    """The parts of ``eligible`` that are not zero."""
    return {part: plan[part] for part in PARTS if plan[part]}


def test_plan_names_run_slot_cutoff_and_counts(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    faulty.put("exports", "exports/young.json", modified=datetime.now(UTC) - timedelta(days=1))
    faulty.put("exports", "exports/folder/", b"")
    plan = cli.json("plan", "exports", "--slot", SLOT)
    assert plan.keys() >= PLAN_FIELDS
    assert (plan["policy"], plan["policy_version"], plan["unit"]) == ("exports", "v1", "object")
    assert (plan["slot"], plan["cutoff"]) == (SLOT, "2026-05-02T02:00:00Z")
    assert (plan["state"], plan["complete"], plan["repeated"]) == ("open", True, False)
    assert plan["scanned"] == 5
    assert plan["protected"] == {"folder_marker": 1}
    assert _parts(plan) == {"published": 3}
    assert plan["reason"] is None


def test_the_counts_of_a_slot_add_up_in_every_state_of_its_run(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 4)
    faulty.put("exports", "exports/denied/a.json")
    faulty.denied.add("exports/denied/")

    preview = cli.json("plan", "exports", "--slot", SLOT, "--dry-run")
    assert _parts(preview) == {"waiting": 5}
    first = cli.json("plan", "exports", "--slot", SLOT)
    assert _parts(first) == {"published": 5}
    again = cli.json("plan", "exports", "--slot", SLOT)
    assert again["run_id"] == first["run_id"]
    assert again["repeated"]
    assert _parts(again) == {"already_pending": 5}

    work = cli.json("work", "--drain", code=1)
    assert work["dead"] == 1
    assert work["left"] == {"dead": 1}
    after = cli.json("plan", "exports", "--slot", SLOT)
    assert _parts(after) == {"already_completed": 4, "already_dead": 1}
    newer = cli.json("plan", "exports")
    assert not newer["repeated"]
    assert _parts(newer) == {"already_dead": 1}

    assert cli.json("dlq", "redrive", "--all")["redriven"] == 1
    redriven = cli.json("plan", "exports", "--slot", SLOT)
    assert _parts(redriven) == {"already_completed": 4, "already_pending": 1}
    assert redriven["state"] == "open"
    faulty.denied.clear()
    cli.json("work", "--drain")
    done = cli.json("plan", "exports", "--slot", SLOT)
    assert _parts(done) == {"already_completed": 5}
    assert done["state"] == "drained"
    assert cli.audit.problems() == []


def test_an_unscheduled_plan_continues_the_open_run_and_then_takes_a_new_slot(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 2)
    first = cli.json("plan", "exports")
    assert cli.json("plan", "exports")["run_id"] == first["run_id"]
    cli("work", "--drain")
    faulty.put("exports", "exports/later.json")
    cli.new_slot()
    second = cli.json("plan", "exports")
    assert second["run_id"] != first["run_id"]
    assert _parts(second) == {"published": 1}


def test_work_says_what_it_received_and_how_it_ended(cli: Cli, faulty: FaultyS3) -> None:
    keys = fill(faulty, 4)
    cli("plan", "exports")
    faulty.put("exports", keys[0], b"rewritten", datetime.now(UTC))
    faulty.objects.pop(("exports", keys[1]))
    work = cli.json("work", "--drain")
    assert work.keys() >= {"received", "completed", "outcomes", "already_completed", "retried",
                           "dead", "left"}  # fmt: skip
    assert work["received"] == work["completed"] == 4
    assert work["outcomes"] == {"deleted": 2, "changed": 1, "absent": 1}
    assert (work["dead"], work["retried"], work["left"]) == (0, {}, {})
    assert faulty.keys("exports") == {keys[0]}
    nothing = cli.json("work", "--drain")
    assert nothing["received"] == 0


def test_run_plans_works_and_says_how_it_ended(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    document = cli.json("run", "exports", "--slot", SLOT)
    assert document["state"] == "drained"
    assert _parts(document["plan"]) == {"published": 3}
    assert document["work"]["completed"] == 3
    assert document["work"]["outcomes"] == {"deleted": 3}
    again = cli.json("run", "exports", "--slot", SLOT)
    assert again["plan"]["repeated"]
    assert again["plan"]["published"] == 0
    assert again["work"]["received"] == 0
    assert again["state"] == "drained"


def test_run_exits_1_when_something_is_dead(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    faulty.denied.add("exports/00001")
    document = cli.json("run", "exports", code=1)
    assert document["state"] == "drained"
    assert document["work"]["dead"] == 1
    assert document["work"]["completed"] == 2


def test_status_shows_policies_breakers_and_throttles(cli: Cli, faulty: FaultyS3) -> None:
    empty = cli.json("status")
    assert empty.keys() >= {"policies", "missed", "breakers", "throttles"}
    (row,) = empty["policies"]
    assert row.keys() >= {"policy", "version", "owner", "next_slot", "last_slot", "state",
                          "backlog", "dead", "held", "overdue", "oldest_overdue"}  # fmt: skip
    assert (row["policy"], row["version"], row["owner"]) == ("exports", "v1", "growth-team")
    assert (row["last_slot"], row["state"], row["backlog"]) == (None, None, 0)

    fill(faulty, 3)
    faulty.denied.add("exports/00001")
    cli("plan", "exports", "--slot", SLOT)
    (row,) = cli.json("status")["policies"]
    assert (row["last_slot"], row["state"], row["backlog"], row["overdue"]) == (SLOT, "open", 3, 3)
    assert row["oldest_overdue"] == SLOT
    cli("work", "--drain", code=1)
    (row,) = cli.json("status")["policies"]
    assert (row["state"], row["backlog"], row["dead"], row["overdue"]) == ("drained", 0, 1, 1)


def test_a_scheduled_policy_plans_the_latest_slot_and_shows_the_next(
    cli: Cli, faulty: FaultyS3
) -> None:
    cli.policy("exports", more={"schedule": "0 2 * * *"})
    fill(faulty, 1)
    plan = cli.json("plan", "exports")
    now = datetime.now(UTC)
    slot = datetime.fromisoformat(plan["slot"])
    assert (slot.hour, slot.minute) == (2, 0)
    assert timedelta(0) <= now - slot <= timedelta(days=1, minutes=1)
    (row,) = cli.json("status")["policies"]
    assert datetime.fromisoformat(row["next_slot"]) > now


def test_runs_are_listed_newest_first_and_shown_with_outcomes(cli: Cli, faulty: FaultyS3) -> None:
    assert cli.json("runs", "list") == []
    fill(faulty, 2)
    first = cli.json("run", "exports", "--slot", SLOT)["plan"]["run_id"]
    fill(faulty, 3, "exports/more-")
    second = cli.json("plan", "exports")["run_id"]
    listed = cli.json("runs", "list")
    assert [run["run_id"] for run in listed] == [second, first]
    assert listed[0].keys() >= {"run_id", "policy", "policy_version", "slot", "state", "counts"}
    assert [run["state"] for run in listed] == ["open", "drained"]
    shown = cli.json("runs", "show", first)
    assert shown["outcomes"] == {"deleted": 2}
    assert shown["freed_bytes"] > 0
    assert shown["counts"]["planned"] == shown["counts"]["completed"] == 2
    assert cli.json("runs", "list", "--policy", "other") == []


def test_verify_trusts_the_listing_and_exits_1_when_something_is_overdue(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    faulty.denied.add("exports/00001")
    cli("run", "exports", code=1)
    document = cli.json("verify", "exports", code=1)
    assert document.keys() >= {"overdue", "oldest_overdue", "held", "sample", "at"}
    assert document["overdue"] == 1
    assert document["oldest_overdue"] == "2026-01-01T00:00:00Z"
    assert document["sample"] == ["exports/00001.json"]
    faulty.denied.clear()
    cli("dlq", "redrive", "--all")
    cli("work", "--drain")
    clean = cli.json("verify", "exports")
    assert (clean["overdue"], clean["oldest_overdue"], clean["sample"]) == (0, None, [])
    (row,) = cli.json("status")["policies"]
    assert row["verified"]["overdue"] == 0


def test_verify_finds_an_object_whose_ledger_entry_says_deleted(cli: Cli, faulty: FaultyS3) -> None:
    (key,) = fill(faulty, 1)
    cli("run", "exports")
    faulty.put("exports", key, key.encode(), OLD)
    assert cli.json("verify", "exports", code=1)["overdue"] == 1


def test_verify_before_any_released_run_says_so(cli: Cli) -> None:
    assert "no run was released yet" in cli("verify", "exports", code=2).err


def test_check_reports_what_it_can_rely_on(cli: Cli, faulty: FaultyS3) -> None:
    document = cli.json("check", "--queue")
    assert document["ok"]
    for finding in document["findings"]:
        assert finding.keys() == {"code", "level", "message", "remedy"}
    codes = {finding["code"] for finding in document["findings"]}
    assert {"store-listed", "conditions-honoured", "queue-in-state"} <= codes
    faulty.honours.clear()
    codes = {finding["code"] for finding in cli.json("check")["findings"]}
    assert "conditions-ignored" in codes


def test_export_has_one_line_per_operation_with_who_when_and_why(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = fill(faulty, 3)
    faulty.denied.add(keys[1])
    run_id = cli.json("run", "exports", "--slot", SLOT, code=1)["plan"]["run_id"]
    lines = cli("export").lines
    assert [line["key"] for line in lines] == keys
    for line in lines:
        assert (line["policy"], line["policy_version"]) == ("exports", "v1")
        assert (line["owner"], line["run_id"], line["slot"]) == ("growth-team", run_id, SLOT)
        assert (line["bucket"], line["action"]) == ("exports", "delete")
        assert len(line["operation_id"]) == 64
    done, dead, _ = lines
    assert (done["state"], done["outcome"]) == ("completed", "deleted")
    assert done["completed_at"] >= SLOT
    assert done["completed_by"]
    assert (dead["state"], dead["outcome"], dead["failure_class"]) == ("dead", None, "permission")
    (attempt,) = dead["attempts"]
    assert "AccessDenied" in attempt["error"]
    assert attempt["by"]
    cli("dlq", "discard", "--all", "--reason", "kept on purpose")
    line = cli("export", "--run", run_id).lines[1]
    assert line["outcome"] == "discarded"
    assert "@" in line["completed_by"]  # a person, not a worker
    assert cli("export", "--policy", "other").out == ""


def test_init_writes_a_file_that_check_understands(cli: Cli, faulty: FaultyS3) -> None:
    (cli.folder / "bestbefore.toml").unlink()
    cli("init", executable=True)
    text = (cli.folder / "bestbefore.toml").read_text()
    assert "[policies." in text
    assert "exists and was left as it is" in cli("init", code=2).err
    assert (cli.folder / "bestbefore.toml").read_text() == text


def test_the_console_script_answers_as_the_forked_program_does(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    real = cli("plan", "exports", "--slot", SLOT, "--dry-run", "--json", executable=True)
    forked = cli("plan", "exports", "--slot", SLOT, "--dry-run", "--json")
    assert (real.code, real.out) == (forked.code, forked.out)


def test_progress_and_warnings_never_reach_stdout(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    reply = cli("run", "exports", "--json")
    assert reply.json["state"] == "drained"
    assert "secret_access_key stands in the file" in reply.err


def test_a_key_with_a_line_break_and_an_escape_never_reaches_a_terminal(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-UI-02 on the command line: `Cli` refuses control characters in every answer."""
    key = "exports/a\n2026-07-01 INFO deleted key=secret\x1b[2J\r.json"
    faulty.put("exports", key)
    faulty.denied.add("exports/")
    run = cli.json("plan", "exports")["run_id"]
    cli("runs", "show", run)
    cli("explain", "exports", key)
    cli("work", "--drain", code=1)
    shown = cli("dlq", "list").out
    assert len(shown.splitlines()) == 2
    assert "\\n2026-07-01 INFO" in shown
    (letter,) = cli.json("dlq", "list")
    assert letter["command"]["key"] == key
    cli("dlq", "show", letter["operation_id"])
    cli("verify", "exports", code=1)
    assert [line["key"] for line in cli("export").lines] == [key]


def test_nothing_to_delete_is_a_success_and_sends_no_delete_o_bulk_04(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-BULK-04: with nothing eligible, and with everything filtered out at the last moment."""
    document = cli.json("run", "exports")
    assert document["state"] == "drained"
    assert document["plan"]["eligible"] == 0
    keys = fill(faulty, 3)
    cli.new_slot()
    cli("plan", "exports")
    for key in keys:
        faulty.objects.pop(("exports", key))
        faulty.put("exports", key, b"rewritten", datetime.now(UTC))
    faulty.honours.clear()  # so that a look decides, and nothing is left to delete
    work = cli.json("work", "--drain")
    assert work["outcomes"] == {"changed": 3}
    assert faulty.asked("DeleteObjects") == []
    assert faulty.asked("DeleteObject") == []
