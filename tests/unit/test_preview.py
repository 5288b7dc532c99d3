"""What a person is shown of a run."""

import itertools
from datetime import UTC, datetime, timedelta

from bestbefore.domain.prefixes import PrefixCounts
from bestbefore.domain.preview import (
    PreviewBuilder,
    Selected,
    Stay,
    stays_by_prefix,
    stays_by_table,
)
from bestbefore.domain.rows import RowBatch, Walk

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def built(*sizes: int) -> PreviewBuilder:
    builder = PreviewBuilder("e/", len(sizes))
    for n, size in enumerate(sizes):
        builder.add(Selected(f"e/{n % 3}/{n:04}", size, FIRST + n * HOUR))
    return builder


def test_the_sample_has_the_oldest_the_newest_the_biggest_and_some_between() -> None:
    """S-REACH-09: not the ten that come first."""
    sizes = [10] * 1_000
    sizes[321], sizes[654] = 500, 400

    preview = built(*sizes).build([])

    why = {example.target.key[-4:]: example.why for example in preview.sample}
    assert len(preview.sample) == 10
    assert (why["0000"], why["0999"]) == ("oldest", "newest")
    assert (why["0321"], why["0654"]) == ("biggest", "biggest")
    between = [int(key) for key, said in why.items() if said == "between"]
    assert len({number // 250 for number in between}) == 4
    assert (preview.n, preview.size) == (1_000, sum(sizes))
    assert (preview.oldest, preview.newest) == (FIRST, FIRST + 999 * HOUR)


def test_a_small_run_is_shown_whole_and_each_target_once() -> None:
    preview = built(1, 2, 3).build([])

    assert [example.target.key for example in preview.sample] == [
        "e/0/0000",
        "e/1/0001",
        "e/2/0002",
    ]


def test_the_sample_of_any_number_is_spread_over_all_of_it() -> None:
    for n in (11, 15, 19, 20, 29, 101):
        sample = built(*[1] * n).build([]).sample
        places = sorted(int(example.target.key[-4:]) for example in sample)
        assert len(places) == 10
        assert max(b - a for a, b in itertools.pairwise(places)) <= max(2, n // 4)


def test_a_run_that_selects_nothing_has_no_times() -> None:
    preview = PreviewBuilder("e/", 0).build([])

    assert (preview.n, preview.oldest, preview.newest, preview.sample) == (0, None, None, ())
    assert (preview.size, PreviewBuilder(None, 0).build([]).size) == (0, None)


def test_of_rows_the_batches_stand_for_their_rows() -> None:
    builder = PreviewBuilder(None, 40)
    for n in range(40):
        batch = RowBatch(f'["{n}0"]', f'["{n}9"]', 10, FIRST + n * HOUR, Walk.KEY, "0" * 16)
        builder.add(Selected(batch.label, 10, batch.oldest, batch=batch))

    preview = builder.build([], "DELETE", ["orders: tell"])

    assert (preview.n, preview.size, preview.prefixes) == (400, None, ())
    assert preview.first is not None
    assert preview.first.first == '["00"]'
    assert len(preview.sample) == 10


def test_what_stays_is_said_by_reason_and_where_most_of_it_is() -> None:
    young = PrefixCounts("e/")
    for n in range(10):
        young.add(f"e/{'2026-06' if n else '2026-07'}/{n}", 5)

    (stay,) = stays_by_prefix({"young": young, "hold": PrefixCounts("e/")})

    assert (stay.reason, stay.n) == ("young", 10)
    assert stay.prefixes[0][:2] == ("e/2026-06/", 9)


def test_of_rows_that_stay_the_tables_that_refer_to_them_are_named() -> None:
    """S-REACH-09."""
    found = stays_by_table({"referenced": 12, "undated": 3}, {"main.lines": 5, "main.bills": 7})

    assert found == [
        Stay("referenced", 12, tables=(("main.bills", 7), ("main.lines", 5))),
        Stay("undated", 3),
    ]
