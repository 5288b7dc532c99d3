"""What every ledger has to do with the rows of other tables that batches may remove and change, run
like `contracts.ledger.LedgerContract`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, LEASE, ME, SLOT, Sides
from bestbefore.contracts.row_ledger import (
    MARCH,
    MONTHLY,
    OWN_TABLE,
    ROWS,
    RowLedger,
    gone,
    operation_of,
)
from bestbefore.domain.known import Known
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy, Reach
from bestbefore.domain.rows import DependentRows, RowBatch
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import Operation, Parts, PolicyEdited, Split
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.records import OperationFilter

LISTED = replace(ROWS, source=replace(ROWS.rows, dependents=("invoices", "notes")))
"""It may remove and change rows of these."""

CAPPED = replace(MONTHLY, reach=Reach(max_deletes=100))
"""Its runs over more than that park, and a later slot may have the same cutoff."""

INVOICES = DependentRows("shop.invoices", removed=20, younger=15)
NOTES = DependentRows("shop.notes", changed=3, younger=0)
SAME_TABLE = DependentRows(OWN_TABLE, removed=40, younger=0)


class RowPlannedContract:
    """Inherit, and give a ``sides`` fixture of type `Sides`."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> RowLedger:
        return RowLedger(sides)

    # -- planning ----------------------------------------------------------------------------

    def test_a_batch_comes_back_with_the_dependents_it_was_planned_with(
        self, ledger: RowLedger
    ) -> None:
        ledger.dependents["0-99"] = (INVOICES, NOTES)
        run = ledger.plan("0-99", "100-149")
        ledger.publish()

        claimed = ledger.claim()
        found = [batch for batch, *_ in ledger.work.batches([o.row for o in claimed]).values()]

        assert [batch.dependents for batch in found] == [(INVOICES, NOTES), ()]
        recorded = ledger.record_of("0-99").batch
        assert recorded is not None
        assert recorded.dependents == (INVOICES, NOTES)
        ledger.again(run)

    def test_a_run_sums_up_its_batches_by_table_the_largest_first(self, ledger: RowLedger) -> None:
        """P8"""
        ledger.dependents |= {"0-99": (NOTES, INVOICES), "100-199": (INVOICES,)}

        run = ledger.plan("0-99", "100-199", "200-299")

        assert run.dependents == (DependentRows("shop.invoices", removed=40, younger=30), NOTES)
        assert (run.rows, run.dependent_rows, run.selected) == (300, 43, 343)
        assert (run.table, run.most_dependents) == (OWN_TABLE, 23)
        assert ledger.again(run) == run

    def test_one_batch_that_cannot_tell_ages_makes_them_unknown_for_its_table(
        self, ledger: RowLedger
    ) -> None:
        ageless = INVOICES._replace(younger=None)
        ledger.dependents |= {"0-99": (INVOICES, NOTES), "100-199": (ageless,)}

        run = ledger.plan("0-99", "100-199")

        assert [(table.table, table.younger) for table in run.dependents] == [
            ("shop.invoices", None), ("shop.notes", 0),
        ]  # fmt: skip

    def test_rows_of_the_policys_own_table_are_counted_once(self, ledger: RowLedger) -> None:
        """They are rows of other batches of the run, and so in ``rows`` already."""
        ledger.dependents["0-99"] = (SAME_TABLE, NOTES)

        run = ledger.plan("0-99", "100-199")

        assert (run.dependents, run.selected) == ((NOTES,), 203)
        assert run.most_dependents == 43, "of one transaction they are a part"
        recorded = ledger.record_of("0-99").batch
        assert recorded is not None
        assert recorded.dependents == (SAME_TABLE, NOTES)

    def test_pages_add_to_what_keeps_rows_by_table(self, ledger: RowLedger) -> None:
        answer = ledger.answer(ROWS)
        ledger.referenced = {"shop.lines": 5}
        rest = KeyRange('["99"]', None)
        ledger.write(answer, ledger.page(ROWS, ["0-99"], SLOT, rest), SLOT)
        ledger.referenced = {"shop.lines": 2, "shop.notes": 1}
        ledger.write(answer, ledger.page(ROWS, ["100-199"], SLOT), SLOT)

        run = ledger.conclude(answer, ROWS, SLOT)

        assert run.referenced == {"shop.lines": 7, "shop.notes": 1}
        assert ledger.records.runs()[0].referenced == run.referenced

    def test_what_another_run_planned_meanwhile_is_counted_there_only(
        self, ledger: RowLedger
    ) -> None:
        ledger.dependents["0-99"] = (INVOICES,)
        first, second = ledger.answer(MONTHLY, MARCH), ledger.answer(MONTHLY, MARCH + DAY)
        stale = ledger.page(MONTHLY, ["0-99", "100-199"], MARCH + DAY)

        ledger.write(first, ledger.page(MONTHLY, ["0-99"], MARCH), MARCH)
        ledger.write(second, stale, MARCH + DAY)

        assert ledger.again(first.run).dependents == (INVOICES,)
        assert ledger.again(second.run).dependents == ()

    # -- caps --------------------------------------------------------------------------------

    def test_caps_count_rows_of_other_tables(self, ledger: RowLedger) -> None:
        """S-REACH-01, P8."""
        of = replace(LISTED, reach=Reach(max_deletes=5))
        ledger.dependents["0-0"] = (DependentRows("shop.invoices", removed=9_000, younger=9_000),)

        run = ledger.plan("0-0", of=of)

        assert run.state is RunState.PARKED
        assert run.reason == (
            "1 row selected and 9,000 rows of other tables with them, max_deletes is 5"
        )
        assert ledger.publish() == 0

    def test_rows_that_would_only_be_changed_count_as_well(self, ledger: RowLedger) -> None:
        """S-REACH-02, P8."""
        of = replace(LISTED, reach=Reach(max_deletes=102))
        ledger.dependents["0-99"] = (NOTES,)

        assert ledger.plan("0-99", of=of).state is RunState.PARKED

    @pytest.mark.parametrize("trigger", list(Trigger))
    def test_a_row_with_too_many_dependents_parks_its_run_before_anything_is_published(
        self, ledger: RowLedger, trigger: Trigger
    ) -> None:
        of = replace(LISTED, reach=Reach(first_run_limit=10**6))
        answer = ledger.answer(of, trigger=trigger)
        first = ledger.page(of, ["0-99"], SLOT, KeyRange('["99"]', None))
        assert ledger.write(answer, first, SLOT).state is RunState.PLANNING
        assert ledger.publish() == 0
        ledger.dependents["100-100"] = (DependentRows("shop.invoices", removed=20_000),)
        ledger.write(answer, ledger.page(of, ["100-100"], SLOT), SLOT)

        run = ledger.conclude(answer, of, SLOT)

        assert run.state is RunState.PARKED
        assert run.reason == (
            f"one row of {OWN_TABLE} has 20,000 dependents, more than 10,000 in one transaction"
        )
        assert ledger.plans.approve(run.run_id, ME, SLOT).state is RunState.OPEN

    def test_pages_are_released_as_they_come_where_no_other_table_is_touched_or_all_is_approved(
        self, ledger: RowLedger
    ) -> None:
        ledger.plan("0-99", of=ROWS)  # after which no run of this version is its first
        page = ledger.page(ROWS, ["100-199"], SLOT + DAY / 2)
        answer = ledger.answer(ROWS, SLOT + DAY / 2)
        assert ledger.write(answer, page, SLOT + DAY / 2).state is RunState.OPEN
        later = SLOT + DAY
        every = replace(ROWS, version="v2", source=replace(ROWS.rows, dependents=None))

        approved = ledger.answer(every, later, approved=True)

        page = ledger.page(every, ["0-99"], later)
        assert ledger.write(approved, page, later).state is RunState.OPEN

    def test_an_approval_says_what_it_releases(self, ledger: RowLedger) -> None:
        of = replace(LISTED, reach=Reach(max_deletes=1))
        ledger.dependents |= {"0-99": (INVOICES, DependentRows("shop.notes", 2, 3)), "100-199": ()}
        run = ledger.plan("0-99", "100-199", of=of)

        ledger.plans.approve(run.run_id, ME, SLOT)

        (event,) = ledger.records.events(1)
        assert event.detail == (
            "2 planned, with them 20 rows of shop.invoices removed, 2 rows of shop.notes removed, "
            f"3 rows of shop.notes changed; parked because {run.reason}"
        )

    # -- taken over, planned again, split ----------------------------------------------------

    def test_a_batch_planned_again_brings_its_dependents_along(self, ledger: RowLedger) -> None:
        """P5, P11."""
        ledger.dependents |= {"0-99": (INVOICES, SAME_TABLE), "100-199": (NOTES,)}
        old = ledger.plan("0-99", "100-199", of=CAPPED, slot=MARCH)
        assert (old.state, old.dependent_rows) == (RunState.PARKED, 23)

        new = ledger.plan("0-99", "200-249", of=CAPPED, slot=MARCH + DAY)

        assert (new.state, new.dependents, new.selected) == (RunState.PARKED, (INVOICES,), 170)
        assert new.most_dependents == 60
        left = ledger.again(old)
        assert (left.state, left.dependents) == (RunState.CANCELLED, (NOTES,))
        ledger.again(new)

    def test_a_batch_planned_again_counts_what_was_found_this_time(self, ledger: RowLedger) -> None:
        """What 0.1 planned counted no dependents, and between two plans there may be more."""
        old = ledger.plan("0-99", "100-199", of=CAPPED, slot=MARCH - DAY)
        assert old.dependents == ()
        ledger.dependents |= {"0-99": (INVOICES,), "100-199": (INVOICES, NOTES)}

        new = ledger.plan("0-99", "100-199", of=CAPPED, slot=MARCH)

        assert new.dependents == (DependentRows("shop.invoices", removed=40, younger=30), NOTES)
        assert ledger.again(new).selected == 243
        left = ledger.again(old)
        assert (left.planned, left.rows, left.dependents) == (0, 0, ())
        ledger.dependents = {"0-99": (NOTES,)}
        third = ledger.plan("0-99", of=CAPPED, slot=MARCH + DAY)
        assert ledger.again(third).dependents == (NOTES,)
        assert ledger.again(new).dependents == (INVOICES, NOTES)

    def test_a_batch_that_grew_is_planned_again_with_all_its_rows(self, ledger: RowLedger) -> None:
        old = ledger.plan("0-99", "100-199", of=CAPPED, slot=MARCH)
        answer = ledger.answer(CAPPED, MARCH + DAY)
        page = ledger.page(CAPPED, ["0-99"], MARCH + DAY)
        (entry,) = page.entries
        assert entry.batch is not None
        page.entries = [entry._replace(batch=replace(entry.batch, rows=120))]
        ledger.write(answer, page, MARCH + DAY)

        new = ledger.conclude(answer, CAPPED, MARCH + DAY)

        assert (new.rows, new.reason) == (120, "120 rows selected, max_deletes is 100")
        assert ledger.again(new).rows == 120
        assert ledger.again(old).rows == 100

    def test_parts_add_nothing_to_their_run_and_move_with_what_was_counted_of_them(
        self, ledger: RowLedger
    ) -> None:
        ledger.dependents |= {
            "0-99": (INVOICES,),
            "0-49": (INVOICES._replace(removed=5, younger=5), SAME_TABLE),
            "50-99": (INVOICES._replace(removed=15, younger=10),),
        }
        first = ledger.plan("0-99", of=MONTHLY, slot=MARCH)
        ledger.publish(MARCH)
        (claimed,) = ledger.claim(now=MARCH)
        halves = self._split(ledger, claimed, MONTHLY, "0-49", "50-99")
        assert ledger.record(halves, now=MARCH) == []
        assert ledger.again(first).dependents == (INVOICES,)
        ledger.plans.cancel(first.run_id, "stop", ME, MARCH)

        second = ledger.plan("0-49", of=MONTHLY, slot=MARCH + DAY)

        assert (second.dependents, second.selected) == (
            (INVOICES._replace(removed=5, younger=5),), 55,
        )  # fmt: skip
        assert ledger.again(first).dependents == (INVOICES,)

    @staticmethod
    def _split(ledger: RowLedger, whole: Operation, of: Policy, *parts: str) -> Split:
        made: list[tuple[bytes, RowBatch]] = [
            (operation_of(span, of, MARCH), ledger.batch(span)) for span in parts
        ]
        return Split(whole, Parts(made, "it ran into a timeout"))

    def test_what_another_ledger_knows_counts_with_its_dependents(self, ledger: RowLedger) -> None:
        """As in a preview, drawn into an empty ledger."""
        ledger.dependents |= {"0-99": (INVOICES,), "100-149": (NOTES,)}
        answer = ledger.answer(ROWS)
        ended = Known(State.COMPLETED, Outcome.CANCELLED, SLOT, 0)
        ledger.plans.remember({operation_of("0-99"): ended}, SLOT)

        ledger.write(answer, ledger.page(ROWS, ["0-99", "100-149"], SLOT), SLOT)
        run = ledger.conclude(answer, ROWS, SLOT)

        assert (run.dependents, run.selected) == ((INVOICES, NOTES), 173)

    # -- effects -----------------------------------------------------------------------------

    def test_changed_rows_are_counted_by_table_beside_removed_ones(self, ledger: RowLedger) -> None:
        """S-REACH-02, P11."""
        run = ledger.plan("0-99", "100-149")
        ledger.publish()
        first, second = ledger.claim()
        results = [
            gone(first, dependents={"shop.invoices": 7}, changed={"shop.notes": 3, "shop.tags": 1}),
            gone(second, changed={"shop.notes": 2}),
        ]

        assert ledger.record(*results) == []
        assert ledger.record(*results) == [first, second]

        assert ledger.beside(run, "dependents") == {"shop.invoices": 7}
        assert ledger.beside(run, "changed") == {"shop.notes": 5, "shop.tags": 1}
        assert ledger.record_of("0-99").effect == results[0].effect
        ledger.again(run)

    def test_a_protected_batch_planned_again_leaves_no_changed_rows_behind(
        self, ledger: RowLedger
    ) -> None:
        first = ledger.plan("0-99", of=MONTHLY, slot=MARCH)
        ledger.publish(MARCH)
        (claimed,) = ledger.claim(now=MARCH)
        kept = {"outcome": Outcome.PROTECTED, "changed": {"shop.notes": 2}}
        ledger.record(gone(claimed, 0, **kept), now=MARCH)
        assert ledger.beside(first, "changed") == {"shop.notes": 2}

        ledger.plan("0-99", of=MONTHLY, slot=MARCH + DAY)

        assert ledger.beside(first, "changed") == {}
        assert ledger.record_of("0-99", MONTHLY, MARCH).effect is None

    def test_what_was_pruned_stays_in_the_sums_of_its_run(self, ledger: RowLedger) -> None:
        """P11"""
        ledger.dependents["0-99"] = (INVOICES, NOTES)
        run = ledger.plan("0-99")
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(gone(claimed, dependents={"shop.invoices": 20}, changed={"shop.notes": 3}))
        ((old, _),) = ledger.upkeep.old_operations(0, SLOT + DAY, 10, SLOT).operations
        assert old.batch is not None
        assert old.batch.dependents == (INVOICES, NOTES)
        held = ledger.upkeep.claim(SLOT, timedelta(0), LEASE)
        assert held is not None

        pruned = ledger.upkeep.prune_operations(held, [old.operation_id], SLOT + DAY, SLOT, LEASE)

        assert pruned == 1
        assert list(ledger.records.operations(OperationFilter())) == []
        stored = ledger.again(run)
        assert (stored.dependents, stored.selected) == ((INVOICES, NOTES), 123)
        assert ledger.beside(run, "dependents") == {"shop.invoices": 20}
        assert ledger.beside(run, "changed") == {"shop.notes": 3}

    # -- policy versions ---------------------------------------------------------------------

    def test_a_version_of_0_1_that_said_nothing_of_dependents_is_refused_with_its_remedy(
        self, ledger: RowLedger
    ) -> None:
        of_0_1 = replace(ROWS, source=replace(ROWS.rows, dependents=None))
        ledger.plan("0-99", of=of_0_1)
        refusal = (
            "policies.updates: `dependents` is `none` by default since 0.2: raise the version, or "
            'write `dependents = "auto"` under the old one'
        )

        with pytest.raises(PolicyEdited) as raised:
            ledger.plans.check_policies([ROWS])
        assert str(raised.value) == refusal
        with pytest.raises(PolicyEdited):
            ledger.answer(ROWS, SLOT + DAY)
        stricter = replace(ROWS, source=replace(ROWS.rows, where="paid"))
        with pytest.raises(PolicyEdited, match=r'where: null became "paid".*since 0\.2') as both:
            ledger.plans.check_policies([stricter])
        assert "Also, `dependents`" in str(both.value)

        ledger.plans.check_policies([of_0_1, replace(ROWS, version="v2")])

    def test_what_waited_under_the_old_version_stays_until_the_new_one_plans(
        self, ledger: RowLedger
    ) -> None:
        """P7"""
        ledger.plan("0-99", of=replace(ROWS, source=replace(ROWS.rows, dependents=None)))
        new = replace(ROWS, version="v2")
        (version,) = ledger.work.versions()
        assert (version.version, version.current, version.means(new)) == ("v1", True, False)

        ledger.plan("0-99", of=new, slot=SLOT + DAY)

        current = {one.version: one.current for one in ledger.work.versions()}
        assert current == {"v1": False, "v2": True}

    def test_another_change_of_dependents_is_named_as_any_other(self, ledger: RowLedger) -> None:
        ledger.plan("0-99", of=LISTED)

        with pytest.raises(PolicyEdited, match=r'dependents: \["invoices", "notes"\] became \[\]'):
            ledger.plans.check_policies([ROWS])
