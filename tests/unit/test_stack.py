"""The place of each entry among those of its key, whatever order and pages a store gives."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Carried, OutOfOrder, Shown, unstack
from bestbefore.domain.versions import Version

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def shown(key: str, id_: str, hour: int, *, marker: bool = False, latest: bool = False) -> Shown:
    version = Version(id_, marker)
    return Shown(Listed(key, 0 if marker else 1, "", at(hour), version=version), latest)


def facts(items: list[Listed]) -> dict[str, Version]:
    return {item.version.id: item.version for item in items if item.version}


def test_the_newest_comes_last_and_knows_what_is_under_it() -> None:
    entries = [
        shown("a", "3", 3, latest=True),
        shown("a", "2", 2),
        shown("a", "1", 1),
        shown("b", "4", 4, marker=True, latest=True),
    ]
    items, carried = unstack(entries, None, lambda item: item.version_id != "1", unfinished=False)
    assert carried is None
    assert [item.version_id for item in items] == ["2", "1", "3", "4"]
    found = facts(items)
    assert (found["3"].others, found["3"].kept, found["3"].newest) == (2, 1, True)
    assert found["3"].last_to_go
    assert (found["4"].others, found["4"].last_to_go) == (0, False)


def test_an_entry_stopped_being_the_newest_when_its_successor_was_written() -> None:
    entries = [shown("a", "3", 9, latest=True), shown("a", "2", 5), shown("a", "1", 1)]
    items, _ = unstack(entries, None, bool, unfinished=False)
    found = facts(items)
    assert (found["1"].since, found["2"].since, found["3"].since) == (at(5), at(9), None)


def test_where_markers_are_listed_apart_their_times_tell_what_they_followed() -> None:
    entries = [
        shown("a", "4", 9, latest=True),
        shown("a", "1", 1),
        shown("a", "3", 5, marker=True),
    ]
    items, _ = unstack(entries, None, bool, unfinished=False)
    found = facts(items)
    # Listed right after the newest, and yet it was the marker of hour 5 that followed it. As the
    # two orders differ, the later of the two times counts.
    assert found["1"].since == at(9)
    assert found["3"].since == at(9)


def test_a_time_before_ones_own_ended_nothing() -> None:
    """An upload in parts has the time of its beginning: its predecessor can look younger."""
    entries = [shown("a", "2", 1, latest=True), shown("a", "1", 5)]
    items, _ = unstack(entries, None, bool, unfinished=False)
    assert facts(items)["1"].since == at(5)


def test_two_that_are_called_the_latest_are_told_by_having_an_id() -> None:
    entries = [shown("a", "null", 1, latest=True), shown("a", "1", 5, latest=True)]
    items, _ = unstack(entries, None, bool, unfinished=False)
    assert items[-1].version_id == "1"
    assert facts(items)["null"].since == at(5)


def test_without_a_latest_every_entry_may_be_what_readers_see() -> None:
    entries = [shown("a", "2", 5), shown("a", "1", 1)]
    items, _ = unstack(entries, None, bool, unfinished=False)
    assert len(items) == 2
    assert all(version.newest and version.kept for version in facts(items).values())


def test_a_latest_after_older_ones_is_no_order_we_know() -> None:
    _, carried = unstack([shown("a", "2", 5, latest=True)], None, bool, unfinished=True)
    with pytest.raises(OutOfOrder):
        unstack([shown("a", "3", 9, latest=True)], carried, bool, unfinished=False)


def test_what_is_carried_survives_as_text() -> None:
    entries = [shown("a\n", "2", 5, latest=True), shown("a\n", "1", 1)]
    _, carried = unstack(entries, None, bool, unfinished=True)
    assert carried is not None
    assert Carried.load(carried.dump()) == carried


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=25, max_size=25),
)
def test_pages_of_any_size_tell_the_same_as_one(sizes: list[int], pages: list[int]) -> None:
    """Pages that end within a key, as a store whose pages are smaller than its keys gives them."""
    entries = [
        shown(f"k{n}", f"k{n}-{place}", size - place, latest=place == 0)
        for n, size in enumerate(sizes)
        for place in range(size)
    ]
    whole, _ = unstack(entries, None, lambda i: i.version_id[-1] != "2", unfinished=False)  # type: ignore[index]
    parts: list[Listed] = []
    carried: Carried | None = None
    left = list(entries)
    for size in pages:
        page, left = left[:size], left[size:]
        within = bool(page and left and left[0].item.key == page[-1].item.key)
        items, carried = unstack(
            page,
            carried,
            lambda i: i.version_id[-1] != "2",
            unfinished=within,  # type: ignore[index]
        )
        parts += items
    assert not left
    assert carried is None
    assert parts == whole
