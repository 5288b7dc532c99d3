"""Listings and looks against a server that has its ways."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.adapters.objects.s3 import S3Settings, connect
from bestbefore.contracts.objects import EVERYTHING, ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.selection import Listed, impossible
from bestbefore.ports.objects import KeyRange, Page, StoreError
from support.faults import (
    EMPTY,
    Answer,
    FaultyS3,
    error,
    internal_error,
    redirect,
    slow_down,
)
from support.s3 import NOW, FrozenClock, connected

ODD = {"q/a+b", "q/a b", "q/a%20b", "q/a%2Bb", "q/run_dt%3D2026-01-01%252012%253A30"}


@pytest.fixture
def store(faulty: FaultyS3) -> ObjectWorld:
    return connected(faulty, "bucket")


def fill(faulty: FaultyS3, keys: set[str]) -> None:
    for key in keys:
        faulty.put("bucket", key)


@pytest.mark.parametrize("page_size", [1, 999, 1_001])
def test_o_list_01_every_page_is_read_while_objects_are_deleted(store, faulty, page_size):
    """2,500 objects, or 250 one by one; what a page showed is gone before the next is asked for."""
    faulty.page_size = page_size
    count = 250 if page_size == 1 else 2_500
    fill(faulty, {f"p/{n:05d}" for n in range(count)})
    rest: KeyRange | None = EVERYTHING
    seen: list[str] = []
    while rest is not None:
        page = store.lister.page("bucket", "p/", rest)
        seen += [item.key for item in page.items]
        for item in page.items:
            del faulty.objects["bucket", item.key]
        rest = page.rest
    assert len(seen) == len(set(seen)) == count
    assert faulty.keys("bucket") == set()


@pytest.mark.parametrize("plus", ["form", "percent", "strict"])
def test_o_key_02_plus_blank_and_percent_are_different_keys(store, faulty, plus):
    faulty.plus = plus
    fill(faulty, ODD)
    assert store.keys("q/") == ODD


@pytest.mark.parametrize("plus", ["form", "percent"])
@pytest.mark.parametrize("key", ["q/a+b", "q/a b"])
def test_o_key_02_a_lonely_plus_or_blank_is_told_by_asking(store, faulty, plus, key):
    faulty.plus = plus
    fill(faulty, {key})
    assert store.keys() == {key}
    assert store.keys() == {key}
    assert len(faulty.asked("ListObjectsV2")) <= 4  # what was learnt is remembered


def test_o_key_02_a_plus_that_is_gone_before_it_is_told_fails_the_page(store, faulty):
    fill(faulty, {"a b"})

    def and_gone(truth: Answer) -> Answer:
        faulty.objects.clear()
        return truth

    faulty.fail("ListObjectsV2", and_gone, after_effect=True)
    with pytest.raises(StoreError, match="cannot tell a plus from a blank"):
        store.listed()


def test_keys_of_every_kind_are_listed_to_the_byte(store, faulty):
    keys = {"\x01\x10", "a\nb", "a\rb", "/lead", "a//b", "..", "*", "é", "e\u0301", "\U0001f600"}
    keys |= {"\ufffe", "r>&<d/&amp;.json", "d/", "d", " ", "k" * 1_024}
    fill(faulty, keys)
    assert store.keys() == keys


def test_a_store_that_ignores_the_encoding_is_not_decoded(store, faulty):
    fill(faulty, {"a%2Bb"})
    faulty.fail(
        "ListObjectsV2",
        lambda truth: truth._replace(
            body=truth.body.replace(b"<EncodingType>url</EncodingType>", b"").replace(
                b"a%252Bb", b"a%2Bb"
            )
        ),
        after_effect=True,
    )
    assert store.keys() == {"a%2Bb"}


# A key that is not UTF-8: refused by `impossible`, and in nobody's way.

WILD = {"b\udcff", "b\udce9/x", "b\udcc3\udcc3+ %", "\udced\udcb3\udcbf"}
TAME = {
    "a",
    "b",
    "b/x",
    "bz",
    "b\u00e9",
    "b\u07ff",
    "b\uffff",
    "b\U0001f600",
    "c",
    "\ue000",
    "\ufffd",
}


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("plus", ["form", "percent", "strict"])
@pytest.mark.parametrize("page_size", [1, 2, 3, 1_000])
def test_keys_that_are_not_utf_8_are_listed_and_passed_by(store, faulty, page_size, plus, tree):
    """Each of them is the last of a page once; cursors travel as the ledger stores them."""
    faulty.page_size, faulty.plus = page_size, plus
    faulty.tree, faulty.server = tree, "SeaweedFS" if tree else "S3"
    fill(faulty, WILD | TAME)
    rest: KeyRange | None = EVERYTHING
    seen: list[str] = []
    while rest is not None:
        page = store.lister.page("bucket", "", rest)
        seen += [item.key for item in page.items]
        rest = page.rest and KeyRange(*json.loads(json.dumps(page.rest)))
    assert len(seen) == len(set(seen))
    assert set(seen) == WILD | TAME
    assert {key for key in seen if impossible(key)} == WILD


@pytest.mark.parametrize("plus", ["form", "percent"])
def test_a_plus_in_a_key_that_is_not_utf_8_is_told_by_asking(store, faulty, plus):
    faulty.plus = plus
    for key in ("\udcff a", "\udcff+a"):
        faulty.objects.clear()
        fill(faulty, {key})
        assert connected(faulty, "bucket").keys() == {key}


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("parts", [2, 8])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({f"p/\udcff{n}/{m:03d}" for n in range(5) for m in range(60)}, id="folders"),
        pytest.param({f"p/{chr(0xDC80 + n)}{m}" for n in range(128) for m in "ab"}, id="flat"),
        pytest.param({f"p/x\udcff{n:03d}" for n in range(200)} | {"p/x"}, id="one stem"),
    ],
)
def test_ranges_cover_keys_that_are_not_utf_8(store, faulty, keys, parts, tree):
    faulty.tree, faulty.server = tree, "SeaweedFS" if tree else "S3"
    faulty.page_size = 50
    fill(faulty, keys)
    ranges = store.lister.ranges("bucket", "p/", parts)
    assert len(faulty.requests) <= 40
    seen = [item.key for part in ranges for item in store.listed("p/", part)]
    assert len(seen) == len(set(seen))
    assert set(seen) == keys


def test_neighbours_of_a_key_that_is_not_utf_8_are_looked_at(store, faulty):
    keys = {f"n/{n:03d}" for n in range(40)}
    fill(faulty, keys | {"n/010\udcff"})
    looks = store.lister.look("bucket", sorted(keys))
    assert all(isinstance(look, Listed) for look in looks.values())
    assert set(looks) == keys


def test_an_error_about_a_prefix_that_is_not_utf_8_can_be_stored(store, faulty):
    faulty.fail("ListObjectsV2", error(403, "AccessDenied"))
    with pytest.raises(StoreError, match="AccessDenied") as raised:
        store.lister.page("bucket", "p\udcff/", EVERYTHING)
    assert raised.value.failure.error.encode().startswith(b"s3://bucket/p\\xff/")


def cut_off(truth: Answer) -> Answer:
    return truth._replace(body=truth.body[:-20])


@pytest.mark.parametrize(
    "answer",
    [EMPTY, cut_off, error(200, "InternalError"), Answer(200, b"<html/>"), internal_error()],
)
def test_an_answer_that_says_nothing_is_never_an_empty_bucket(store, faulty, answer):
    fill(faulty, {"a"})
    faulty.fail("ListObjectsV2", answer, after_effect=True)
    with pytest.raises(StoreError) as raised:
        store.listed()
    assert raised.value.failure.failure_class is FailureClass.TRANSIENT
    assert store.keys() == {"a"}


def test_a_store_that_repeats_itself_is_an_error_and_no_endless_loop(store, faulty):
    fill(faulty, {"a", "b"})
    faulty.page_size = 1
    answers: list[Answer] = []

    def the_first_one_again(truth: Answer) -> Answer:
        answers.append(truth)
        return answers[0]

    faulty.fail("ListObjectsV2", the_first_one_again, times=99, after_effect=True)
    first = store.lister.page("bucket", "", EVERYTHING)
    assert first.rest == KeyRange("a", None)
    with pytest.raises(StoreError, match="asked for what follows 'a', got 'a'"):
        store.lister.page("bucket", "", first.rest)


def test_empty_pages_are_followed_but_not_for_ever(store, faulty):
    fill(faulty, {"a", "b"})
    body = "<ListBucketResult><IsTruncated>true</IsTruncated>{}</ListBucketResult>"
    token = "<NextContinuationToken>{}</NextContinuationToken>"
    empty = Answer(200, body.format(token.format("a")).encode())
    faulty.fail("ListObjectsV2", empty)
    assert store.keys() == {"b"}  # what the store says comes after its token
    faulty.fail("ListObjectsV2", empty, times=2)
    with pytest.raises(StoreError, match="on and on"):
        store.listed()


def test_a_range_ends_where_it_says(store, faulty):
    fill(faulty, {"a", "b", "c", "d"})
    assert [item.key for item in store.listed("", KeyRange("a", "c"))] == ["b", "c"]
    assert [item.key for item in store.listed("", KeyRange("a", "bb"))] == ["b"]
    assert store.lister.page("bucket", "", KeyRange("d", None)) == Page([], None)


def folders() -> set[str]:
    """Names on which folder order and byte order differ."""
    ends = [
        "f",
        "f/g",
        "f/a/b",
        "f-x",
        "f.x",
        "f0",
        "f!",
        "f /z",
        "fa/b",
        "fa",
        "fa-b",
        "é/x",
        "é-1",
    ]
    return {f"p/{n}{end}" for n in range(30) for end in ends}


@pytest.mark.parametrize(
    ("server", "page_size"),
    [("SeaweedFS", 1), ("SeaweedFS", 7), ("SeaweedFS", 1_000), ("nginx", 1_000)],
)
def test_a_store_that_lists_folder_by_folder_loses_no_key(store, faulty, server, page_size):
    """SeaweedFS's order and its StartAfter, under its own name and behind a proxy."""
    faulty.tree, faulty.server = True, server
    faulty.page_size = page_size
    fill(faulty, folders())
    seen = [item.key for item in store.listed("p/")]
    assert len(seen) == len(set(seen))
    assert set(seen) == folders()


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 8, 64])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({f"p/x/y/{n % 7}/{n:05d}" for n in range(400)}, id="folders"),
        pytest.param({f"p/customer-{n:07d}.json" for n in range(0, 90_000, 271)}, id="numbers"),
        pytest.param({f"p/{n * 7919 % 1000:03d}" for n in range(400)}, id="flat"),
        pytest.param({"p/" + "a" * n for n in range(1, 300)}, id="each begins the next"),
        pytest.param(folders(), id="folder and byte order differ"),
        pytest.param({f"p/\U0010fffe{n:03d}" for n in range(200)}, id="beyond the guess"),
        pytest.param({f"p/a/{n:03d}" for n in range(200)} | {"p/a", "p/a/", "p/"}, id="markers"),
    ],
)
def test_ranges_cover_every_key_once_whatever_was_guessed(store, faulty, keys, parts, tree):
    faulty.tree, faulty.server = tree, "SeaweedFS" if tree else "S3"
    faulty.page_size = 50
    fill(faulty, keys)
    ranges = store.lister.ranges("bucket", "p/", parts)
    assert len(ranges) <= 2 * parts
    assert len(faulty.requests) <= 40
    seen = [item.key for part in ranges for item in store.listed("p/", part)]
    assert len(seen) == len(set(seen))
    assert set(seen) == keys


