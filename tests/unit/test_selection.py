"""Which listed objects a policy selects."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.selection import (
    PROTECTIVE,
    Generation,
    Listed,
    Selector,
    Verdict,
    impossible,
    newest,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
CUTOFF = datetime(2026, 6, 1, tzinfo=UTC)
OLD = datetime(2026, 1, 1, tzinfo=UTC)
NEW = datetime(2026, 6, 30, tzinfo=UTC)
WHOLE = ObjectSource(store="s", bucket="b", prefix="")


def listed(key: str, when: datetime = OLD, size: int = 10) -> Listed:
    return Listed(key, size, "etag", when)


def selector(prefix: str = "", **rules: Any) -> Selector:
    return Selector.of(replace(WHOLE, prefix=prefix, **rules), CUTOFF, NOW)


def eligible(chosen: Selector, *keys: str) -> set[str]:
    """Which of *keys*, all old, may go."""
    return {key for key in keys if chosen.judge(listed(key)) is Verdict.ELIGIBLE}


@pytest.mark.parametrize(
    ("when", "verdict"),
    [
        (OLD, Verdict.ELIGIBLE),
        (CUTOFF - timedelta(microseconds=1), Verdict.ELIGIBLE),
        (CUTOFF, Verdict.YOUNG),
        (NEW, Verdict.YOUNG),
        (NOW, Verdict.YOUNG),
        (NOW + timedelta(microseconds=1), Verdict.FUTURE_DATE),
        (NOW + timedelta(days=9999), Verdict.FUTURE_DATE),
    ],
)
def test_old_enough_means_strictly_before_the_cutoff(when: datetime, verdict: Verdict) -> None:
    assert selector().judge(listed("a", when)) is verdict


def test_only_the_storage_classes_that_are_named_go() -> None:
    chosen = selector(storage_class=("GLACIER", "STANDARD_IA"))

    assert chosen.judge(listed("a")) is Verdict.STORAGE_CLASS, "a listing without one: STANDARD"
    assert chosen.judge(listed("a")._replace(storage_class="GLACIER")) is Verdict.ELIGIBLE
    assert chosen.judge(listed("a")._replace(storage_class="glacier")) is Verdict.STORAGE_CLASS
    assert selector(storage_class=("STANDARD",)).judge(listed("a")) is Verdict.ELIGIBLE
    assert Verdict.STORAGE_CLASS in PROTECTIVE


def test_the_pointer_itself_is_never_selected() -> None:
    chosen = selector(generation="(?P<generation>[a-z]+)", current_pointer="exports/current")

    assert chosen.judge(listed("exports/current")) is Verdict.POINTER
    assert chosen.judge(listed("exports/current2")) is Verdict.ELIGIBLE
    assert Verdict.POINTER in PROTECTIVE


def test_a_prefix_that_ends_in_a_slash_does_not_cover_its_siblings() -> None:
    """O-SCOPE-01"""
    keys = ("exports/2026/a.json", "exports/2026-archive/b.json", "exports/20260101.csv")

    assert eligible(selector("exports/2026/"), *keys) == {"exports/2026/a.json"}
    assert eligible(selector("exports/2026"), *keys) == set(keys)


def test_only_patterns_are_read_as_patterns() -> None:
    """O-SCOPE-03"""
    keys = ("up/*", "up/movie[2019].mkv", "up/movie2.mkv", "up/keep.txt", "u/p/x")

    assert eligible(selector("up/*"), *keys) == {"up/*"}
    assert eligible(selector("up/movie[2019]"), *keys) == {"up/movie[2019].mkv"}
    assert eligible(selector("up/", match="movie[2019].mkv"), *keys) == {"up/movie2.mkv"}
    assert eligible(selector("up/", match="[*]"), *keys) == {"up/*"}


@pytest.mark.parametrize(
    ("match", "inside", "outside"),
    [
        ("*.json", ["p/a.json", "p/d/a.json", "p/.json", "p/a\nb.json"], ["p/a.JSON", "p/a.jsonl"]),
        ("?.json", ["p/a.json", "p/ö.json"], ["p/ab.json", "p/.json"]),
        ("[!a]*", ["p/b", "p/bc"], ["p/a", "p/"]),
        ("d/*", ["p/d/", "p/d/a", "p/d/e/a"], ["p/d", "p/e/d/a"]),
        ("a", ["p/a"], ["p/a\n", "p/ab", "p/p/a"]),
    ],
)
def test_a_glob_covers_all_of_the_key_after_the_prefix(
    match: str, inside: list[str], outside: list[str]
) -> None:
    assert eligible(selector("p/", match=match), *inside, *outside) == set(inside)


@pytest.mark.parametrize(
    ("regex", "inside", "outside"),
    [
        (r"\d+", ["p/1", "p/23"], ["p/1a", "p/a1", "p/1\n", "p/"]),
        (r"a|ab", ["p/a", "p/ab"], ["p/abc", "p/xa"]),
        (r"(?!keep/).*", ["p/a", "p/x/keep/a"], ["p/keep/a"]),
        (r"^a$", ["p/a"], ["p/a\n", "p/b"]),
    ],
)
def test_a_regex_matches_all_of_the_key_after_the_prefix(
    regex: str, inside: list[str], outside: list[str]
) -> None:
    assert eligible(selector("p/", regex=regex), *inside, *outside) == set(inside)


def test_keys_that_only_look_alike_are_different_keys() -> None:
    """O-KEY-02, O-KEY-03"""
    keys = ("q/a+b", "q/a b", "q/a%20b", "/q/a b", "q//a b", "Q/a b")

    assert eligible(selector("q/"), *keys) == {"q/a+b", "q/a b", "q/a%20b", "q//a b"}
    assert eligible(selector("q/", match="a b"), *keys) == {"q/a b"}


@pytest.mark.parametrize(
    ("option", "verdict"), [(False, Verdict.FOLDER_MARKER), (True, Verdict.ELIGIBLE)]
)
def test_folder_markers_stay_unless_the_policy_says_otherwise(
    option: bool, verdict: Verdict
) -> None:
    """O-KEY-05"""
    chosen = selector(folder_markers=option)

    assert chosen.judge(listed("d/", size=0)) is verdict
    assert chosen.judge(listed("e/", size=0)) is verdict
    assert chosen.judge(listed("d/child.json", NEW)) is Verdict.YOUNG
    assert chosen.judge(listed("d", NEW)) is Verdict.YOUNG
    assert chosen.judge(listed("f/", size=1)) is Verdict.ELIGIBLE
    assert chosen.judge(listed("empty", size=0)) is Verdict.ELIGIBLE


def test_a_kept_folder_marker_is_protected_and_no_failure() -> None:
    """O-KEY-05"""
    assert Verdict.FOLDER_MARKER in PROTECTIVE
    assert Verdict.REFUSED not in PROTECTIVE


@pytest.mark.parametrize(
    ("size", "verdict"),
    [
        (9, Verdict.SIZE),
        (10, Verdict.ELIGIBLE),
        (20, Verdict.ELIGIBLE),
        (21, Verdict.SIZE),
        (0, Verdict.SIZE),
    ],
)
def test_sizes_are_inclusive_at_both_ends(size: int, verdict: Verdict) -> None:
    assert selector(min_size=10, max_size=20).judge(listed("a", size=size)) is verdict


def test_a_largest_size_of_zero_leaves_only_empty_objects() -> None:
    chosen = selector(max_size=0)

    assert chosen.judge(listed("a", size=0)) is Verdict.ELIGIBLE
    assert chosen.judge(listed("a", size=1)) is Verdict.SIZE


GENERATION = r"exports/(?P<generation>\d{4}-\d{2})/"


def test_an_object_without_a_readable_generation_is_kept() -> None:
    chosen = selector("exports/", generation=GENERATION)

    assert chosen.judge(listed("exports/2026-01/a")) is Verdict.ELIGIBLE
    assert chosen.judge(listed("exports/latest/a")) is Verdict.NO_GENERATION
    assert chosen.judge(listed("exports/2026-01")) is Verdict.NO_GENERATION
    assert chosen.generation("exports/2026-01/a") == "2026-01"
    assert chosen.generation("exports/latest/a") is None
    assert chosen.generation_prefix("exports/2026-01/a") == "exports/2026-01"


def test_a_generation_whose_group_took_no_part_cannot_be_read() -> None:
    chosen = selector(generation=r"x|(?P<generation>\d+)")

    assert chosen.judge(listed("x1")) is Verdict.NO_GENERATION
    assert chosen.judge(listed("y1")) is Verdict.ELIGIBLE


def test_without_a_rule_there_are_no_generations() -> None:
    chosen = selector()

    assert chosen.generation("exports/2026-01/a") is None
    assert chosen.generation_prefix("exports/2026-01/a") == "exports/2026-01/a"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "the key is empty"),
        ("a" * 1025, "1,025 bytes"),
        ("ö" * 513, "1,026 bytes"),
        ("a\ud800", "not valid Unicode"),
    ],
)
def test_a_key_that_no_store_can_hold_is_refused_with_the_reason(key: str, reason: str) -> None:
    assert reason in str(impossible(key))
    assert selector().judge(listed(key)) is Verdict.REFUSED


@pytest.mark.parametrize("key", ["a", "a" * 1024, "ö" * 512, "\x10", "/", "//", " ", "\n", "*"])
def test_odd_keys_are_possible(key: str) -> None:
    """O-KEY-01, O-KEY-03"""
    assert impossible(key) is None
    assert selector().judge(listed(key)) is Verdict.ELIGIBLE


def test_a_young_impossible_key_is_only_young() -> None:
    assert selector().judge(listed("a" * 1025, NEW)) is Verdict.YOUNG


@pytest.mark.parametrize(
    ("group", "key", "expected"),
    [
        (None, "db/2026-05-01.dump", ""),
        (r"([^/]+)/[^/]+$", "db/2026-05-01.dump", "db"),
        (r"^[^/]+/", "db/2026-05-01.dump", "db/"),
        (r"([^/]+)/[^/]+$", "top", None),
    ],
)
def test_keep_last_counts_per_group_of_the_pattern(
    group: str | None, key: str, expected: str | None
) -> None:
    assert selector(keep_last=1, keep_last_group=group).keep_last_group(key) == expected


def test_a_broken_copy_does_not_count_as_the_kept_one() -> None:
    """O-GUARD-04"""
    for rules in ({"keep_last_min_size": 1_000_000}, {"min_size": 1_000_000}):
        chosen = selector("db/", keep_last=1, **rules)

        assert not chosen.counts_for_keep_last(listed("db/2026-06-29.dump", NEW, size=0))
        assert chosen.counts_for_keep_last(listed("db/2026-05-15.dump", size=10_000_000))
        assert chosen.counts_for_keep_last(listed("db/exact.dump", size=1_000_000))


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_newest_generation_is_kept_however_old_it_is() -> None:
    """O-GUARD-01"""
    dates = ("2026-03-01", "2026-04-01", "2026-05-01")

    assert newest([Generation(date, day(date)) for date in dates], 1) == {"2026-05-01"}
    assert newest([Generation("2026-03-01", day("2026-03-01"))], 1) == {"2026-03-01"}


def test_newest_by_name_and_newest_by_date_are_both_kept() -> None:
    """O-GUARD-01: names whose order differs from their age."""
    seen = [
        Generation("2026-05", day("2026-05-01")),
        Generation("2026-04", day("2026-06-20")),  # written again
        Generation("2026-03", day("2026-03-01")),
    ]

    assert newest(seen, 1) == {"2026-05", "2026-04"}


generations = st.lists(
    st.builds(
        Generation,
        st.text(max_size=3),
        st.integers(0, 5).map(lambda days: OLD + timedelta(days=days)),
    ),
    unique_by=lambda generation: generation.name,
    max_size=12,
)


@given(generations, st.integers(1, 5))
def test_enough_generations_are_kept_and_never_twice_too_many(
    seen: list[Generation], keep: int
) -> None:
    kept = newest(seen, keep)

    assert kept <= {generation.name for generation in seen}
    assert min(keep, len(seen)) <= len(kept) <= 2 * keep


@given(generations, st.integers(1, 5))
def test_a_generation_goes_only_if_enough_are_newer_by_name_and_by_date(
    seen: list[Generation], keep: int
) -> None:
    kept = newest(seen, keep)

    for generation in seen:
        if generation.name not in kept:
            assert sum(g.name > generation.name for g in seen) >= keep
            assert sum(g.youngest >= generation.youngest for g in seen) > keep


@given(generations, st.integers(1, 5), st.randoms(use_true_random=False))
def test_what_is_kept_does_not_depend_on_the_order_of_the_listing(
    seen: list[Generation], keep: int, chance: Any
) -> None:
    shuffled = list(seen)
    chance.shuffle(shuffled)

    assert newest(shuffled, keep) == newest(seen, keep)
