"""What every ledger has to do for row batches, run like `contracts.ledger.LedgerContract`."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, LEASE, ME, OLD, SLOT, Ledger, Sides, died
from bestbefore.domain.failure import Failure, FailureClass, GiveUp
from bestbefore.domain.identity import row_operation
from bestbefore.domain.known import Known, disposition
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy, Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import (
    DependentRows,
    Effect,
    FileArchive,
    RowBatch,
    RowSource,
    TableArchive,
    Walk,
    grown,
)
from bestbefore.domain.run import Run
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import (
    Batched,
    Completed,
    DeadFilter,
    Died,
    Entry,
    LedgerError,
    Operation,
    Parts,
    PlannedPage,
    Split,
    Taken,
)
from bestbefore.ports.objects import Copy, KeyRange
from bestbefore.ports.records import OperationFilter, OperationRecord

ROWS = Policy(
    "updates",
    "v1",
    "growth-team",
    Age(0, 30 * 86_400),
    RowSource("shipments", "shipment_updates", "delivered_at"),
)
MONTHLY = replace(ROWS, older_than=Age(1, 0))
MARCH = datetime(2026, 3, 30, 2, tzinfo=UTC)
"""A month before it, and before the day after it, was the end of February: one cutoff for both, and
so the same batch has the same id."""

SHAPE = "0123456789abcdef"

OWN_TABLE = "shop.shipment_updates"
"""The table of `ROWS`, as its database writes it."""


def batch(span: str) -> RowBatch:
    """The batch of the rows from one number to another, such as ``0-99``; with a ``p`` before them
    they are those of a partition."""
    first, last = map(int, span.lstrip("p").split("-"))
    ends = json.dumps([str(first)]), json.dumps([str(last)])
    walk = Walk.PARTITION if span.startswith("p") else Walk.KEY
    return RowBatch(*ends, last - first + 1, OLD + timedelta(seconds=first), walk, SHAPE)


def operation_of(span: str, of: Policy = ROWS, slot: datetime = SLOT) -> bytes:
    """The id of the operation for it."""
    described = batch(span)
    cutoff = of.older_than.before(slot)
    return bytes.fromhex(
        row_operation(of.name, of.version, of.rows.table, cutoff, described.first, described.last)
    )


def halved(operation: Operation, *spans: str, of: Policy = ROWS, slot: datetime = SLOT) -> Split:
    """*operation* goes on as *spans*."""
    parts = [(operation_of(span, of, slot), batch(span)) for span in spans]
    return Split(operation, Parts(parts, "it ran into a timeout"))


def gone(operation: Operation, rows: int | None = None, **more: object) -> Completed:
    """*operation* deleted so many rows, all of its own if not said otherwise."""
    rows = operation.size if rows is None else rows
    effect = replace(Effect(Outcome.DELETED, rows, seconds=0.25), **more)  # type: ignore[arg-type]
    return Completed(operation, effect.outcome, effect=effect)


class RowLedger(Ledger):
    """The same words for row batches, whose names are their spans.

    ``dependents`` are those of batches by span, ``referenced`` what the next pages say of rows that
    stay.
    """

    def __init__(self, sides: Sides) -> None:
        super().__init__(sides)
        self.dependents: dict[str, tuple[DependentRows, ...]] = {}
        self.referenced: dict[str, int] = {}

    def batch(self, span: str) -> RowBatch:
        """The batch for *span*, with its dependents."""
        return replace(batch(span), dependents=self.dependents.get(span, ()))

    def page(
        self, of: Policy, names: Sequence[str], now: datetime, rest: KeyRange | None = None
    ) -> PlannedPage:
        """A slice of the table, for the slot *now*."""
        entries = []
        for name in names:
            id_, described = operation_of(name, of, now), self.batch(name)
            listed = Listed(described.label, described.rows, described.shape, described.oldest)
            found = disposition(self.plans.known([id_]).get(id_), now)
            entries.append(Entry(id_, listed, found, None, batch=described))
        scanned = sum(entry.item.size for entry in entries)
        return PlannedPage(
            now,
            [rest] if rest else [],
            scanned,
            scanned,
            entries=entries,
            referenced=self.referenced,
            table=OWN_TABLE,
        )

    def plan(self, *names: str, of: Policy = ROWS, slot: datetime = SLOT, **more: object) -> Run:
        return super().plan(*names, of=of, slot=slot, **more)  # type: ignore[arg-type]

    def only(self, *spans: str, of: Policy = ROWS) -> list[Operation]:
        """Plan *spans*, publish and claim them."""
        self.plan(*spans, of=of)
        self.publish()
        return self.claim()

    def taken(self, of: Policy = ROWS, taking_over: datetime | None = None) -> list[Taken]:
        return list(self.plans.taken(of, taking_over))

    def record_of(self, span: str, of: Policy = ROWS, slot: datetime = SLOT) -> OperationRecord:
        which = OperationFilter(operation_id=operation_of(span, of, slot))
        (found,) = self.records.operations(which)
        return found

    def again(self, run: Run) -> Run:
        """See `Ledger.again`; also what is counted in rows is what the run's batches say."""
        stored = super().again(run)
        mine = list(self.records.operations(OperationFilter(run_id=run.run_id)))
        ids = {operation.operation_id for operation in mine}
        if not stored.pruned:
            wholes = [o.batch for o in mine if o.batch is not None and o.parent not in ids]
            assert stored.rows == sum(whole.rows for whole in wholes)
            assert set(stored.dependents) == set(summed(wholes))
            assert stored.most_dependents >= max(map(beside, wholes), default=0)
            effects = [o.effect for o in mine if o.effect is not None]
            expected = {
                "deleted": sum(effect.rows - effect.archived for effect in effects),
                "archived": sum(effect.archived for effect in effects),
                "blocked": sum(effect.blocked for effect in effects),
            }
            assert self.rows(run) == {name: n for name, n in expected.items() if n}
            for kind, of_each in (
                ("dependents", [effect.dependents for effect in effects]),
                ("changed", [effect.changed for effect in effects]),
            ):
                assert self.beside(run, kind) == sum(map(Counter, of_each), Counter())
        return stored

    def beside(self, run: Run, kind: str) -> dict[str, int]:
        """What became of rows of other tables: ``dependents`` or ``changed``, by table."""
        return {name: tally.n for name, tally in self.records.tallies(run, kind).items()}

    def rows(self, run: Run) -> dict[str, int]:
        """What became of its rows."""
        return {name: tally.n for name, tally in self.records.tallies(run, "rows").items()}