@pytest.mark.parametrize(
    "keys",
    [
        {f"p/x/y/{n % 7}/{n:05d}" for n in range(400)},
        {f"p/customer-{n:07d}.json" for n in range(0, 90_000, 271)},
    ],
)
def test_ranges_are_worth_having(store, faulty, keys):
    faulty.page_size = 50
    fill(faulty, keys)
    sizes = [len(store.listed("p/", part)) for part in store.lister.ranges("bucket", "p/", 8)]
    assert len(sizes) >= 6
    assert max(sizes) <= len(keys) / 3


def test_neighbours_are_looked_at_by_listing_and_lonely_keys_by_head(store, faulty):
    fill(faulty, {f"n/{n:04d}" for n in range(2_000)})
    neighbours = [f"n/{n:04d}" for n in range(500, 900)] + ["n/0600-gone"]
    looks = store.lister.look("bucket", neighbours)
    assert [key for key, look in looks.items() if look is None] == ["n/0600-gone"]
    assert len(faulty.requests) == 2
    faulty.requests.clear()
    lonely = [f"n/{n:04d}" for n in range(0, 2_000, 400)]
    assert all(isinstance(look, Listed) for look in store.lister.look("bucket", lonely).values())
    assert [request.operation for request in faulty.requests] == ["HeadObject"] * 5


