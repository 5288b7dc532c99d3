"""Failures people reported, replayed with their own input through the whole program.

Each test names its case. The clock of the cases is NOW = 2026-07-01, the policy 30 days: here the
real clock, with OLD far before every cutoff and NEW a day old.
"""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli import Cli, fill
from support.faults import OLD, Answer, FaultyS3, Request, error, slow_down

SLOT = "2026-06-01T02:00:00Z"


def _new() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def _store(faulty: FaultyS3, old: list[str], new: list[str]) -> None:
    for key in old:
        faulty.put("exports", key, key.encode())
    for key in new:
        faulty.put("exports", key, key.encode(), _new())


def _whole_bucket(cli: Cli, **objects: object) -> None:
    cli.policy(
        "exports",
        prefix=None,
        whole_bucket=True,
        more={"attempts": {"permission": 1, "unknown": 1}},
        **objects,
    )


def _sent(faulty: FaultyS3) -> dict[str, int]:
    """How often each key was sent in a delete of either kind."""
    times: dict[str, int] = {}
    for request in faulty.asked("DeleteObjects") + faulty.asked("DeleteObject"):
        for key in request.keys or (request.key,):
            times[key] = times.get(key, 0) + 1
    return times


def test_a_control_character_does_not_hold_up_its_neighbours_o_key_01(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = ["exp/ok-1.json", "exp/\x10\x10foo.jpg", "exp/ok-2.json"]
    _whole_bucket(cli)
    _store(faulty, keys, [])
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 3}
    assert faulty.keys("exports") == set()
    assert all(b"\x10" not in request.body for request in faulty.asked("DeleteObjects"))
    (single,) = faulty.asked("DeleteObject")
    assert single.path == "/exports/exp/%10%10foo.jpg"


@pytest.mark.parametrize("plus", ["form", "percent", "strict"])
@pytest.mark.parametrize("by", ["DeleteObjects", "DeleteObject"])
def test_plus_blank_and_percent_sequences_are_different_keys_o_key_02(
    cli: Cli, faulty: FaultyS3, plus: str, by: str
) -> None:
    faulty.plus = plus
    old = ["q/a+b", "q/run_dt%3D2026-01-01%252012%253A30"]
    new = ["q/a b", "q/a%20b", "q/a%2Bb"]
    _whole_bucket(cli)
    _store(faulty, old, new)
    if by == "DeleteObject":  # a store without the other one
        faulty.fail("DeleteObjects", error(501, "NotImplemented"), times=99, when=lambda _: True)
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 2}
    assert faulty.keys("exports") == set(new)
    exported = cli("export").lines
    assert {line["key"] for line in exported} == set(old)
    assert len({line["operation_id"] for line in exported}) == 2


def test_leading_and_doubled_slashes_are_part_of_the_key_o_key_03(
    cli: Cli, faulty: FaultyS3
) -> None:
    old = ["/exports/x.json", "exports//x.json", "//x.json"]
    _whole_bucket(cli)
    _store(faulty, old, ["exports/x.json"])
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 3}
    assert faulty.keys("exports") == {"exports/x.json"}


def test_xml_meta_characters_are_not_unescaped_once_too_often_o_key_04(
    cli: Cli, faulty: FaultyS3
) -> None:
    old = ["r>&<d/a<b.json", 'r>&<d/"q".json', "r>&<d/&amp;.json"]
    cli.policy("exports", prefix="r>&<d/")
    _store(faulty, old, ["r>&<d/&.json"])
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 3}
    assert faulty.keys("exports") == {"r>&<d/&.json"}


def test_folder_markers_are_objects_of_their_own_and_kept_by_default_o_key_05(
    cli: Cli, faulty: FaultyS3
) -> None:
    faulty.put("exports", "d/", b"")
    faulty.put("exports", "e/", b"")
    _store(faulty, [], ["d/child.json", "d"])
    _whole_bucket(cli)
    run = cli.json("run", "exports")
    assert (run["plan"]["eligible"], run["plan"]["protected"]) == (0, {"folder_marker": 2})
    assert run["work"]["dead"] == 0
    cli.policy("exports", version="v2", prefix=None, whole_bucket=True, folder_markers="delete")
    reply = cli("run", "exports", "--json", code=None)
    if reply.code == 2:  # refused by name, where the option is not there yet
        assert "folder_markers" in reply.err
    else:
        assert reply.json["work"]["outcomes"] == {"deleted": 2}
        assert faulty.keys("exports") == {"d/child.json", "d"}


