"""Names for targets that no two targets share."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.identity import (
    ObjectIds,
    frame,
    instant,
    object_identity,
    operation_id,
)

SEEN = datetime(2026, 6, 7, 2, tzinfo=UTC)
ETAG = "9dd4e461268c8034f5c8564e155c67a6"

text = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            "exports/2026-06/customer-1842.json",
            "9783c7f13d5e634d7642896032b3915dbf0471bcd0c08c4637a40108858c7fae",
        ),
        (
            "exports/2026-06/gr\u00f6\u00dfe-1842.json",
            "30cf79947d489b9e31b5913baad07ea50e4e878cb26f63f01cc8f3579e295c95",
        ),
    ],
)
def test_the_ids_are_those_of_the_design(key: str, expected: str) -> None:
    identity = object_identity(ETAG, SEEN)

    assert identity == "9dd4e461268c8034f5c8564e155c67a6@2026-06-07T02:00:00Z"
    assert (
        operation_id("object", "digests", "retain-30d-v2", "weekly-digests", key, identity)
        == ObjectIds("digests", "retain-30d-v2", "weekly-digests").of(key, ETAG, SEEN).hex()
        == expected
    )


def test_a_frame_counts_bytes_and_not_characters() -> None:
    assert frame("gr\u00f6\u00dfe") == "7:gr\u00f6\u00dfe,"
    assert frame("") == "0:,"


def test_fields_that_join_to_the_same_text_have_other_ids() -> None:
    """O-IDEM-01"""
    first = ObjectIds("p", "v2", "b").of("k\nv1", ETAG, SEEN)
    second = ObjectIds("p", "v1\nv2", "b").of("k", ETAG, SEEN)

    assert first != second
    assert operation_id("b", "k\nv1", "v2") != operation_id("b", "k", "v1\nv2")
    assert operation_id("a", "bc") != operation_id("ab", "c")
    assert operation_id("a,1:b") != operation_id("a", "b")


def test_a_key_that_comes_back_is_another_operation() -> None:
    """O-IDEM-02"""
    ids = ObjectIds("digests", "v1", "exports")
    first = ids.of("exports/daily.json", ETAG, datetime(2026, 1, 1, tzinfo=UTC))
    again = ids.of("exports/daily.json", ETAG, datetime(2026, 6, 2, tzinfo=UTC))

    assert first != again


def test_keys_that_decode_alike_have_ids_of_their_own() -> None:
    """O-KEY-02, O-KEY-03, and two normal forms of one letter."""
    keys = ["q/a+b", "q/a b", "q/a%20b", "q/a%2Bb", "q//a b", "/q/a b", "q/\u00f6", "q/o\u0308"]
    ids = ObjectIds("p", "v", "b")

    assert len({ids.of(key, ETAG, SEEN) for key in keys}) == len(keys)


def unframed(framed: bytes) -> list[str]:
    """The parts that were framed: reading them back shows that nothing is ambiguous."""
    parts = []
    while framed:
        length, _, rest = framed.partition(b":")
        parts.append(rest[: int(length)].decode())
        assert rest[int(length) : int(length) + 1] == b","
        framed = rest[int(length) + 1 :]
    return parts


@given(st.lists(text))
def test_framed_parts_can_be_read_back(parts: list[str]) -> None:
    assert unframed("".join(map(frame, parts)).encode()) == parts


@given(st.lists(text, max_size=4), st.lists(text, max_size=4))
def test_ids_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    assert (operation_id(*one) == operation_id(*other)) == (one == other)


@given(text, text, text, text, text)
def test_shared_hashing_gives_the_same_ids(
    policy: str, version: str, bucket: str, key: str, etag: str
) -> None:
    whole = operation_id("object", policy, version, bucket, key, object_identity(etag, SEEN))

    assert ObjectIds(policy, version, bucket).of(key, etag, SEEN).hex() == whole


def test_hashing_one_key_leaves_the_next_one_alone() -> None:
    ids = ObjectIds("p", "v", "b")
    before = ids.of("a", ETAG, SEEN)
    ids.of("b", ETAG, SEEN)

    assert ids.of("a", ETAG, SEEN) == before


@pytest.mark.parametrize(
    "moment",
    [
        SEEN,
        SEEN + timedelta(microseconds=999_999),
        SEEN.astimezone(timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_an_instant_is_cut_to_the_second_in_utc(moment: datetime) -> None:
    assert instant(moment) == "2026-06-07T02:00:00Z"
