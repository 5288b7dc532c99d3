"""What is special about this adapter: statuses, conditions, and paths that cannot be trusted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from reference import Reference, serving

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import KeyRange, StoreError, Target
from bestbefore.ports.stores import Store
from bestbefore_http_store import connect

EVERYTHING = KeyRange(None, None)


@pytest.fixture
def reference() -> Iterator[Reference]:
    with serving(Reference(containers={"builds": {}})) as reference:
        yield reference


@pytest.fixture
def store(reference: Reference) -> Iterator[Store]:
    store = connect({"url": reference.url})
    yield store
    store.close()


def targets(store: Store) -> list[Target]:
    items = store.lister.page("builds", "", EVERYTHING).items
    return [Target(item.key, item.etag, item.last_modified) for item in items]


def test_a_proven_condition_costs_one_call_per_object(reference: Reference, store: Store) -> None:
    for key in ("a", "b", "c"):
        reference.put("builds", key, b"x")
    seen = targets(store)
    reference.calls.clear()

    assert list(store.deleter.delete("builds", seen)) == [Outcome.DELETED] * 3

    assert [method for method, _ in reference.calls] == ["DELETE"] * 4  # the first one asks


def test_without_a_proof_a_look_comes_before_each_delete(
    reference: Reference, store: Store
) -> None:
    reference.ignores_conditions = True
    reference.put("builds", "a", b"x")
    seen = targets(store)
    reference.put("builds", "a", b"another")
    reference.calls.clear()

    assert list(store.deleter.delete("builds", seen)) == [Outcome.CHANGED]

    assert ("DELETE", "/builds/a") not in reference.calls
    assert reference.keys("builds") == {"a"}


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (401, {}, (FailureClass.CREDENTIALS, None)),
        (403, {}, (FailureClass.PERMISSION, None)),
        (405, {}, (FailureClass.MALFORMED, None)),
        (429, {"Retry-After": "7"}, (FailureClass.THROTTLED, timedelta(seconds=7))),
        (502, {}, (FailureClass.TRANSIENT, None)),
        (503, {"Retry-After": "7"}, (FailureClass.TRANSIENT, timedelta(seconds=7))),
    ],
)
def test_a_refusal_has_its_class_and_names_the_object(
    reference: Reference,
    store: Store,
    status: int,
    headers: dict[str, str],
    expected: tuple[FailureClass, timedelta | None],
) -> None:
    reference.put("builds", "a/b", b"x")
    seen = targets(store)
    store.deleter.delete("builds", [seen[0]._replace(key="nothing")])
    reference.refuse = [(status, headers)]

    (result,) = store.deleter.delete("builds", seen)

    assert isinstance(result, Failure)
    assert (result.failure_class, result.retry_after) == expected
    assert f"DELETE {reference.url}/builds/a/b: {status}" in result.error


def test_a_redirect_is_another_place_and_is_not_followed(
    reference: Reference, store: Store
) -> None:
    reference.refuse = [(301, {"Location": reference.url})]

    with pytest.raises(StoreError) as raised:
        store.lister.page("builds", "", EVERYTHING)

    assert raised.value.failure.failure_class is FailureClass.MALFORMED
    assert raised.value.failure.whole_source


def test_a_server_that_is_gone_is_transient_and_no_secret_is_told() -> None:
    store = connect({"url": "http://127.0.0.1:9", "token": "s3cret", "timeout": 5})

    with pytest.raises(StoreError) as raised:
        store.lister.describe("builds")

    assert raised.value.failure.failure_class is FailureClass.TRANSIENT
    assert "GET http://127.0.0.1:9/builds" in str(raised.value)
    assert "s3cret" not in f"{raised.value!r} {raised.value.__cause__!r}"
    store.close()


def test_a_key_whose_path_could_mean_another_one_is_never_sent(
    reference: Reference, store: Store
) -> None:
    reference.put("builds", "b", b"x")
    (seen,) = targets(store)
    unsafe = ["a/../b", "./b", "/b", "a//b", "b/"]
    reference.calls.clear()

    results = store.deleter.delete("builds", [seen._replace(key=key) for key in unsafe])

    assert [isinstance(result, Failure) for result in results] == [True] * len(unsafe)
    assert reference.keys("builds") == {"b"}
    assert all("bestbefore-probe" in path for _, path in reference.calls)


def test_the_date_of_the_server_is_its_clock(store: Store) -> None:
    found = store.lister.describe("builds").server_time

    assert found is not None
    assert abs(found - datetime.now(UTC)) < timedelta(seconds=10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "expected url, found none"),
        ({"url": "ftp://x"}, "url: expected http:// or https://"),
        ({"url": "http://me:s3cret@x"}, "without user, password or query"),
        ({"url": "http://x", "tokne": "s3cret"}, "unknown key tokne; there are url, token"),
        ({"url": "http://x", "token": "s3cret\n"}, "token: expected printable ASCII"),
        ({"url": "http://x", "timeout": "5"}, "timeout: expected seconds"),
        ({"url": "http://x", "timeout": 0}, "timeout: expected seconds, at most 300"),
        ({"url": "http://x", "connections": 65}, "connections: expected a whole number"),
    ],
)
def test_options_that_cannot_be_used_are_refused_without_a_secret(
    options: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        connect(options)

    assert "s3cret" not in str(raised.value)
