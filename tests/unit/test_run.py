"""When a run waits for a person."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bestbefore.domain.policy import Reach
from bestbefore.domain.rows import MOST_DEPENDENTS, DependentRows
from bestbefore.domain.run import (
    Circumstances,
    Run,
    Trigger,
    park_reason,
    run_id,
    too_many_reappeared,
)
from bestbefore.domain.states import RunState

SLOT = datetime(2026, 7, 1, 2, tzinfo=UTC)
CALM = Circumstances(approved=False, first=False, moved_from=None, inherited=None)
NO_CAPS = Reach()


def run(planned: int, in_scope: int | None = None) -> Run:
    return Run(
        1, "0123456789ab", "exports", "v1", SLOT, SLOT, SLOT, RunState.PLANNING, Trigger.RUN,
        early=False, complete=True, target="here", reason=None, created_at=SLOT,
        scanned=planned, in_scope=planned if in_scope is None else in_scope, protected={},
        already_pending=0, already_completed=0, already_dead=0, reappeared=0, refused=0,
        planned=planned, waiting=planned, pending=0, completed=0, dead=0,
    )  # fmt: skip


def test_a_slot_has_the_same_name_in_every_process_and_time_zone() -> None:
    assert run_id("exports", "v1", SLOT) == run_id("exports", "v1", SLOT.replace(microsecond=9))
    others = {("exports", "v2"), ("export", "sv1"), ("exports", "v")}
    assert run_id("exports", "v1", SLOT) not in {run_id(*other, SLOT) for other in others}
    assert len(run_id("exports", "v1", SLOT)) == 12


def test_a_calm_run_goes_ahead() -> None:
    assert park_reason(run(10**6), NO_CAPS, CALM) is None


@pytest.mark.parametrize(("planned", "parks"), [(10, False), (11, True)])
def test_more_than_max_deletes_parks(planned: int, parks: bool) -> None:
    reason = park_reason(run(planned), Reach(max_deletes=10), CALM)
    assert (reason is not None) == parks
    assert reason in (None, "11 objects selected, max_deletes is 10")


@pytest.mark.parametrize(("planned", "parks"), [(50, False), (51, True)])
def test_more_than_max_fraction_of_what_is_in_scope_parks(planned: int, parks: bool) -> None:
    reason = park_reason(run(planned, in_scope=100), Reach(max_fraction=0.5), CALM)
    assert (reason is not None) == parks


def rows(n: int, *dependents: DependentRows, most: int = 0, in_scope: int = 1_000) -> Run:
    """A run over a table of which it selects *n* rows."""
    return replace(
        run(1, in_scope), about_rows=True, rows=n, dependents=dependents, table="shop.orders",
        most_dependents=most,
    )  # fmt: skip


def test_rows_of_other_tables_count_whether_they_are_removed_or_changed() -> None:
    """S-REACH-01, S-REACH-02."""
    reach = Reach(max_deletes=5)
    removed, changed = DependentRows("invoices", removed=3), DependentRows("notes", changed=2)

    assert park_reason(rows(1, removed), reach, CALM) is None
    assert park_reason(rows(1, removed, changed), reach, CALM) == (
        "1 row selected and 5 rows of other tables with them, max_deletes is 5"
    )
    many = DependentRows("invoices", removed=20_000)
    assert park_reason(rows(13_300, many), reach, CALM) == (
        "13,300 rows selected and 20,000 rows of other tables with them, max_deletes is 5"
    )


def test_the_limit_of_a_first_run_counts_rows_of_other_tables() -> None:
    """S-REACH-01."""
    seen, reach = replace(CALM, first=True), Reach(first_run_limit=10)
    invoices = DependentRows("invoices", removed=5, changed=4)

    assert park_reason(rows(1, invoices), reach, seen) is None
    assert park_reason(rows(2, invoices), reach, seen) == (
        "first run of version v1: 2 rows selected and 9 rows of other tables with them, "
        "first_run_limit is 10"
    )


def test_a_fraction_is_one_of_the_policys_own_table() -> None:
    invoices, reach = DependentRows("invoices", removed=20_000), Reach(max_fraction=0.5)

    assert park_reason(rows(500, invoices), reach, CALM) is None
    assert park_reason(rows(501, invoices), reach, CALM) == (
        "501 of 1,000 rows in scope selected (50.1%), max_fraction is 0.5"
    )
    assert park_reason(rows(1, in_scope=0), reach, CALM) == (
        "1 of 0 rows in scope selected, max_fraction is 0.5"
    )


def test_a_row_with_too_many_dependents_parks() -> None:
    invoices = DependentRows("invoices", removed=20_000)

    assert park_reason(rows(2, invoices, most=MOST_DEPENDENTS), NO_CAPS, CALM) is None
    assert park_reason(rows(1, invoices, most=20_000), NO_CAPS, CALM) == (
        "one row of shop.orders has 20,000 dependents, more than 10,000 in one transaction"
    )
    approved = replace(CALM, approved=True)
    assert park_reason(rows(1, invoices, most=20_000), NO_CAPS, approved) is None


def test_where_other_tables_may_lose_rows_only_the_end_of_the_scan_decides() -> None:
    assert not CALM.may_park(NO_CAPS)
    assert CALM.may_park(NO_CAPS, dependents=True)
    assert not replace(CALM, approved=True).may_park(NO_CAPS, dependents=True)


@pytest.mark.parametrize("reach", [Reach(max_deletes=0), Reach(max_fraction=0.0)])
def test_what_selects_nothing_never_parks(reach: Reach) -> None:
    seen = replace(CALM, first=True, moved_from="there", inherited="because")
    assert park_reason(run(0), reach, seen) is None


def test_a_first_run_parks_above_its_limit() -> None:
    seen = replace(CALM, first=True)
    assert park_reason(run(10_000), NO_CAPS, seen) is None
    assert "first run of version v1" in (park_reason(run(10_001), NO_CAPS, seen) or "")


def test_another_target_parks_however_little_is_selected() -> None:
    reason = park_reason(run(1), NO_CAPS, replace(CALM, moved_from="there"))
    assert reason == "this run looks at here, the last released one at there"


def test_yes_is_an_answer_to_every_reason() -> None:
    seen = Circumstances(approved=True, first=True, moved_from="there", inherited="because")
    assert park_reason(run(10**6), Reach(max_deletes=1, max_fraction=0.0), seen) is None
    assert too_many_reappeared(10**6, 10**6, seen) is None
    assert not seen.may_park(Reach(max_deletes=1))


@pytest.mark.parametrize(
    ("reappeared", "eligible", "parks"),
    [(100, 100, False), (101, 101, True), (101, 10_100, False), (102, 10_199, True),
     (101, 10_099, True)],
)  # fmt: skip
def test_a_hundred_or_one_percent_may_reappear(reappeared: int, eligible: int, parks: bool) -> None:
    assert (too_many_reappeared(reappeared, eligible, CALM) is not None) == parks


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("moved", [None, "there"])
@pytest.mark.parametrize("inherited", [None, "because"])
@pytest.mark.parametrize("reach", [NO_CAPS, Reach(max_deletes=1), Reach(max_fraction=0.1)])
def test_whatever_parks_at_the_end_was_not_released_page_by_page(
    first: bool, moved: str | None, inherited: str | None, reach: Reach
) -> None:
    seen = Circumstances(False, first, moved, inherited)
    if park_reason(run(10**6), reach, seen) is not None:
        assert seen.may_park(reach)
