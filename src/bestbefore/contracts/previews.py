"""What a ledger keeps for whoever decides about a run, for outside adapters too: see
`contracts.ledger`.

class TestMyPreviews(PreviewsContract):
    pass
"""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from bestbefore.contracts.ledger_world import DAY, SLOT, Ledger, Sides, capped
from bestbefore.contracts.row_ledger import ROWS, RowLedger
from bestbefore.domain.policy import Reach
from bestbefore.domain.prefixes import PrefixCounts, Under
from bestbefore.domain.preview import Example, Preview, Selected, Stay
from bestbefore.domain.rows import DependentRows, RowBatch, Walk
from bestbefore.domain.states import RunState
from bestbefore.ports.objects import KeyRange

_CAPPED_ROWS = replace(ROWS, reach=Reach(1))


def counted(*keys: str) -> PrefixCounts:
    counts = PrefixCounts("exports/")
    for key in keys:
        counts.add(f"exports/{key}", 7)
    return counts


def preview(*targets: Selected, first: RowBatch | None = None) -> Preview:
    """A preview with something in every field."""
    return Preview(
        n=len(targets),
        size=None if first else 7,
        oldest=SLOT - DAY,
        newest=None,
        prefixes=(Under("exports/ö\n/", 1, 7), Under(None, 2, 3)),
        stays=(Stay("young", 3, (Under("", 3, 4),)), Stay("referenced", 1, tables=(("t", 1),))),
        sample=tuple(Example("between", target) for target in targets),
        first=first,
        statement="DELETE",
        triggers=("t: x",),
    )


def keys(found: Iterable[Selected]) -> list[str]:
    return [selected.key for selected in found]


class PreviewsContract:
    """Run against every implementation of `bestbefore.ports.previews.Previews`."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    @pytest.fixture
    def rows(self, sides: Sides) -> RowLedger:
        return RowLedger(sides)

    def test_what_waits_in_a_run_is_read_in_the_order_it_was_planned(self, ledger: Ledger) -> None:
        run = ledger.plan("b", "a", "c", of=capped(1))

        assert keys(ledger.previews.selected(run)) == [
            "exports/b.json",
            "exports/a.json",
            "exports/c.json",
        ]

    def test_what_a_newer_run_took_over_is_read_with_that_one(self, ledger: Ledger) -> None:
        old = ledger.plan("a", of=capped(0))
        new = ledger.plan("a", "b", of=capped(0), slot=SLOT + DAY)

        assert keys(ledger.previews.selected(old)) == []
        assert sorted(keys(ledger.previews.selected(new))) == ["exports/a.json", "exports/b.json"]

    def test_row_batches_are_read_whole(self, rows: RowLedger) -> None:
        run = rows.plan("0-99", "100-149", of=_CAPPED_ROWS)

        found = list(rows.previews.selected(run))

        assert [one.batch and one.batch.rows for one in found] == [100, 50]

    def test_what_stays_is_added_up_over_the_pages_of_a_scan(self, ledger: Ledger) -> None:
        answer = ledger.answer(capped(1))
        for names, rest in (("ab", KeyRange("exports/b", None)), ("c", None)):
            page = ledger.page(capped(1), list(names), SLOT, rest)
            page.stays = {"young": counted("x/1", "y/1"), "hold": counted("z")}
            ledger.write(answer, page, SLOT)

        stays = ledger.previews.stays(answer.run)

        assert set(stays["young"]) == {("exports/x/", 2, 14), ("exports/y/", 2, 14)}
        assert set(stays["hold"]) == {("exports/", 2, 14)}

    def test_a_preview_is_kept_with_its_run_exactly(self, ledger: Ledger, rows: RowLedger) -> None:
        for run in (
            ledger.plan("a", of=capped(0)),
            rows.plan("0-99", of=_CAPPED_ROWS),
        ):
            assert ledger.previews.find(run) is None
            batch = RowBatch(
                '["1"]', '["9"]', 9, SLOT, Walk.KEY, "0" * 16, (DependentRows("t", 1, 2, None),)
            )
            shown = preview(
                Selected("exports/\u202e\x01", 1, SLOT, "v", "u"),
                Selected("x", 9, SLOT, batch=batch),
                first=batch if run.about_rows else None,
            )

            assert ledger.previews.keep(run, shown)

            assert ledger.previews.find(run) == shown

    def test_a_run_that_is_parked_no_more_keeps_the_preview_it_had(self, ledger: Ledger) -> None:
        run = ledger.plan("a", of=capped(0))
        shown = preview(Selected("exports/a", 1, SLOT))
        ledger.previews.keep(run, shown)
        ledger.plans.approve(run.run_id, "boss", SLOT)

        assert not ledger.previews.keep(run, preview())
        assert ledger.previews.find(run) == shown

    def test_keys_that_are_only_in_exports_any_more_are_in_no_preview(self, ledger: Ledger) -> None:
        run = ledger.plan("a", of=capped(0))
        ledger.previews.keep(run, preview(Selected("exports/a", 1, SLOT)))
        ledger.plans.approve(run.run_id, "boss", SLOT)
        ledger.end()
        assert ledger.again(run).state is RunState.DRAINED
        now = SLOT + DAY
        held = ledger.upkeep.claim(now, DAY, DAY)
        assert held is not None
        ids = [ledger.operation("a").operation_id]

        assert ledger.upkeep.prune_operations(held, ids, now, now, DAY) == 1

        assert ledger.previews.find(run) is None
