"""The two things S3-compatible listings disagree about: order, and what a plus is."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.adapters.objects.s3.dialect import (
    Dialect,
    Order,
    Plus,
    octets,
    readable,
    sendable,
)
from bestbefore.adapters.objects.s3.stores import known
from bestbefore.domain.selection import impossible

KEYS = st.text(st.sampled_from("a/-.~\u00e9\uffff\U0001f600"), min_size=1, max_size=6)


@given(st.lists(KEYS, unique=True))
def test_byte_order_is_the_order_of_utf_8(keys):
    assert sorted(keys, key=Order.BYTES.rank) == sorted(keys, key=str.encode)


def test_tree_order_keeps_folders_together():
    keys = ["f-1", "f/x", "f", "f.1", "f/x/y"]
    assert sorted(keys, key=Order.TREE.rank) == ["f", "f/x", "f/x/y", "f-1", "f.1"]


@pytest.mark.parametrize("order", Order)
@given(st.lists(KEYS, unique=True))
def test_what_is_sorted_is_ascending_and_its_reverse_is_not(order, keys):
    ordered = sorted(keys, key=order.rank)
    assert order.ascending(ordered)
    assert not order.ascending([*ordered, "a", "a"])
    if len(keys) > 1:
        assert not order.ascending(ordered[::-1])


@pytest.mark.parametrize(
    ("text", "blank", "plus"),
    [
        ("a+b", "a b", "a+b"),
        ("a%2Bb", "a+b", "a+b"),
        ("a%20b", "a b", "a b"),
        ("%2520", "%20", "%20"),
    ],
)
def test_texts_are_decoded_exactly_once(text, blank, plus):
    assert Plus.BLANK.decode(text) == blank
    assert Plus.PLUS.decode(text) == plus


BYTES = st.binary(min_size=1, max_size=6)


@given(BYTES, st.sampled_from(Plus))
def test_every_byte_survives_decoding_and_sending(raw, plus):
    key = plus.decode(quote(raw, safe=""))
    assert octets(key) == raw
    sent = sendable(key)
    assert (sent if isinstance(sent, bytes) else sent.encode()) == raw
    assert isinstance(sent, str) == (impossible(key) is None)
    assert readable(key).encode()


@given(st.lists(BYTES, unique=True))
def test_byte_order_holds_for_what_is_not_utf_8(raws):
    keys = [raw.decode(errors="surrogateescape") for raw in raws]
    assert [octets(key) for key in sorted(keys, key=Order.BYTES.rank)] == sorted(raws)
    assert Order.BYTES.ascending(sorted(keys, key=Order.BYTES.rank))


@pytest.mark.parametrize(
    ("texts", "meaning"),
    [
        (["a+b", "c%2Bd"], Plus.BLANK),
        (["a+b", "c%20d"], Plus.PLUS),
        (["a+b"], None),
        (["c%20d"], None),
        (["a+b", "c%20d", "e%2Bf"], None),
    ],
)
def test_a_page_tells_what_a_plus_means_only_if_it_shows_the_other_one(texts, meaning):
    assert Dialect().plus_in(texts) is meaning


def test_what_a_plus_means_is_remembered():
    dialect = Dialect()
    dialect.plus_in(["a+b", "c%2Bd"])
    assert dialect.plus_in(["a+b"]) is Plus.BLANK


def test_seaweed_says_who_it_is():
    dialect = Dialect()
    dialect.expect(known("127.0.0.1", "nginx"))
    assert dialect.order is Order.BYTES
    dialect.expect(known("127.0.0.1", "SeaweedFS 8000GB 4.48"))
    assert dialect.order is Order.TREE
