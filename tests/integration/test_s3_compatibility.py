"""What an endpoint does not do is found out, remembered, and found out again in time.

``process()`` is the adapter as one process has it: only the memory outlives it.
"""

from collections.abc import Callable
from datetime import timedelta
from itertools import chain

import pytest

from bestbefore.adapters.objects.s3.stores import KnownStore, stores
from bestbefore.adapters.objects.s3.traits import KEPT, TRUSTED
from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import StoreError, Target
from support.clock import ManualClock
from support.faults import EMPTY, FaultyS3, error
from support.s3 import DictMemory, connected

Process = Callable[[], ObjectWorld]
LATER = timedelta(minutes=1)


@pytest.fixture
def memory() -> DictMemory:
    return DictMemory()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def process(faulty: FaultyS3, memory: DictMemory, clock: ManualClock) -> Process:
    return lambda: connected(faulty, "bucket", memory=memory, clock=clock)


def fill(faulty: FaultyS3, n: int, start: int = 0) -> list[Target]:
    keys = [f"k/{number:04d}" for number in range(start, start + n)]
    stored = [faulty.put("bucket", key) for key in keys]
    return [Target(key, one.etag, one.modified) for key, one in zip(keys, stored, strict=True)]


def sent(faulty: FaultyS3, operation: str) -> int:
    """Requests for *operation*, probes included; from now on counted anew."""
    n = sum(request.operation == operation for request in faulty.requests)
    faulty.requests.clear()
    return n


def codes(store: ObjectWorld) -> dict[str, str]:
    """What `check` says, by code."""
    return {one.code: one.message for one in store.deleter.check("bucket", "k/")}


NO_MULTI_DELETE = [
    pytest.param(error(501, "NotImplemented"), id="501"),
    pytest.param(error(405, "MethodNotAllowed"), id="405"),
    pytest.param(error(400, "InvalidArgument", message="Cannot create buckets"), id="GCS"),
    pytest.param(error(404, "404"), id="a proxy that knows no such path"),
    pytest.param(error(400, "BadRequest"), id="a code nobody knows"),
    pytest.param(error(400, "MissingContentMD5"), id="wants Content-MD5 and then refuses it"),
]


@pytest.mark.parametrize("answer", NO_MULTI_DELETE)
def test_a_store_without_multi_delete_gets_single_deletes_and_no_process_asks_twice(
    process: Process, faulty: FaultyS3, answer
) -> None:
    faulty.multi_delete = answer
    assert set(process().delete(fill(faulty, 40))) == {Outcome.DELETED}
    md5 = b"MD5" in answer.body  # sent again with it
    assert sent(faulty, "DeleteObjects") == (4 if md5 else 2), "with a condition, and without"

    second = process()
    assert set(second.delete(fill(faulty, 40))) == {Outcome.DELETED}

    assert sent(faulty, "DeleteObjects") == 0
    assert "; learnt 2026-07-01T02:00:00Z" in codes(second)["multi-delete-missing"]
    assert faulty.keys("bucket") == set()


@pytest.mark.parametrize("answer", NO_MULTI_DELETE)
def test_without_multi_delete_what_was_overwritten_stays(
    process: Process, faulty: FaultyS3, answer
) -> None:
    faulty.multi_delete = answer
    (target,) = fill(faulty, 1)
    faulty.put("bucket", target.key, b"somebody's new one")

    assert list(process().delete([target])) == [Outcome.CHANGED]
    assert faulty.keys("bucket") == {target.key}


@pytest.mark.parametrize("code", ["MissingContentMD5", "InvalidRequest"])
def test_a_store_that_wants_content_md5_gets_it_from_then_on(
    process: Process, faulty: FaultyS3, code: str
) -> None:
    faulty.wants_md5 = code
    first = process()
    assert set(first.delete(fill(faulty, 5))) == {Outcome.DELETED}
    assert sent(faulty, "DeleteObjects") == 1 + 2 + 1, "refused, proven, deleted"

    second = process()
    assert set(second.delete(fill(faulty, 5))) == {Outcome.DELETED}

    assert all("content-md5" in request.headers for request in faulty.requests
               if request.operation == "DeleteObjects")  # fmt: skip
    assert sent(faulty, "DeleteObjects") == 2 + 1
    assert "is sent with DeleteObjects; learnt" in codes(second)["content-md5"]