def summed(wholes: Iterable[RowBatch]) -> list[DependentRows]:
    """What *wholes* may remove and change in other tables, all together."""
    by_table: dict[str, DependentRows] = {}
    for table, removed, changed, younger in (one for b in wholes for one in b.dependents):
        before = by_table.get(table, DependentRows(table, younger=0))
        known = before.younger is not None and younger is not None
        by_table[table] = DependentRows(
            table,
            before.removed + removed,
            before.changed + changed,
            (before.younger or 0) + (younger or 0) if known else None,
        )
    return [table for name, table in by_table.items() if name != OWN_TABLE]


def beside(described: RowBatch) -> int:
    """How many rows *described* may remove and change beside its own."""
    return sum(table.removed + table.changed for table in described.dependents)


def spans(found: Iterable[Taken]) -> list[str]:
    """*found* by the names that they were planned under."""
    ends = [(json.loads(one.first), json.loads(one.last)) for one in found]
    return [f"{first}-{last}" for (first,), (last,) in ends]


class RowLedgerContract:
    """Inherit, and give a ``sides`` fixture of type `Sides`."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> RowLedger:
        return RowLedger(sides)

    # -- planning ----------------------------------------------------------------------------

    def test_a_batch_comes_back_as_it_was_planned(self, ledger: RowLedger) -> None:
        run = ledger.plan("0-99", "100-149")
        ledger.publish()
        first, second = ledger.claim()

        found = ledger.work.batches([first.row, second.row])

        cutoff = SLOT - 30 * DAY
        assert found == {
            first.row: Batched(batch("0-99"), cutoff, SLOT),
            second.row: Batched(batch("100-149"), cutoff, SLOT),
        }
        assert (first.key, first.size, first.last_modified) == ('["0"]..["99"]', 100, OLD)
        stored = ledger.again(run)
        assert (stored.about_rows, stored.unit) == (True, "batch")
        assert (stored.planned, stored.rows, stored.scanned) == (2, 150, 150)

    def test_operations_on_objects_have_no_batch(self, ledger: RowLedger, sides: Sides) -> None:
        objects = Ledger(sides)
        run = objects.plan("a")
        objects.publish()
        (claimed,) = objects.claim()

        assert ledger.work.batches([claimed.row]) == {}
        assert (run.about_rows, run.unit, run.rows) == (False, "object", 0)
        assert objects.operation("a").batch is None

    def test_slices_of_a_run_that_cannot_park_are_released_as_they_come(
        self, ledger: RowLedger
    ) -> None:
        answer = ledger.answer(ROWS, approved=True)

        rest = KeyRange('["99"]', None)
        first = ledger.write(answer, ledger.page(ROWS, ["0-99"], SLOT, rest), SLOT)

        assert (first.state, first.planned, first.rows) == (RunState.OPEN, 1, 100)
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(gone(claimed))
        second = ledger.write(answer, ledger.page(ROWS, ["100-149"], SLOT), SLOT)
        assert (second.planned, second.rows) == (2, 150)
        ledger.conclude(answer, ROWS, SLOT)
        ledger.end()
        assert ledger.again(answer.run).state is RunState.DRAINED

    def test_caps_are_about_rows(self, ledger: RowLedger) -> None:
        """P8"""
        two_batches = replace(ROWS, reach=Reach(max_deletes=150))
        assert ledger.plan("0-99", "100-149", of=two_batches).state is RunState.OPEN

        run = ledger.plan("200-299", "300-399", of=two_batches, slot=SLOT + DAY)

        assert run.state is RunState.PARKED
        assert run.reason == "200 rows selected, max_deletes is 150"

    def test_what_another_run_planned_meanwhile_is_pending_there(self, ledger: RowLedger) -> None:
        first = ledger.answer(MONTHLY, MARCH)
        second = ledger.answer(MONTHLY, MARCH + DAY)
        page = ledger.page(MONTHLY, ["0-99"], MARCH)
        stale = ledger.page(MONTHLY, ["0-99", "100-199"], MARCH + DAY)

        ledger.write(first, page, MARCH)
        ledger.write(second, stale, MARCH + DAY)

        assert ledger.again(first.run).rows == 100
        stored = ledger.again(second.run)
        assert (stored.planned, stored.already_pending, stored.rows) == (1, 1, 100)

    # -- what is taken -----------------------------------------------------------------------

    def test_taken_is_what_waits_is_pending_or_dead_in_the_order_of_the_plan(
        self, ledger: RowLedger
    ) -> None:
        ledger.plan("300-399", "0-99", "100-199", "200-299")
        assert spans(ledger.taken()) == ["300-399", "0-99", "100-199", "200-299"]
        ledger.publish()
        done, dead, *_ = ledger.claim()
        ledger.record(gone(done), died(dead))
        ledger.plan("400-499", slot=SLOT + DAY)

        assert spans(ledger.taken()) == ["0-99", "100-199", "200-299", "400-499"]
        assert {one.walk for one in ledger.taken()} == {Walk.KEY}

    def test_taken_is_of_one_policy_version_only(self, ledger: RowLedger) -> None:
        other = replace(ROWS, name="other")
        v2 = replace(ROWS, version="v2")
        ledger.plan("0-99")
        ledger.plan("100-199", of=other)
        ledger.plan("200-299", of=v2, slot=SLOT + DAY)

        assert spans(ledger.taken()) == ["0-99"]
        assert spans(ledger.taken(other)) == ["100-199"]
        assert spans(ledger.taken(v2)) == ["200-299"]
        assert ledger.taken(replace(ROWS, version="v3")) == []

    def test_what_the_next_slot_would_take_over_is_not_taken_for_it(
        self, ledger: RowLedger
    ) -> None:
        of = replace(ROWS, reach=Reach(max_deletes=100))
        ledger.plan("0-99", of=of)
        ledger.publish()
        parked = ledger.plan("100-199", "200-299", of=of, slot=SLOT + DAY)
        assert parked.state is RunState.PARKED

        assert spans(ledger.taken(of)) == ["0-99", "100-199", "200-299"]
        assert spans(ledger.taken(of, SLOT + DAY)) == ["0-99", "100-199", "200-299"]
        assert spans(ledger.taken(of, SLOT + 2 * DAY)) == ["0-99"]

    # -- taken over, cancelled, planned again ------------------------------------------------

    def test_a_newer_slot_cuts_what_a_parked_run_held_anew(self, ledger: RowLedger) -> None:
        """P5: under another cutoff these are other batches."""
        of = replace(ROWS, reach=Reach(max_deletes=100))
        old = ledger.plan("0-99", "100-199", of=of)

        new = ledger.plan("0-149", "150-249", of=of, slot=SLOT + DAY)

        assert (new.state, new.planned, new.rows) == (RunState.PARKED, 2, 250)
        gone_ = ledger.again(old)
        assert (gone_.state, gone_.completed, gone_.rows) == (RunState.CANCELLED, 2, 200)
        assert ledger.outcomes(old) == {"cancelled": 2}
        assert spans(ledger.taken(of)) == ["0-149", "150-249"]

    def test_a_batch_planned_again_brings_its_rows_along(self, ledger: RowLedger) -> None:
        of = replace(MONTHLY, reach=Reach(max_deletes=100))
        old = ledger.plan("0-99", "100-199", of=of, slot=MARCH)
        assert (old.state, old.rows) == (RunState.PARKED, 200)

        new = ledger.plan("0-99", "200-249", of=of, slot=MARCH + DAY)

        assert (new.state, new.planned, new.rows) == (RunState.PARKED, 2, 150)
        stored = ledger.again(old)
        assert (stored.state, stored.planned, stored.rows) == (RunState.CANCELLED, 1, 100)
        ledger.again(new)

    def test_a_protected_batch_planned_again_leaves_no_effect_behind(
        self, ledger: RowLedger
    ) -> None:
        first = ledger.plan("0-99", of=MONTHLY, slot=MARCH)
        ledger.publish(MARCH)
        (claimed,) = ledger.claim(now=MARCH)
        kept = {"outcome": Outcome.PROTECTED, "blocked": 7, "dependents": {"notes": 2}}
        ledger.record(gone(claimed, 0, **kept), now=MARCH)
        assert ledger.rows(first) == {"blocked": 7}

        second = ledger.plan("0-99", of=MONTHLY, slot=MARCH + DAY)

        assert (second.waiting, second.rows) == (1, 100)
        stored = ledger.again(first)
        assert (stored.planned, stored.rows, ledger.rows(first)) == (0, 0, {})
        assert ledger.records.tallies(first, "dependents") == {}
        assert ledger.record_of("0-99", MONTHLY, MARCH).effect is None

    def test_a_cancelled_run_keeps_its_rows_and_takes_no_more(self, ledger: RowLedger) -> None:
        run = ledger.plan("0-99", "100-199")
        ledger.publish()
        (in_hand,) = ledger.claim(limit=1)  # either: both are due
        ((batch, *_),) = ledger.work.batches([in_hand.row]).values()

        cancelled = ledger.plans.cancel(run.run_id, "stop", ME, SLOT)

        assert (cancelled.pending, cancelled.completed, cancelled.rows) == (1, 1, 200)
        assert [(one.first, one.last) for one in ledger.taken()] == [(batch.first, batch.last)]
        ledger.record(gone(in_hand))
        assert ledger.taken() == []
        assert ledger.rows(ledger.again(run)) == {"deleted": 100}

    # -- effects -----------------------------------------------------------------------------

    def test_an_effect_is_counted_once_in_rows_and_never_in_bytes(self, ledger: RowLedger) -> None:
        """P3"""
        run = ledger.plan("0-99", "100-149")
        ledger.publish()
        first, second = ledger.claim()
        children = {"notes": 12, "audit.events": 3}
        results = [
            gone(first, 95, blocked=5, dependents=children),
            gone(second, 50, outcome=Outcome.ARCHIVED, archived=50, dependents={"notes": 1}),
        ]

        assert ledger.record(*results) == []
        assert ledger.record(*results) == [first, second]

        assert ledger.records.tallies(run, "outcome") == {"deleted": (1, 0), "archived": (1, 0)}
        assert ledger.records.tallies(run, "rows") == {
            "deleted": (95, 0), "archived": (50, 0), "blocked": (5, 0),
        }  # fmt: skip
        assert ledger.records.tallies(run, "dependents") == {
            "audit.events": (3, 0), "notes": (13, 0),
        }  # fmt: skip
        ended = ledger.record_of("0-99")
        assert ended.effect == results[0].effect
        assert (ended.batch, ended.freed) == (batch("0-99"), 0)
        assert ledger.again(run).state is RunState.DRAINED

    def test_an_effect_after_a_lost_lease_is_the_later_deliverys_to_report(
        self, ledger: RowLedger
    ) -> None:
        (lost,) = ledger.only("0-99")
        (again,) = ledger.claim(now=SLOT + LEASE, suspects=True)

        assert ledger.record(gone(lost)) == [lost]
        assert ledger.record_of("0-99").effect is None
        ledger.record(gone(again, replayed=True))

        (run,) = ledger.records.runs()
        assert ledger.rows(ledger.again(run)) == {"deleted": 100}
        effect = ledger.record_of("0-99").effect
        assert effect is not None
        assert effect.replayed

    def test_batches_and_objects_may_end_together(self, ledger: RowLedger, sides: Sides) -> None:
        objects = Ledger(sides)
        objects_run = objects.plan("a")
        rows_run = ledger.plan("0-99")
        ledger.publish()
        of_object, of_rows = sorted(ledger.claim(), key=lambda o: o.key, reverse=True)

        ledger.record(Completed(of_object, Outcome.DELETED), gone(of_rows))

        assert ledger.records.tallies(objects_run, "outcome") == {"deleted": (1, 100)}
        assert ledger.records.tallies(rows_run, "outcome") == {"deleted": (1, 0)}

    def test_a_batch_that_went_into_a_file_says_where_that_is(self, ledger: RowLedger) -> None:
        archive = FileArchive("cold", "archive", "updates/", "jsonl")
        of = replace(ROWS, action="archive", source=replace(ROWS.rows, archive=archive))
        (claimed,) = ledger.only("0-99", of=of)

        ledger.work.record_copies([(claimed, Copy("updates/a.jsonl", "etag"))], SLOT)
        ledger.record(gone(claimed, outcome=Outcome.ARCHIVED, archived=100))

        found = ledger.record_of("0-99", of).archive
        assert found is not None
        assert (found.home, found.store, found.bucket) == ("shipments", "cold", "archive")
        assert (found.key, found.etag) == ("updates/a.jsonl", "etag")

    def test_a_batch_that_was_archived_is_found_with_what_the_policy_said_then(
        self, ledger: RowLedger
    ) -> None:
        source = replace(ROWS.rows, archive=TableArchive("updates_archive"), key=("id",))
        of = replace(ROWS, action="archive", source=source)
        ledger.plan("0-99", "100-199", of=of)
        ledger.publish()
        one, other = ledger.claim()
        ledger.record(
            gone(one, outcome=Outcome.ARCHIVED, archived=100), Completed(other, Outcome.PROTECTED)
        )

        (found,) = ledger.records.operations(OperationFilter(copied=True))

        assert (found.operation_id, found.source) == (one.operation_id, source)
        assert (found.archive, found.restored_at) == (None, None)

    # -- splits ------------------------------------------------------------------------------

    def test_a_split_batch_goes_on_as_its_parts(self, ledger: RowLedger) -> None:
        (claimed,) = ledger.only("0-99")

        assert ledger.record(halved(claimed, "0-49", "50-99")) == []

        (run,) = ledger.records.runs()
        stored = ledger.again(run)
        assert (stored.planned, stored.pending, stored.completed) == (3, 2, 1)
        assert (stored.rows, stored.state) == (100, RunState.OPEN)
        assert ledger.outcomes(run) == {"split": 1}
        assert ledger.record_of("0-99").reason == "it ran into a timeout"
        assert spans(ledger.taken()) == ["0-49", "50-99"]
        parts = ledger.claim()
        assert [batch_ for batch_, *_ in ledger.work.batches([o.row for o in parts]).values()] == [
            batch("0-49"), batch("50-99"),
        ]  # fmt: skip
        assert {(o.policy, o.run, o.deliveries, o.failed) for o in parts} == {
            (claimed.policy, claimed.run, 1, False)
        }
        assert ledger.record_of("50-99").parent == claimed.operation_id
        ledger.record(*map(gone, parts))
        stored = ledger.again(run)
        assert (stored.state, ledger.rows(run)) == (RunState.DRAINED, {"deleted": 100})

    def test_a_split_delivered_twice_has_its_parts_once(self, ledger: RowLedger) -> None:
        """P3"""
        (claimed,) = ledger.only("0-99")
        result = halved(claimed, "0-49", "50-99")

        assert ledger.record(result) == []
        assert ledger.record(result) == [claimed]

        (run,) = ledger.records.runs()
        assert ledger.again(run).planned == 3
        assert ledger.outcomes(run) == {"split": 1}

    def test_a_split_after_a_lost_lease_adds_nothing(self, ledger: RowLedger) -> None:
        (lost,) = ledger.only("0-99")
        (again,) = ledger.claim(now=SLOT + LEASE, suspects=True)

        assert ledger.record(halved(lost, "0-49", "50-99")) == [lost]

        (run,) = ledger.records.runs()
        assert ledger.again(run).planned == 1
        assert spans(ledger.taken()) == ["0-99"]
        assert ledger.record(halved(again, "0-9", "10-99")) == []
        assert spans(ledger.taken()) == ["0-9", "10-99"]

    def test_parts_may_be_split_again_until_one_stands_alone(self, ledger: RowLedger) -> None:
        """P9"""
        (claimed,) = ledger.only("0-3")
        ledger.record(halved(claimed, "0-1", "2-3"))
        sick, well = ledger.claim()
        ledger.record(halved(sick, "0-0", "1-1"), gone(well))
        poison, other = ledger.claim()
        ledger.record(died(poison, FailureClass.DEPENDENCY), gone(other))

        (run,) = ledger.records.runs()
        stored = ledger.again(run)
        assert (stored.planned, stored.completed, stored.dead, stored.rows) == (5, 4, 1, 4)
        assert ledger.outcomes(run) == {"split": 2, "deleted": 2}
        assert ledger.rows(run) == {"deleted": 3}
        (letter,) = ledger.dead_letters.dead(DeadFilter())
        assert letter.batch == batch("0-0")

    def test_a_part_that_is_there_already_is_left_as_it_is(self, ledger: RowLedger) -> None:
        whole, known, _ = ledger.only("0-99", "0-49", "200-299")
        ledger.record(gone(known))

        assert ledger.record(halved(whole, "0-49", "50-99")) == []

        (run,) = ledger.records.runs()
        stored = ledger.again(run)
        assert (stored.planned, stored.pending, stored.completed) == (4, 2, 2)
        left = ledger.record_of("0-49")
        assert (left.outcome, left.parent) == (Outcome.DELETED, None)

    def test_parts_of_a_cancelled_run_only_get_closed(self, ledger: RowLedger) -> None:
        (claimed,) = ledger.only("0-99")
        (run,) = ledger.records.runs()
        ledger.plans.cancel(run.run_id, "stop", ME, SLOT)

        assert ledger.record(halved(claimed, "0-49", "50-99")) == []

        parts = ledger.claim()
        assert [part.cancelled for part in parts] == [True, True]
        ledger.record(*(Completed(part, Outcome.CANCELLED) for part in parts))
        stored = ledger.again(run)
        assert (stored.state, stored.rows) == (RunState.CANCELLED, 100)
        assert ledger.outcomes(run) == {"split": 1, "cancelled": 2}

    def test_a_part_planned_again_counts_in_the_run_it_comes_to(self, ledger: RowLedger) -> None:
        first = ledger.plan("0-99", of=MONTHLY, slot=MARCH)
        ledger.publish(MARCH)
        (claimed,) = ledger.claim(now=MARCH)
        ledger.record(halved(claimed, "0-49", "50-99", of=MONTHLY, slot=MARCH), now=MARCH)
        ledger.plans.cancel(first.run_id, "stop", ME, MARCH)

        second = ledger.plan("0-49", of=MONTHLY, slot=MARCH + DAY)

        assert (second.planned, second.rows) == (1, 50)
        assert ledger.again(first).rows == 100
        ledger.plans.cancel(second.run_id, "stop", ME, MARCH + DAY)
        ledger.again(second)

    def test_two_workers_with_the_same_claim_split_it_once(self, ledger: RowLedger) -> None:
        names = [f"{n}-{n + 99}" for n in range(0, 1_200, 100)]
        claimed = ledger.only(*names)
        with ThreadPoolExecutor(2) as threads:
            for operation, name in zip(claimed, names, strict=True):
                first = int(name.split("-")[0])
                halves = [f"{first}-{first + 49}", f"{first + 50}-{first + 99}"]
                result = halved(operation, *halves)
                late = list(threads.map(ledger.record, [result, result]))
                assert sorted(late, key=len) == [[], [operation]]

        (run,) = ledger.records.runs()
        stored = ledger.again(run)
        assert (stored.planned, stored.pending, stored.rows) == (36, 24, 1_200)

    # -- dead letters ------------------------------------------------------------------------

    def test_a_dead_letter_says_which_rows_it_is_about(self, ledger: RowLedger) -> None:
        ledger.plan("0-99")
        (letter,) = ledger.kill(FailureClass.DEPENDENCY)

        assert (letter.batch, letter.cutoff) == (batch("0-99"), SLOT - 30 * DAY)
        assert letter.bucket == "shipment_updates"
        assert ledger.dead_letters.redrive([letter.row], [SLOT], ME, SLOT) == 1
        (again,) = ledger.claim()
        ledger.record(gone(again))
        (run,) = ledger.records.runs()
        assert ledger.rows(ledger.again(run)) == {"deleted": 100}

    def test_a_redrive_accepts_as_many_rows_of_a_partition_as_its_dead_letter_shows(
        self, ledger: RowLedger
    ) -> None:
        """S-PART-01."""
        spans = "p0-999", "2000-2099", "p3000-3999"
        said = Failure(FailureClass.MALFORMED, f"may: {grown(1_000, 1_201)}; it is attached again")
        partition, rows, other = ledger.only(*spans)
        ledger.record(*(Died(one, GiveUp(said, one.budget)) for one in (partition, rows)))
        ledger.record(died(other, FailureClass.MALFORMED))
        letters = [letter.row for letter in ledger.dead_letters.dead(DeadFilter())]

        assert ledger.dead_letters.redrive(letters, [SLOT] * 3, ME, SLOT) == 3

        planned = [ledger.record_of(span).batch for span in spans]
        # The words stand for nothing where rows are removed in batches.
        assert [one.rows for one in planned if one is not None] == [1_201, 100, 1_000]
        (run,) = ledger.records.runs()
        assert ledger.again(run).rows == 2_301

    def test_a_discarded_batch_keeps_its_rows_and_is_taken_no_more(self, ledger: RowLedger) -> None:
        ledger.plan("0-99")
        (letter,) = ledger.kill(FailureClass.DEPENDENCY)

        assert ledger.dead_letters.discard([letter.row], "kept", ME, SLOT) == 1

        assert ledger.taken() == []
        (run,) = ledger.records.runs()
        assert ledger.again(run).rows == 100

    def test_no_object_is_put_in_the_place_of_rows(self, ledger: RowLedger) -> None:
        ledger.plan("0-99")
        (letter,) = ledger.kill(FailureClass.DEPENDENCY)
        other = Listed("a", 1, "etag", OLD)

        with pytest.raises(LedgerError, match="only the operation of an object"):
            ledger.dead_letters.correct(letter.row, b"\0" * 32, other, ME, SLOT)

        assert ledger.record_of("0-99").state is State.DEAD

    # -- what is remembered ------------------------------------------------------------------

    def test_durations_are_those_of_the_batches_planned_last_that_did_something(
        self, ledger: RowLedger
    ) -> None:
        v1 = ledger.only("0-99", "100-199", "200-299", "300-399", "400-499", "p1000-9999")
        nothing, replayed, first, protected, last, partition = v1
        ledger.record(gone(last, 100, seconds=0.4), gone(partition))
        ledger.record(
            gone(nothing, 0, seconds=0.1),
            gone(replayed, replayed=True),
            gone(first, 99, seconds=0.3),
            gone(protected, 0, outcome=Outcome.PROTECTED),
        )
        assert ledger.records.durations("updates", 10) == [(100, 0.4), (99, 0.3)]
        v2 = replace(ROWS, version="v2")
        ledger.plan("0-9", of=v2, slot=SLOT + DAY)
        ledger.publish(SLOT + DAY)
        (claimed,) = ledger.claim(now=SLOT + DAY)
        ledger.record(gone(claimed, seconds=0.5), now=SLOT + DAY)

        assert ledger.records.durations("updates", 10) == [(10, 0.5), (100, 0.4), (99, 0.3)]
        assert ledger.records.durations("updates", 2) == [(10, 0.5), (100, 0.4)]
        assert ledger.records.durations("other", 10) == []

    def test_completed_batches_are_those_a_database_has_to_remember_too(
        self, ledger: RowLedger
    ) -> None:
        first, split, protected, dead, last = ledger.only(
            "0-99", "100-199", "200-299", "300-399", "400-499"
        )
        ledger.record(
            gone(first),
            halved(split, "100-149", "150-199"),
            gone(protected, 0, outcome=Outcome.PROTECTED),
            died(dead),
            gone(last, 100, outcome=Outcome.ARCHIVED, archived=100),
        )

        found = ledger.records.completed_batches("updates", 10)

        assert found == [operation_of("400-499"), operation_of("0-99")]
        assert ledger.records.completed_batches("updates", 1) == found[:1]

    # -- upkeep ------------------------------------------------------------------------------

    def test_a_batch_is_exported_with_its_effect_and_then_pruned(self, ledger: RowLedger) -> None:
        run = ledger.plan("0-99")
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(gone(claimed, dependents={"notes": 2}))

        ((old, _),) = ledger.upkeep.old_operations(0, SLOT + DAY, 10, SLOT).operations
        assert old.batch == batch("0-99")
        assert old.effect is not None
        assert old.effect.dependents == {"notes": 2}
        assert self._prune(ledger, old.operation_id) == 1

        stored = ledger.again(run)
        assert (stored.pruned, stored.completed, stored.rows) == (1, 1, 100)
        assert ledger.rows(run) == {"deleted": 100}
        assert ledger.records.completed_batches("updates", 10) == []
        assert ledger.work.batches([claimed.row]) == {}

    def test_what_was_split_stays_as_long_as_its_parts(self, ledger: RowLedger) -> None:
        (claimed,) = ledger.only("0-99")
        ledger.record(halved(claimed, "0-49", "50-99"))
        one, other = ledger.claim()
        ledger.record(gone(one))
        ids = [operation_of(span) for span in ("0-99", "0-49", "50-99")]
        assert self._prune(ledger, *ids) == 1, "one part is pending, and the whole is its parent"
        assert ledger.record_of("50-99").parent == claimed.operation_id

        ledger.record(gone(other))

        assert self._prune(ledger, *ids) == 1
        assert self._prune(ledger, *ids) == 1
        assert list(ledger.records.operations(OperationFilter())) == []

    def _prune(self, ledger: RowLedger, *ids: bytes) -> int:
        held = ledger.upkeep.claim(SLOT, timedelta(0), LEASE)
        assert held is not None
        pruned = ledger.upkeep.prune_operations(held, ids, SLOT + DAY, SLOT, LEASE)
        ledger.upkeep.done(held, 0, finished=True, now=SLOT)
        return pruned

    # -- a preview ---------------------------------------------------------------------------

    def test_what_another_ledger_knows_counts_with_its_rows(self, ledger: RowLedger) -> None:
        """As in a preview, drawn into an empty ledger."""
        answer = ledger.answer(ROWS)
        id_ = operation_of("0-99")
        ended = Known(State.COMPLETED, Outcome.CANCELLED, SLOT, 0)
        ledger.plans.remember({id_: ended}, SLOT)
        page = ledger.page(ROWS, ["0-99", "100-149"], SLOT)

        ledger.write(answer, page, SLOT)
        run = ledger.conclude(answer, ROWS, SLOT)

        assert (run.planned, run.rows) == (2, 150)
