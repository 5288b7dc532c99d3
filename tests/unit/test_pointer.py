"""What the text of a current_pointer protects."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.pointer import MOST_BYTES, Pointer

SEEN = {"2026-04", "2026-05", "2026-06"}


def named(content: bytes | None, seen: set[str] = SEEN) -> set[str]:
    return set(Pointer.of("exports/current", content).names(seen))


@pytest.mark.parametrize(
    "content",
    [
        b"2026-05",
        b"2026-05\n",
        b"\xef\xbb\xbf2026-05\r\n",
        b"s3://weekly-digests/exports/2026-05/",
        b"https://cdn.example.com/exports%2F2026-05%2Findex.html",
        b'{"current": "exports/2026-05/", "by": "growth-team"}',
        b'{"current": "exports\\/2026\\u002d05"}',
        b'["2026-05"]',
        b"generation=2026-05;format=json",
    ],
)
def test_a_generation_is_named_however_the_pointer_is_written(content: bytes) -> None:
    assert named(content) == {"2026-05"}


def test_every_generation_that_occurs_is_named() -> None:
    assert named(b"from 2026-04 to 2026-06") == {"2026-04", "2026-06"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no object exports/current"),
        (b"", "exports/current is empty"),
        (b" \n", "exports/current is empty"),
        (b"\xff\xfe2\x000\x00", "exports/current is not UTF-8 text"),
        (b"2026-05".ljust(MOST_BYTES + 1), "exports/current is longer than 64 KiB"),
        (b"2026-07", "exports/current names no generation that was seen"),
        (b"{}", "exports/current names no generation that was seen"),
    ],
)
def test_a_pointer_that_says_nothing_names_nothing_and_says_why(
    content: bytes | None, why: str
) -> None:
    assert named(content) == set()
    assert Pointer.of("exports/current", content).why_all(SEEN) == why


def test_a_pointer_that_says_something_keeps_not_everything() -> None:
    assert Pointer.of("p", b"2026-05").why_all(SEEN) is None
    assert Pointer.of("p", b"2026-05".ljust(MOST_BYTES)).why_all(SEEN) is None


def test_a_generation_nobody_has_seen_yet_does_not_pass_for_one_that_it_contains() -> None:
    """The pointer moved on to v10 after the scan: v1, of all, would be kept instead."""
    assert named(b"v10", {"v1", "v2"}) == set()
    assert named(b"v10", {"v1", "v2", "v10"}) == {"v1", "v10"}, "rather too much than too little"


def test_where_there_are_no_generations_nothing_is_named() -> None:
    assert named(b"2026-05", set()) == set()
    assert named(b"2026-05", {""}) == set()


@given(
    st.sets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1),
    st.data(),
    st.sampled_from([str, json.dumps, lambda name: json.dumps({"a": [{name: 1}]})]),
)
def test_what_a_pointer_is_about_is_always_kept(seen, data, written) -> None:
    """Whatever a name looks like: it is kept, or everything is."""
    current = data.draw(st.sampled_from(sorted(seen)))
    kept = named(written(current).encode(), seen)
    assert current in kept or not kept