def test_a_store_that_does_not_ask_for_content_md5_is_not_sent_it(
    process: Process, faulty: FaultyS3
) -> None:
    process().delete(fill(faulty, 5))
    assert not any("content-md5" in request.headers for request in faulty.requests)


def test_a_store_that_begins_to_want_content_md5_is_looked_at_before_anything_is_sent_again(
    process: Process, faulty: FaultyS3
) -> None:
    """Where conditions are ignored, nothing but the look protects what was written meanwhile."""
    faulty.honours.clear()
    store = process()
    store.delete(fill(faulty, 2))
    targets = fill(faulty, 2)
    faulty.wants_md5 = "MissingContentMD5"

    def overwritten(_) -> object:
        faulty.put("bucket", targets[0].key, b"somebody's new one")
        return error(400, "MissingContentMD5")

    faulty.fail("DeleteObjects", overwritten)

    assert list(store.delete(targets)) == [Outcome.CHANGED, Outcome.DELETED]
    assert faulty.keys("bucket") == {targets[0].key}


@pytest.mark.parametrize("most", [100, 1])
def test_a_limit_on_keys_is_found_by_halving_and_kept(
    process: Process, faulty: FaultyS3, most: int
) -> None:
    faulty.most_keys = most
    n = 1_000 if most > 1 else 60
    assert set(process().delete(fill(faulty, n))) == {Outcome.DELETED}
    assert sent(faulty, "DeleteObjects") < (60 if most > 1 else 150)

    second = process()
    assert set(second.delete(fill(faulty, n))) == {Outcome.DELETED}

    sizes = [len(request.keys) for request in faulty.asked("DeleteObjects")]
    assert most / 2 <= max(sizes) <= most
    assert sum(sizes) == n, "nothing was refused any more"
    assert f"at most {max(sizes)} keys; learnt" in codes(second)["batch-limit"]


def test_one_odd_refusal_is_no_limit(process: Process, faulty: FaultyS3) -> None:
    store = process()
    faulty.fail("DeleteObjects", error(400, "MalformedXML"))
    assert set(store.delete(fill(faulty, 1_000))) == {Outcome.DELETED}
    assert set(store.delete(fill(faulty, 1_000))) == {Outcome.DELETED}
    faulty.fail("DeleteObjects", error(400, "MalformedXML"))
    assert set(store.delete(fill(faulty, 1_000))) == {Outcome.DELETED}

    assert "at most 1,000 keys" in codes(store)["batch-limit"]


def test_a_key_that_spoils_every_batch_is_no_limit(process: Process, faulty: FaultyS3) -> None:
    store = process()
    for start in (0, 100):
        targets = fill(faulty, 100, start)
        poison = targets[41].key
        faulty.fail(
            "DeleteObjects",
            error(400, "MalformedXML"),
            times=99,
            when=lambda request, poison=poison: poison in request.keys,
        )
        assert set(store.delete(targets)) == {Outcome.DELETED}

    assert "at most 1,000 keys" in codes(store)["batch-limit"]
    assert "multi-delete-missing" not in codes(store)


def test_a_listing_that_cannot_be_encoded_is_asked_for_as_it_is(
    process: Process, faulty: FaultyS3
) -> None:
    faulty.url_encoding = False
    keys = {"k/a+b", "k/a b", "k/a%20b", "k/größe", "k/<&>"}
    for key in keys:
        faulty.put("bucket", key)
    first = process()
    assert first.keys() == keys
    assert sent(faulty, "ListObjectsV2") == 2

    second = process()
    assert second.keys() == keys

    assert sent(faulty, "ListObjectsV2") == 1
    assert "cannot be url-encoded here; learnt" in codes(second)["listing-encoding"]
    assert set(second.delete(second.targets())) == {Outcome.DELETED}
    assert faulty.keys("bucket") == set()