def test_sparse_keys_cost_no_more_than_twice_their_heads(store, faulty):
    fill(faulty, {f"n/{n:05d}" for n in range(20_000)})
    faulty.page_size = 100
    sparse = [f"n/{n:05d}" for n in range(0, 20_000, 500)]
    looks = store.lister.look("bucket", sparse)
    assert set(looks) == set(sparse)
    assert all(isinstance(look, Listed) for look in looks.values())
    assert len(faulty.requests) <= 2 * len(sparse)


def test_a_look_is_right_in_folder_order_too(store, faulty):
    faulty.tree, faulty.server = True, "SeaweedFS"
    fill(faulty, folders())
    faulty.page_size = 37
    gone = {"p/0f/gone", "p/0f-gone", "p/7f/a/gone"}
    looks = store.lister.look("bucket", sorted(folders() | gone))
    assert {key for key, look in looks.items() if look is None} == gone
    assert set(looks) == folders() | gone


def test_a_key_that_cannot_be_looked_at_has_its_failure_and_its_neighbours_do_not(store, faulty):
    fill(faulty, {"a", "b", "c"})
    faulty.fail("HeadObject", Answer(403), when=lambda request: request.key == "b")
    looks = store.lister.look("bucket", ["a", "b", "c"])
    assert isinstance(looks["a"], Listed)
    assert isinstance(looks["c"], Listed)
    assert isinstance(looks["b"], Failure)
    assert looks["b"].failure_class is FailureClass.PERMISSION
    assert "s3://bucket/b" in looks["b"].error