def test_a_prefix_that_also_matches_siblings_is_refused_until_meant_o_scope_01(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = ["exports/2026/a.json", "exports/2026-archive/b.json", "exports/20260101.csv"]
    _store(faulty, keys, [])
    cli.policy("exports", prefix="exports/2026")
    said = cli("plan", "exports", code=2).err
    assert "policies.exports.objects.prefix" in said
    assert "prefix_is_literal" in said
    cli.policy("exports", prefix="exports/2026/")
    assert cli.json("run", "exports")["plan"]["eligible"] == 1
    assert faulty.keys("exports") == set(keys[1:])
    cli.policy("exports", version="v2", prefix="exports/2026", prefix_is_literal=True)
    planned = cli.json("plan", "exports", code=1)  # parked, as it looks at another prefix now
    assert planned["eligible"] == 2


@pytest.mark.parametrize("prefix", ["", "   ", "${TENANT_PREFIX}", None])
def test_a_missing_empty_or_unresolved_prefix_is_not_the_whole_bucket_o_scope_02(
    cli: Cli, faulty: FaultyS3, prefix: str | None
) -> None:
    fill(faulty, 50)
    cli.policy("exports", prefix=prefix)
    for command in (["plan", "exports"], ["run", "exports", "--yes"], ["check"]):
        assert "policies.exports.objects" in cli(*command, code=2).err
    assert faulty.requests == []
    assert len(faulty.keys("exports")) == 50


def test_keys_that_look_like_patterns_mean_themselves_o_scope_03(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = ["up/*", "up/movie[2019].mkv", "up/movie2.mkv", "up/keep.txt"]
    _whole_bucket(cli)
    _store(faulty, keys, [])
    faulty.denied.add("up/")
    cli("run", "exports", code=1)
    faulty.denied.clear()
    letters = {one["command"]["key"]: one["operation_id"] for one in cli.json("dlq", "list")}
    assert letters.keys() == set(keys)
    for number, key in enumerate(keys[:2], start=1):
        cli("dlq", "redrive", "--id", letters[key])
        cli("work", "--drain", code=1)
        assert faulty.keys("exports") == set(keys[number:])


def test_errors_inside_a_success_are_of_their_own_keys_o_bulk_01(
    cli: Cli, faulty: FaultyS3
) -> None:
    cli.policy("exports", more={"attempts": {"permission": 2}})
    keys = [f"exports/k{n}" for n in range(1, 6)]
    _store(faulty, keys, [])
    faulty.refuse("exports/k2", "AccessDenied")
    faulty.refuse("exports/k4", "AccessDenied")
    run = cli.json("run", "exports", code=1)
    assert run["work"]["outcomes"] == {"deleted": 3}
    assert run["work"]["dead"] == 2
    assert _sent(faulty) == {key: 2 if key in (keys[1], keys[3]) else 1 for key in keys}
    for letter in cli.json("dlq", "list"):
        assert letter["failure_class"] == "permission"
        assert letter["attempts"] == 2
        assert letter["command"]["key"] in letter["error"]
        assert "AccessDenied" in letter["error"]
    assert faulty.keys("exports") == {keys[1], keys[3]}


def test_one_transient_error_in_a_big_batch_repeats_one_key_o_bulk_02(
    cli: Cli, faulty: FaultyS3
) -> None:
    keys = [f"exports/k{n:04}" for n in range(1, 1001)]
    _store(faulty, keys, [])
    faulty.refuse("exports/k0007", "InternalError", times=2)
    run = cli.json("run", "exports")
    assert run["work"]["outcomes"] == {"deleted": 1000}
    assert run["work"]["retried"] == {"transient": 2}
    assert cli.json("dlq", "list") == []
    sent = _sent(faulty)
    assert sent.pop("exports/k0007") == 3
    assert set(sent.values()) == {1}


@pytest.mark.parametrize("missing", [404, 412])
def test_what_somebody_else_removed_is_done_not_failed_o_race_02(
    cli: Cli, faulty: FaultyS3, missing: int
) -> None:
    faulty.missing = missing
    gone, changed = fill(faulty, 2)
    cli("plan", "exports")
    faulty.objects.pop(("exports", gone))
    faulty.put("exports", changed, b"newer", _new())
    assert cli.json("work", "--drain")["outcomes"] == {"absent": 1, "changed": 1}
    assert faulty.keys("exports") == {changed}


@pytest.mark.parametrize(("page_size", "n"), [(1, 120), (99, 250), (101, 250), (1000, 2500)])
def test_every_page_is_cleaned_while_earlier_ones_are_deleted_o_list_01(
    cli: Cli, faulty: FaultyS3, page_size: int, n: int
) -> None:
    """O-LIST-01, and for objects what O-LIST-03 says of rows: planner and worker side by side."""
    fill(faulty, n)
    faulty.page_size = page_size
    run = cli.json("run", "exports")
    assert run["state"] == "drained"
    assert run["plan"]["published"] == n
    assert run["work"]["outcomes"] == {"deleted": n}
    assert faulty.keys("exports") == set()
    assert cli.audit.one("SELECT count(DISTINCT operation_id) FROM operations") == n


def test_a_stuck_head_does_not_hide_the_rest(cli: Cli, faulty: FaultyS3) -> None:
    """What O-LIST-04 says of rows, for objects: what cannot go does not stand before what can."""
    stuck = fill(faulty, 30, "exports/a/")
    fill(faulty, 60, "exports/b/")
    faulty.denied.add("exports/a/")
    faulty.page_size = 10
    assert cli.json("run", "exports", "--slot", SLOT, code=1)["work"]["completed"] == 60
    assert faulty.keys("exports") == set(stuck)
    fill(faulty, 15, "exports/c/")
    again = cli.json("run", "exports", code=1)
    assert again["plan"]["already_dead"] == again["work"]["left"]["dead"] == 30
    assert again["work"]["outcomes"] == {"deleted": 15}
    assert faulty.keys("exports") == set(stuck)


def test_a_skewed_request_is_signed_anew_o_s3err_01(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1)
    cli("plan", "exports")
    faulty.fail("DeleteObjects", error(403, "RequestTimeTooSkewed"))
    work = cli.json("work", "--drain")
    assert work["outcomes"] == {"deleted": 1}
    assert (work["dead"], work["retried"]) == (0, {})
    first, second = faulty.asked("DeleteObjects")
    assert first.signed_at
    assert second.signed_at >= first.signed_at


def test_a_skew_that_stays_is_the_environments_fault_o_s3err_01(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    cli("plan", "exports")
    faulty.fail("DeleteObjects", error(403, "RequestTimeTooSkewed"), times=999, when=lambda _: True)
    with cli.start("work", "--drain"):
        from support.forks import until

        (breaker,) = until(lambda: cli.json("status")["breakers"], what="a breaker")
    assert "RequestTimeTooSkewed" in breaker["reason"]
    assert cli.json("dlq", "list") == []


@pytest.mark.parametrize("wait", ["0", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "nonsense"])
def test_a_throttle_without_a_usable_wait_is_tried_again_soon_o_retry_01(
    cli: Cli, faulty: FaultyS3, wait: str
) -> None:
    fill(faulty, 2)
    faulty.fail("DeleteObjects", slow_down(429, retry_after=wait))
    run = cli.json("run", "exports")
    assert run["work"]["outcomes"] == {"deleted": 2}
    assert run["work"]["retried"] == {"throttled": 2}


def test_an_enormous_retry_after_is_capped_and_visible_o_retry_02(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-RETRY-02: nobody sleeps on it; another bucket's commands complete meanwhile."""
    cli.policy("other", bucket="other")
    fill(faulty, 1)
    fill(faulty, 20, bucket="other")
    faulty.fail(
        "DeleteObjects",
        slow_down(429, retry_after="9999999999"),
        times=99,
        when=lambda request: request.bucket == "exports" and "probe" not in request.keys[0],
    )
    cli("plan", "exports")
    cli("plan", "other")
    with cli.start("work"):
        from support.forks import until

        until(lambda: not faulty.keys("other"), what="the other bucket")
        (throttle,) = until(lambda: cli.json("status")["throttles"], what="a throttle")
    due = datetime.fromisoformat(throttle["next_due"])
    assert throttle["waiting"] == 1
    # A tenth of spread on top, so that a thousand of them do not come back together.
    assert due - datetime.now(UTC) <= timedelta(seconds=900 * 1.1)
    assert due - datetime.now(UTC) > timedelta(minutes=10)


def test_parts_that_join_to_the_same_text_are_two_operations_o_idem_01(
    cli: Cli, faulty: FaultyS3
) -> None:
    cli.policy("exports", prefix="k", prefix_is_literal=True)
    _store(faulty, ["k\nv1", "k"], [])
    assert cli.json("run", "exports")["work"]["outcomes"] == {"deleted": 2}
    assert cli.audit.one("SELECT count(DISTINCT operation_id) FROM operations") == 2
    cli.policy("exports", prefix="k", prefix_is_literal=True, version="v1\nv2")
    assert "policies.exports.version" in cli("plan", "exports", code=2).err


def test_a_key_that_comes_back_is_cleaned_again_o_idem_02(cli: Cli, faulty: FaultyS3) -> None:
    (key,) = fill(faulty, 1)
    assert cli.json("run", "exports", "--slot", SLOT)["work"]["outcomes"] == {"deleted": 1}
    faulty.put("exports", key, key.encode(), OLD + timedelta(days=1))
    run = cli.json("run", "exports")
    assert run["plan"]["published"] == 1
    assert run["plan"]["already_completed"] == 0
    assert run["work"]["outcomes"] == {"deleted": 1}
    assert cli.audit.one("SELECT count(*) FROM operations") == 2


def test_the_newest_copy_that_is_broken_does_not_count_o_guard_04(
    cli: Cli, faulty: FaultyS3
) -> None:
    day = timedelta(days=1)
    faulty.put("exports", "db/2026-05-01.dump", b"x" * 2000, OLD)
    faulty.put("exports", "db/2026-05-15.dump", b"x" * 2000, OLD + 14 * day)
    faulty.put("exports", "db/2026-06-29.dump", b"", _new())
    cli.policy("exports", prefix="db/", keep_last=1, keep_last_min_size="1KB")
    run = cli.json("run", "exports")
    assert run["plan"]["protected"] == {"keep_last": 1}
    assert run["work"]["outcomes"] == {"deleted": 1}
    assert faulty.keys("exports") == {"db/2026-05-15.dump", "db/2026-06-29.dump"}


def test_a_success_that_names_no_key_is_no_success(cli: Cli, faulty: FaultyS3) -> None:
    """P1: a key missing from the answer is unknown, and looked at before it is sent again."""
    cli.policy("exports", more={"attempts": {"unknown": 2}})
    named, hidden = fill(faulty, 2)
    faulty.hidden.add(hidden)
    run = cli.json("run", "exports")
    assert run["work"]["retried"] == {"unknown": 1}
    assert run["work"]["outcomes"] == {"deleted": 1, "absent": 1}
    assert faulty.keys("exports") == set()
    assert _sent(faulty)[named] == 1


@pytest.mark.parametrize(
    "answer",
    [Answer(200), error(200, "InternalError"), Answer(200, b"<DeleteResult><Del"), error(500, "X")],
    ids=["empty", "an error inside", "cut off", "500"],
)
@pytest.mark.parametrize("effect", [True, False], ids=["although all went", "and nothing went"])
def test_an_answer_that_cannot_be_believed_charges_nobody_for_his_neighbour(
    cli: Cli, faulty: FaultyS3, answer: Answer, effect: bool
) -> None:
    fill(faulty, 8)

    def eight(request: Request) -> bool:
        return len(request.keys) == 8

    faulty.fail("DeleteObjects", answer, after_effect=effect, when=eight)
    run = cli.json("run", "exports")
    assert run["work"]["completed"] == 8
    assert set(run["work"]["outcomes"]) == {"absent" if effect else "deleted"}
    assert faulty.keys("exports") == set()
    assert cli.json("dlq", "list") == []