def test_a_key_that_such_a_listing_cannot_carry_fails_its_page_and_nothing_goes(
    process: Process, faulty: FaultyS3
) -> None:
    faulty.url_encoding = False
    faulty.put("bucket", "k/a")
    faulty.put("bucket", "k/\x07")
    with pytest.raises(StoreError, match="not well-formed XML"):
        process().listed()


def test_a_listing_that_fails_either_way_teaches_nothing(
    process: Process, faulty: FaultyS3, memory: DictMemory
) -> None:
    faulty.put("bucket", "k/a")
    faulty.fail("ListObjectsV2", error(400, "InvalidArgument"), times=2)
    with pytest.raises(StoreError):
        process().listed()
    assert memory.learnt == {}


def test_a_bucket_elsewhere_is_one_malformed_failure_that_names_its_region_o_s3err_02(
    process: Process, faulty: FaultyS3
) -> None:
    targets = fill(faulty, 100)
    faulty.region = "eu-west-1"
    store = process()

    results = store.delete(targets)

    failures = [result for result in results if isinstance(result, Failure)]
    assert len(failures) == 100
    assert {one.failure_class for one in failures} == {FailureClass.MALFORMED}
    assert all(one.whole_source for one in failures)
    assert "the bucket is in the region eu-west-1" in failures[0].error
    assert len(faulty.requests) <= 4, "it is not followed, and not asked a hundred times"
    with pytest.raises(StoreError, match="eu-west-1"):
        store.listed()


@pytest.mark.parametrize("honours", [{"DeleteObjects"}, {"DeleteObject"}, set()])
def test_missing_keys_that_are_412_are_absent_and_others_changed(
    process: Process, faulty: FaultyS3, honours: set[str]
) -> None:
    faulty.missing, faulty.honours = 412, honours
    gone, changed, same = fill(faulty, 3)
    del faulty.objects["bucket", gone.key]
    faulty.put("bucket", changed.key, b"somebody's new one")

    for multi_delete in (None, error(501, "NotImplemented")):
        faulty.multi_delete = multi_delete
        faulty.put("bucket", same.key)
        outcomes = process().delete([gone, changed, same])
        assert list(outcomes) == [Outcome.ABSENT, Outcome.CHANGED, Outcome.DELETED]


# What is believed, and for how long.


def test_that_conditions_are_honoured_is_proven_by_every_process_and_every_hour(
    process: Process, faulty: FaultyS3, memory: DictMemory, clock: ManualClock
) -> None:
    first = process()
    first.deleter.check("bucket", "k/")
    assert memory.learnt == {}, "what deletes rely on is not handed on"
    faulty.honours.clear()  # the store was exchanged, and says nothing about it

    (target,) = fill(faulty, 1)
    faulty.put("bucket", target.key, b"somebody's new one")
    assert list(process().delete([target])) == [Outcome.CHANGED]

    clock.step(TRUSTED)
    assert list(first.delete([target])) == [Outcome.CHANGED]
    assert faulty.keys("bucket") == {target.key}


def test_that_conditions_are_ignored_is_kept_and_asked_again_after_a_week(
    process: Process, faulty: FaultyS3, clock: ManualClock
) -> None:
    faulty.honours.clear()
    process().delete(fill(faulty, 1))
    clock.step(KEPT - LATER)
    long_lived = process()
    faulty.requests.clear()
    long_lived.delete(fill(faulty, 1))
    assert [request.operation for request in faulty.requests] == ["HeadObject", "DeleteObjects"]
    faulty.honours = {"DeleteObjects", "DeleteObject"}

    clock.step(LATER)

    for store in (process(), long_lived):
        faulty.requests.clear()
        store.delete(fill(faulty, 1))
        sent_ = [request.operation for request in faulty.requests]
        assert sent_ == ["DeleteObjects"] * 3, "proven anew, and no look any more"