def test_a_bare_403_that_is_an_expired_token_is_told_from_a_denied_key(store, faulty):
    faulty.fail("HeadObject", Answer(403))
    faulty.fail("ListObjectsV2", error(400, "ExpiredToken"))
    look = store.lister.look("bucket", ["a"])["a"]
    assert isinstance(look, Failure)
    assert look.failure_class is FailureClass.CREDENTIALS


def test_a_missing_bucket_is_not_a_bucket_full_of_absent_keys(store):
    with pytest.raises(StoreError, match="NoSuchBucket"):
        store.lister.look("no-such-bucket", ["a", "b"])


def test_an_outage_stops_a_long_look_early(store, faulty):
    faulty.fail("ListObjectsV2", internal_error(), times=99)
    faulty.fail("HeadObject", Answer(500), times=999)
    keys = [f"k{n}" for n in range(500)]
    looks = store.lister.look("bucket", keys)
    assert all(isinstance(looks[key], Failure) for key in keys)
    assert len(faulty.asked("HeadObject")) < 50


def test_a_throttled_look_asks_once_and_says_how_long_to_wait(store, faulty):
    faulty.fail("ListObjectsV2", slow_down(retry_after="60"), times=99)
    with pytest.raises(StoreError) as raised:
        store.lister.look("bucket", [f"k{n}" for n in range(500)])
    assert raised.value.failure.retry_after == timedelta(seconds=60)
    assert len(faulty.requests) == 1


@pytest.mark.parametrize("parts", [redirect(), error(400, "AuthorizationHeaderMalformed")])
def test_o_s3err_02_a_redirect_is_never_followed_and_condemns_the_bucket(store, faulty, parts):
    for operation in ("GetBucketVersioning", "ListObjectsV2", "HeadObject"):
        faulty.fail(operation, parts, times=99)
    for ask in (
        lambda: store.lister.describe("bucket"),
        lambda: store.lister.page("bucket", "", EVERYTHING),
        lambda: store.lister.ranges("bucket", "", 8),
    ):
        before = len(faulty.requests)
        with pytest.raises(StoreError) as raised:
            ask()
        assert raised.value.failure.failure_class is FailureClass.MALFORMED
        assert raised.value.failure.whole_source
        assert len(faulty.requests) == before + 1


def test_facts_hold_versioning_and_the_stores_clock(store, faulty):
    faulty.versioning = "Suspended"
    faulty.date = lambda: datetime(2026, 7, 1, 12, tzinfo=UTC)
    facts = store.lister.describe("bucket")
    assert (facts.versioning, facts.server_time) == ("Suspended", NOW + timedelta(hours=12))
    assert facts.endpoint == faulty.endpoint


def test_a_store_without_versioning_is_unversioned_if_its_bucket_is_there(store, faulty):
    faulty.fail("GetBucketVersioning", error(501, "NotImplemented"), times=2)
    assert store.lister.describe("bucket").versioning is None
    with pytest.raises(StoreError, match="NoSuchBucket"):
        store.lister.describe("no-such-bucket")


def test_throttling_says_how_long(store, faulty):
    faulty.fail("ListObjectsV2", slow_down(retry_after="120"))
    with pytest.raises(StoreError) as raised:
        store.listed()
    assert raised.value.failure.failure_class is FailureClass.THROTTLED
    assert raised.value.failure.retry_after == timedelta(seconds=120)
    assert len(faulty.requests) == 1  # the SDK repeats nothing


def test_a_store_that_never_answers_is_given_up_on(faulty):
    store = connected(faulty, "bucket", timeout=timedelta(milliseconds=200))
    with faulty.stall("ListObjectsV2"), pytest.raises(StoreError, match="no answer in time"):
        store.listed()


def test_a_store_that_is_not_there_is_transient():
    with FaultyS3() as gone:
        store = connected(gone, "bucket")
    with pytest.raises(StoreError, match="the connection failed") as raised:
        store.listed()
    assert raised.value.failure.failure_class is FailureClass.TRANSIENT


def test_no_credentials_are_shown():
    settings = S3Settings("http://user:hush@localhost:9/base", "region", "id", "hush")
    assert "hush" not in settings.__repr__().replace(settings.endpoint_url, "")
    assert connect(settings, FrozenClock()).endpoint == "http://localhost:9"