def test_check_asks_anew_and_says_since_when_it_is_known(
    process: Process, faulty: FaultyS3, clock: ManualClock
) -> None:
    faulty.honours.clear()
    process().delete(fill(faulty, 1))
    clock.step(timedelta(days=1))
    multi, *_ = process().deleter.check("bucket", "k/")
    assert multi.code == "conditions-ignored"
    assert multi.message.endswith("; learnt 2026-07-01T02:00:00Z")

    faulty.fail("DeleteObjects", error(403, "AccessDenied"), when=lambda _: True)
    found = codes(process())
    assert "DeleteObjects could not be probed" in found["delete-unproven"], "rights may have gone"

    faulty.honours = {"DeleteObjects", "DeleteObject"}
    assert "conditions-honoured" in codes(process())
    faulty.requests.clear()
    process().delete(fill(faulty, 1))
    assert not faulty.asked("HeadObject"), "what check found out holds for the others, too"


def test_a_store_that_calls_itself_something_else_is_asked_again(
    process: Process, faulty: FaultyS3
) -> None:
    faulty.honours.clear()
    faulty.wants_md5 = "MissingContentMD5"
    faulty.server = "OldStore/1.0"
    store = process()
    store.listed()
    assert "conditions-ignored" in codes(store)

    faulty.honours = {"DeleteObjects", "DeleteObject"}
    faulty.wants_md5 = None
    faulty.server = "OldStore/2.0"
    for one in (process(), store):
        one.listed()  # the first answer says who it is
        found = codes(one)
        assert "conditions-honoured" in found
        assert "not sent" in found["content-md5"]


@pytest.mark.parametrize("answer", [error(403, "AccessDenied"), error(500, "InternalError"), EMPTY])
def test_a_denied_or_failed_probe_is_not_remembered(
    process: Process, faulty: FaultyS3, memory: DictMemory, answer
) -> None:
    for call in ("DeleteObjects", "DeleteObject"):
        faulty.fail(call, answer if answer is not EMPTY else error(503, "ServiceUnavailable"),
                    times=99, when=lambda _: True)  # fmt: skip
    assert "delete-unproven" in codes(process())
    assert memory.learnt == {}


def test_what_a_key_is_refused_for_is_not_what_the_endpoint_is_refused_for(
    process: Process, faulty: FaultyS3, memory: DictMemory
) -> None:
    targets = fill(faulty, 4)
    for target in targets:
        faulty.refuse(target.key, "InvalidArgument")
    results = process().delete(targets)
    assert {one.failure_class for one in results if isinstance(one, Failure)} == {
        FailureClass.MALFORMED
    }
    assert memory.learnt == {}


def test_stores_with_known_habits_are_met_with_them_at_once(
    process: Process, faulty: FaultyS3
) -> None:
    faulty.server = "MinIO"
    faulty.wants_md5 = "MissingContentMD5"
    store = process()
    store.listed()
    faulty.requests.clear()

    assert set(store.delete(fill(faulty, 3))) == {Outcome.DELETED}

    assert sent(faulty, "DeleteObjects") == 3, "no request was refused"
    assert codes(store)["store-looks-like"].startswith("it looks like MinIO: ignored If-Match")


def test_no_guess_says_that_conditions_are_honoured() -> None:
    """A guess may only make a request smaller or more careful."""
    allowed = {"name", "notes", "sources", "servers", "endpoints", "tried",
               "content_md5", "batch_limit", "tree_order"}  # fmt: skip
    assert set(KnownStore.__dataclass_fields__) == allowed
    assert len({store.name for store in stores()}) == len(stores())
    for store in stores():
        assert store.servers or store.endpoints
        assert store.sources
        assert all(source.startswith("https://") for source in store.sources)
        assert store.batch_limit is None or 1 <= store.batch_limit <= 1_000
    ends = list(chain.from_iterable(store.endpoints for store in stores()))
    assert len(ends) == len(set(ends))
