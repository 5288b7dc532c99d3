"""Deletes against a server that has its ways."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import botocore.auth
import pytest

from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import Target
from support.faults import (
    EMPTY,
    OLD,
    Answer,
    FaultyS3,
    Request,
    error,
    internal_error,
    redirect,
    slow_down,
)
from support.s3 import NOW, connected

THOUSAND = [f"exports/{n:04d}.json" for n in range(1_000)]


@pytest.fixture
def store(faulty: FaultyS3) -> ObjectWorld:
    return connected(faulty, "bucket")


def put(faulty: FaultyS3, keys: Sequence[str]) -> list[Target]:
    """Objects under *keys*, as a listing has seen them."""
    stored = [(key, faulty.put("bucket", key, key.encode())) for key in keys]
    return [Target(key, one.etag, one.modified) for key, one in stored]


def tally(results: Sequence[Outcome | Failure]) -> Counter[str]:
    """How often each outcome or failure class occurs."""
    return Counter(
        str(result.failure_class if isinstance(result, Failure) else result) for result in results
    )


def only_failure(results: Sequence[Outcome | Failure]) -> Failure:
    (failure,) = [result for result in results if isinstance(result, Failure)]
    return failure


def times_sent(faulty: FaultyS3) -> Counter[str]:
    return Counter(key for request in faulty.asked("DeleteObjects") for key in request.keys)


def test_a_thousand_targets_are_one_request_with_a_condition_on_each(store, faulty):
    targets = put(faulty, THOUSAND)
    assert tally(store.delete(targets)) == {"deleted": 1_000}
    (request,) = faulty.asked("DeleteObjects")
    objects = ET.fromstring(request.body).findall("{*}Object")  # noqa: S314
    assert [element.findtext("{*}ETag") for element in objects] == [f'"{t.etag}"' for t in targets]
    assert b"Quiet" not in request.body
    assert {name for name in request.headers if name.startswith("x-amz-checksum")}


def test_o_key_01_a_control_character_goes_alone_and_its_neighbours_together(store, faulty):
    keys = ["exp/ok-1.json", "exp/\x10\x10foo.jpg", "exp/ok-2.json", "exp/\ufffe", "exp/\uffff"]
    targets = put(faulty, keys)
    assert tally(store.delete(targets)) == {"deleted": 5}
    assert faulty.keys("bucket") == set()
    (bulk,) = faulty.asked("DeleteObjects")
    assert b"\x10" not in bulk.body
    assert bulk.keys == ("exp/ok-1.json", "exp/ok-2.json")
    singles = faulty.asked("DeleteObject")
    assert "/bucket/exp/%10%10foo.jpg" in {request.path for request in singles}
    assert all(request.headers["if-match"] for request in singles)


def test_o_key_01_a_store_that_refuses_even_that_fails_one_key(store, faulty):
    targets = put(faulty, ["a", "\x10", "b"])
    faulty.fail("DeleteObject", error(400, "InvalidArgument"), times=9)
    results = store.delete(targets)
    assert tally(results) == {"deleted": 2, "malformed": 1}
    assert only_failure(results).error.startswith("s3://bucket/\x10: InvalidArgument (400)")


def test_o_key_02_plus_blank_and_percent_are_different_keys(store, faulty):
    targets = put(faulty, ["q/a+b", "q/run_dt%3D2026-01-01%252012%253A30"])
    put(faulty, ["q/a b", "q/a%20b", "q/a%2Bb"])
    assert tally(store.delete(targets)) == {"deleted": 2}
    assert faulty.keys("bucket") == {"q/a b", "q/a%20b", "q/a%2Bb"}


@pytest.mark.parametrize("tail", ["", "\x01"])
def test_o_key_03_leading_and_doubled_slashes_are_kept(store, faulty, tail):
    """*tail* forces the keys through the URL instead of the body."""
    targets = put(faulty, [key + tail for key in ("/exports/x", "exports//x", "//x", "a/../x")])
    put(faulty, ["exports/x" + tail, "x" + tail])
    assert tally(store.delete(targets)) == {"deleted": 4}
    assert faulty.keys("bucket") == {"exports/x" + tail, "x" + tail}
    if tail:
        paths = {request.path for request in faulty.asked("DeleteObject")}
        assert paths == {
            "/bucket//exports/x%01",
            "/bucket/exports//x%01",
            "/bucket///x%01",
            "/bucket/a/../x%01",
        }


@pytest.mark.parametrize("tail", ["", "\x01"])
def test_o_key_04_xml_meta_characters_are_only_characters(store, faulty, tail):
    keys = ["r>&<d/a<b.json", 'r>&<d/"q".json', "r>&<d/&amp;.json", "r>&<d/]]>", "r>&<d/\r\n"]
    targets = put(faulty, [key + tail for key in keys])
    put(faulty, ["r>&<d/&.json" + tail])
    assert tally(store.delete(targets)) == {"deleted": 5}
    assert faulty.keys("bucket") == {"r>&<d/&.json" + tail}


def test_o_key_05_a_folder_marker_is_an_object_like_any_other(store, faulty):
    targets = put(faulty, ["d/", "e/"])
    put(faulty, ["d/child.json", "d"])
    assert tally(store.delete(targets)) == {"deleted": 2}
    assert faulty.keys("bucket") == {"d/child.json", "d"}


def test_o_bulk_01_errors_inside_a_success_are_each_their_own(store, faulty):
    targets = put(faulty, ["k1", "k2", "k3", "k4", "k5"])
    for key in ("k2", "k4"):
        faulty.refuse(key, "AccessDenied")
    results = store.delete(targets)
    assert [isinstance(result, Failure) for result in results] == [False, True, False, True, False]
    assert tally(results) == {"deleted": 3, "permission": 2}
    assert "s3://bucket/k2: AccessDenied" in str(results[1])
    assert len(faulty.asked("DeleteObjects")) == 1


def test_o_bulk_02_one_transient_error_in_a_thousand_costs_only_that_one_again(store, faulty):
    targets = put(faulty, THOUSAND)
    faulty.refuse(THOUSAND[7], "InternalError", times=2)
    for _ in range(2):
        results = store.delete(targets)
        assert only_failure(results).failure_class is FailureClass.TRANSIENT
        targets = [
            t for t, result in zip(targets, results, strict=True) if result is not Outcome.DELETED
        ]
    assert list(store.delete(targets)) == [Outcome.DELETED]
    sent = times_sent(faulty)
    assert sent.pop(THOUSAND[7]) == 3
    assert set(sent.values()) == {1}


def test_o_bulk_04_nothing_to_delete_sends_nothing(store, faulty):
    assert list(store.delete([])) == []
    assert faulty.requests == []


def test_o_bulk_04_a_batch_that_a_look_filtered_out_sends_no_empty_bulk(store, faulty):
    faulty.honours.clear()
    targets = put(faulty, ["a", "b", "c"])
    faulty.objects.clear()
    assert list(store.delete(targets)) == [Outcome.ABSENT] * 3
    assert faulty.asked("DeleteObjects") == []


@pytest.mark.parametrize("honours", [{"DeleteObjects", "DeleteObject"}, set()])
@pytest.mark.parametrize("key", ["rep.csv", "rep\x01.csv"])
def test_o_race_01_what_was_overwritten_survives(store, faulty, honours, key):
    faulty.honours = honours
    targets = put(faulty, [key])
    faulty.put("bucket", key, b"B", NOW)
    assert list(store.delete(targets)) == [Outcome.CHANGED]
    assert faulty.objects["bucket", key].body == b"B"


@pytest.mark.parametrize("key", ["rep.csv", "rep\x01.csv"])
def test_o_race_01_an_identical_upload_is_another_object_where_only_a_look_decides(
    store, faulty, key
):
    faulty.honours.clear()
    targets = put(faulty, [key])
    faulty.put("bucket", key, key.encode(), NOW)
    assert list(store.delete(targets)) == [Outcome.CHANGED]


@pytest.mark.parametrize("missing", [404, 412])
@pytest.mark.parametrize("key", ["a", "\x01"])
def test_o_race_02_a_condition_on_what_is_gone_means_absent(store, faulty, missing, key):
    faulty.missing = missing
    targets = put(faulty, [key])
    faulty.objects.clear()
    assert list(store.delete(targets)) == [Outcome.ABSENT]


@pytest.mark.parametrize("key", ["a", "\x01"])
def test_o_race_02_a_412_on_what_did_not_change_is_tried_again(store, faulty, key):
    targets = put(faulty, [key])
    faulty.refuse(key, "PreconditionFailed", times=1)
    assert only_failure(store.delete(targets)).failure_class is FailureClass.TRANSIENT
    assert list(store.delete(targets)) == [Outcome.DELETED]


def test_o_race_02_a_412_that_cannot_be_looked_into_is_that_looks_failure(store, faulty):
    targets = put(faulty, ["a"])
    faulty.put("bucket", "a", b"B")
    faulty.fail("HeadObject", Answer(403))
    assert only_failure(store.delete(targets)).failure_class is FailureClass.PERMISSION


def test_a_key_the_answer_does_not_name_is_unknown_and_never_deleted(store, faulty):
    targets = put(faulty, ["a", "b", "c"])
    faulty.hidden.add("b")
    results = store.delete(targets)
    assert tally(results) == {"deleted": 2, "unknown": 1}
    assert "s3://bucket/b: " in only_failure(results).error


def test_an_error_with_an_empty_code_is_still_an_error(store, faulty):
    targets = put(faulty, ["a", "b"])
    faulty.refuse("b", "")
    assert tally(store.delete(targets)) == {"deleted": 1, "unknown": 1}


def test_a_key_that_is_both_deleted_and_refused_is_not_deleted(store, faulty):
    targets = put(faulty, ["a"])
    body = (
        b"<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>a</Key></Error></DeleteResult>"
    )
    faulty.fail("DeleteObjects", Answer(200, body))
    assert tally(store.delete(targets)) == {"unknown": 1}


def test_slow_down_for_one_key_is_throttling_of_that_key(store, faulty):
    targets = put(faulty, ["a", "b"])
    faulty.refuse("b", "SlowDown", times=1)
    assert tally(store.delete(targets)) == {"deleted": 1, "throttled": 1}


def cut_off(truth: Answer) -> Answer:
    return truth._replace(body=truth.body[:-30])


NOTHING_SAID = [EMPTY, cut_off, error(200, "InternalError"), Answer(200, b"<html/>")]


@pytest.mark.parametrize("answer", [*NOTHING_SAID, internal_error(), error(502, "BadGateway")])
def test_an_answer_that_says_nothing_deletes_nothing_and_charges_nobody_for_ever(
    store, faulty, answer: Answer | Callable[[Answer], Answer]
):
    targets = put(faulty, THOUSAND)
    faulty.fail("DeleteObjects", answer, times=3)
    assert tally(store.delete(targets)) == {"transient": 1_000}
    assert len(faulty.asked("DeleteObjects")) == 3  # the batch and its halves: an outage
    faulty.fail("DeleteObjects", answer)
    assert tally(store.delete(targets)) == {"deleted": 1_000}


@pytest.mark.parametrize("answer", [*NOTHING_SAID, internal_error()])
def test_objects_deleted_behind_a_failed_answer_are_found_absent(store, faulty, answer):
    targets = put(faulty, THOUSAND)
    faulty.fail("DeleteObjects", answer, after_effect=True)
    assert tally(store.delete(targets)) == {"absent": 1_000}


def holds(key: str) -> Callable[[Request], bool]:
    return lambda request: key in request.keys


@pytest.mark.parametrize("position", [0, 499, 500, 999])
def test_a_key_that_breaks_every_batch_is_found_and_charged_alone(store, faulty, position):
    targets = put(faulty, THOUSAND)
    faulty.fail("DeleteObjects", internal_error(), times=99, when=holds(THOUSAND[position]))
    results = store.delete(targets)
    assert tally(results) == {"deleted": 999, "transient": 1}
    assert isinstance(results[position], Failure)
    assert len(faulty.asked("DeleteObjects")) <= 1 + 2 * 10
    assert set(times_sent(faulty).values()) <= set(range(1, 12))


def test_a_key_that_no_body_can_carry_is_found_and_deleted_by_its_url(store, faulty):
    targets = put(faulty, THOUSAND)
    malformed = error(400, "MalformedXML")
    faulty.fail("DeleteObjects", malformed, times=99, when=holds(THOUSAND[123]))
    assert tally(store.delete(targets)) == {"deleted": 1_000}
    assert [request.key for request in faulty.asked("DeleteObject")] == [THOUSAND[123]]


def test_a_store_that_never_answers_costs_two_timeouts_and_no_more(faulty):
    store = connected(faulty, "bucket", timeout=timedelta(seconds=2))
    targets = put(faulty, THOUSAND)
    assert list(store.delete(put(faulty, ["first"]))) == [Outcome.DELETED]  # it did answer probes
    with faulty.stall("DeleteObjects"):
        results = store.delete(targets)
    assert tally(results) == {"transient": 1_000}
    assert [len(request.keys) for request in faulty.asked("DeleteObjects")] == [1, 1_000, 500]
    patient = connected(faulty, "bucket")
    assert tally(patient.delete(targets)) == {"deleted": 1_000}


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(seconds=120)),
        ("Wed, 01 Jul 2026 00:02:00 GMT", timedelta(seconds=120)),
        ("-5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("0", timedelta(0)),
        ("9999999999", timedelta(minutes=15)),
    ],
)
@pytest.mark.parametrize("status", [503, 429])
def test_o_retry_01_a_throttled_batch_waits_as_told_and_is_not_halved(
    store, faulty, status, header, wait
):
    targets = put(faulty, ["a", "b"])
    faulty.fail("DeleteObjects", slow_down(status, retry_after=header))
    results = store.delete(targets)
    assert tally(results) == {"throttled": 2}
    assert [result.retry_after for result in results] == [wait, wait]
    assert len(faulty.asked("DeleteObjects")) == 1


def test_retry_after_on_any_503_is_honoured_and_not_pestered(store, faulty):
    targets = put(faulty, ["a", "b"])
    faulty.fail("DeleteObjects", error(503, "ServiceUnavailable", retry_after="60"))
    results = store.delete(targets)
    assert tally(results) == {"transient": 2}
    assert {result.retry_after for result in results} == {timedelta(seconds=60)}
    assert len(faulty.asked("DeleteObjects")) == 1


@pytest.fixture
def signing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every signature is a second later than the one before, without anybody waiting."""
    moments = iter(NOW + timedelta(seconds=n) for n in range(60))
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: next(moments))


@pytest.mark.usefixtures("signing_clock")
def test_o_s3err_01_a_skewed_request_is_signed_anew_once(store, faulty):
    targets = put(faulty, ["a"])
    faulty.fail("DeleteObjects", error(403, "RequestTimeTooSkewed"))
    assert list(store.delete(targets)) == [Outcome.DELETED]
    first, second = faulty.asked("DeleteObjects")
    assert first.signed_at < second.signed_at
    assert first.headers["authorization"] != second.headers["authorization"]


def test_o_s3err_01_a_clock_that_stays_wrong_is_a_credentials_failure(store, faulty):
    targets = put(faulty, ["a", "b"])
    faulty.fail("DeleteObjects", error(403, "RequestTimeTooSkewed"), times=99)
    results = store.delete(targets)
    assert tally(results) == {"credentials": 2}
    assert "RequestTimeTooSkewed" in str(results[0])
    assert len(faulty.asked("DeleteObjects")) == 2


@pytest.mark.parametrize("key", ["a", "\x01"])
def test_o_s3err_02_a_redirect_is_one_failure_of_the_source_and_never_done(store, faulty, key):
    targets = put(faulty, [key])
    for operation in ("DeleteObjects", "DeleteObject", "HeadObject", "HeadBucket", "ListObjectsV2"):
        faulty.fail(operation, redirect(), times=99, when=lambda _: True)
    failure = only_failure(store.delete(targets))
    assert failure.failure_class is FailureClass.MALFORMED
    assert failure.whole_source
    assert len(faulty.requests) <= 4
    assert {request.operation for request in faulty.requests}.isdisjoint({"HeadBucket"})


@pytest.mark.parametrize("honours", [{"DeleteObjects", "DeleteObject"}, set()])
def test_a_bucket_that_is_gone_is_a_failure_of_the_source_not_a_thousand_absences(
    store, faulty, honours
):
    faulty.honours = honours
    targets = put(faulty, ["a", "b", "\x01"])
    faulty.objects.clear()
    faulty.buckets.clear()
    results = store.delete(targets)
    assert tally(results) == {"malformed": 3}
    assert all(isinstance(result, Failure) and result.whole_source for result in results)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_refused_credentials_are_not_halved(store, faulty, code):
    targets = put(faulty, ["a", "b"])
    faulty.fail("DeleteObjects", error(403, code), times=99)
    assert tally(store.delete(targets)) == {"credentials": 2}
    assert len(faulty.asked("DeleteObjects")) == 1


def test_a_denied_prefix_stops_nobody_else(store, faulty):
    faulty.denied.add("held/")
    targets = put(faulty, ["free/1", "held/1", "free/2", "held/\x01"])
    assert tally(store.delete(targets)) == {"deleted": 2, "permission": 2}
    assert faulty.keys("bucket") == {"held/1", "held/\x01"}


# Conditions are proven, and only then relied on.


def test_a_probe_is_sent_once_per_bucket_and_call_beside_the_first_key(store, faulty):
    for _ in range(3):
        store.delete(put(faulty, ["deep/folder/a", "deep/folder/\x01"]))
    probes = [
        request
        for request in faulty.requests
        if any(".bestbefore-probe-" in key for key in (request.key, *request.keys))
    ]
    # Twice each: under a condition, and to tell what a 404 means.
    assert [request.operation for request in probes] == [
        *("DeleteObjects", "DeleteObjects"),
        *("DeleteObject", "DeleteObject"),
    ]
    keys = [*probes[0].keys, *probes[1].keys, probes[2].key, probes[3].key]
    assert all(key.startswith("deep/folder/.bestbefore-probe-") for key in keys)
    assert len(set(keys)) == 4


@pytest.mark.parametrize("answer", [error(403, "AccessDenied"), internal_error(), EMPTY])
def test_a_probe_that_proves_nothing_fails_nothing_and_is_asked_again(store, faulty, answer):
    targets = put(faulty, ["a"])
    faulty.fail("DeleteObjects", answer, when=lambda _: True)
    assert list(store.delete(targets)) == [Outcome.DELETED]
    assert len(faulty.asked("HeadObject")) == 1  # a fresh look decided
    assert list(store.delete(put(faulty, ["b"]))) == [Outcome.DELETED]
    assert len(faulty.asked("HeadObject")) == 1  # the second probe proved it


@pytest.mark.parametrize("ignored", ["DeleteObjects", "DeleteObject"])
def test_multi_and_single_deletes_are_proven_apart(store, faulty, ignored):
    faulty.honours.discard(ignored)
    targets = put(faulty, ["a", "\x01"])
    assert tally(store.delete(targets)) == {"deleted": 2}
    looked = {request.key for request in faulty.asked("HeadObject")}
    assert looked == ({"a"} if ignored == "DeleteObjects" else {"\x01"})


@pytest.mark.parametrize(
    ("honours", "missing", "absent", "code"),
    [
        pytest.param(True, 404, 204, "conditions-honoured", id="AWS"),
        pytest.param(True, 412, 204, "conditions-honoured", id="412 proves it alone"),
        pytest.param(True, 412, 404, "conditions-honoured", id="412, though 404 without"),
        pytest.param(False, 404, 204, "conditions-ignored", id="MinIO"),
        pytest.param(False, 404, 404, "conditions-ignored", id="404 for every missing key"),
    ],
)
def test_a_404_proves_conditions_only_where_a_delete_without_one_succeeds(
    store, faulty, honours, missing, absent, code
):
    faulty.missing, faulty.absent = missing, absent
    if not honours:
        faulty.honours.clear()
    findings = store.deleter.check("bucket", "")
    assert [finding.code for finding in findings][:2] == [code, code]


@pytest.mark.parametrize("key", ["rep.csv", "rep\x01.csv"])
def test_what_was_overwritten_survives_a_store_that_says_404_to_any_missing_key(store, faulty, key):
    faulty.honours.clear()
    faulty.absent = 404
    targets = put(faulty, [key])
    faulty.put("bucket", key, b"B", NOW)
    assert list(store.delete(targets)) == [Outcome.CHANGED]
    assert faulty.objects["bucket", key].body == b"B"
    faulty.objects.clear()
    assert list(store.delete(targets)) == [Outcome.ABSENT]


def test_a_second_probe_that_fails_proves_nothing(store, faulty):
    bare = lambda request: not _conditional(request)  # noqa: E731
    for call in ("DeleteObjects", "DeleteObject"):
        faulty.fail(call, error(403, "AccessDenied"), when=bare)
    codes = [finding.code for finding in store.deleter.check("bucket", "")]
    assert codes[:2] == ["delete-unproven", "delete-unproven"]
    codes = [finding.code for finding in store.deleter.check("bucket", "")]
    assert codes[:2] == ["conditions-honoured", "conditions-honoured"]


def _conditional(request: Request) -> bool:
    return b"<ETag>" in request.body or "if-match" in request.headers


@pytest.mark.parametrize("honours", [{"DeleteObjects", "DeleteObject"}, set()])
def test_probes_leave_no_marker_in_a_versioned_bucket(store, faulty, honours):
    faulty.honours, faulty.versioning = honours, "Enabled"
    store.deleter.check("bucket", "")
    assert len([request for request in faulty.requests if "versionId" in request.query]) == 2
    assert faulty.markers == {}


# Versioning that was switched on after the plan.


@pytest.mark.parametrize("honours", [{"DeleteObjects", "DeleteObject"}, set()])
@pytest.mark.parametrize("key", ["a", "\x01"])
def test_a_delete_that_only_wrote_a_marker_deleted_nothing_and_stops_the_source(
    store, faulty, key, honours
):
    faulty.honours = honours
    targets = put(faulty, [key])
    faulty.versioning = "Enabled"
    failure = only_failure(store.delete(targets))
    assert failure.failure_class is FailureClass.MALFORMED
    assert failure.whole_source
    assert "versioning was switched on" in failure.error
    assert "only a delete marker was written, which stays" in failure.error
    assert list(faulty.markers.values()) == [key]  # ours to name, not ours to remove


def test_a_marker_without_an_id_is_a_marker_and_a_denied_one_is_none(store, faulty):
    targets = put(faulty, ["a", "b"])
    body = (
        b"<DeleteResult><Deleted><Key>a</Key><DeleteMarker>true</DeleteMarker></Deleted>"
        b"<Deleted><Key>b</Key><DeleteMarker>false</DeleteMarker></Deleted></DeleteResult>"
    )
    faulty.fail("DeleteObjects", Answer(200, body))
    assert tally(store.delete(targets)) == {"malformed": 1, "deleted": 1}


# Where only a look decides, it decides before everything that is sent again too.


def overwrites(faulty: FaultyS3, key: str, answer: Answer) -> Callable[[Answer], Answer]:
    """*answer*, and meanwhile *key*'s owner writes."""

    def meanwhile(_: Answer) -> Answer:
        faulty.put("bucket", key, b"B", NOW)
        return answer

    return meanwhile


def refuse_conditions(faulty: FaultyS3) -> None:
    for call in ("DeleteObjects", "DeleteObject"):
        faulty.fail(call, error(501, "NotImplemented"), times=99, when=_conditional)


def deny_probes(faulty: FaultyS3) -> None:
    """Probes prove nothing, and conditions are ignored."""
    faulty.honours.clear()
    for call in ("DeleteObjects", "DeleteObject"):
        faulty.fail(
            call,
            error(403, "AccessDenied"),
            times=99,
            when=lambda r: any(".bestbefore-probe-" in key for key in (r.key, *r.keys)),
        )


WITHOUT_CONDITIONS = [
    pytest.param(lambda faulty: faulty.honours.clear(), id="ignored"),
    pytest.param(refuse_conditions, id="refused"),
    pytest.param(deny_probes, id="unproven"),
]


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("position", [0, -1])
@pytest.mark.parametrize(
    "answer",
    [
        internal_error(),
        error(400, "MalformedXML"),
        EMPTY,
        error(403, "RequestTimeTooSkewed"),
    ],
)
@pytest.mark.parametrize("without", WITHOUT_CONDITIONS)
def test_what_is_written_between_a_failed_batch_and_the_next_survives(
    store, faulty, without, answer, position, count
):
    without(faulty)
    keys = [f"exports/{n:02d}" for n in range(count)]
    targets = put(faulty, keys)
    written = keys[position]
    faulty.fail("DeleteObjects", overwrites(faulty, written, answer))
    results = store.delete(targets)
    assert tally(results) == {"deleted": count - 1, "changed": 1}
    assert results[position] is Outcome.CHANGED
    assert faulty.keys("bucket") == {written}
    assert faulty.objects["bucket", written].body == b"B"


@pytest.mark.parametrize("without", WITHOUT_CONDITIONS)
def test_what_is_written_before_a_single_delete_is_signed_anew_survives(store, faulty, without):
    without(faulty)
    targets = put(faulty, ["\x01"])
    skewed = error(403, "RequestTimeTooSkewed")
    faulty.fail("DeleteObject", overwrites(faulty, "\x01", skewed))
    assert list(store.delete(targets)) == [Outcome.CHANGED]
    assert faulty.keys("bucket") == {"\x01"}


@pytest.mark.parametrize("key", ["a", "\x01"])
def test_o_s3err_01_a_clock_that_stays_wrong_is_asked_twice_without_conditions_too(
    store, faulty, key
):
    faulty.honours.clear()
    targets = put(faulty, [key])
    call = "DeleteObjects" if key == "a" else "DeleteObject"
    faulty.fail(call, error(403, "RequestTimeTooSkewed"), times=99)
    assert tally(store.delete(targets)) == {"credentials": 1}
    assert len(faulty.asked(call)) == 2


def test_an_outage_behind_a_look_is_charged_after_the_batch_and_its_halves(store, faulty):
    faulty.honours.clear()
    targets = put(faulty, THOUSAND)
    faulty.fail("DeleteObjects", internal_error(), times=99)
    assert tally(store.delete(targets)) == {"transient": 1_000}
    assert len(faulty.asked("DeleteObjects")) == 3


def test_a_store_that_stops_answering_looks_too_costs_two_timeouts_and_no_more(faulty):
    faulty.honours.clear()
    store = connected(faulty, "bucket", timeout=timedelta(seconds=2))
    targets = put(faulty, THOUSAND)
    assert list(store.delete(put(faulty, ["first"]))) == [Outcome.DELETED]

    with faulty.stall("DeleteObjects"):
        faulty.requests.clear()
        results = store.delete(targets)
        stalled = [request.operation for request in faulty.requests].count("DeleteObjects")
    assert tally(results) == {"transient": 1_000}
    assert stalled == 2


def test_a_store_that_does_not_know_conditions_gets_none(store, faulty):
    refused = error(501, "NotImplemented")
    conditional = lambda request: b"<ETag>" in request.body  # noqa: E731
    faulty.fail("DeleteObjects", refused, times=99, when=conditional)
    assert tally(store.delete(put(faulty, ["a", "b"]))) == {"deleted": 2}
    assert all(b"<ETag>" not in request.body for request in faulty.asked("DeleteObjects"))


def test_a_probe_writes_nothing(store, faulty):
    faulty.honours.clear()
    put(faulty, ["kept"])
    store.delete([Target("gone", "0" * 32, OLD)])
    assert faulty.keys("bucket") == {"kept"}


def test_a_marker_that_a_probe_left_in_a_versioned_bucket_is_removed(store, faulty):
    faulty.honours.clear()

    def marked(truth: Answer) -> Answer:
        marker = b"<DeleteMarkerVersionId>v1</DeleteMarkerVersionId></Deleted>"
        return truth._replace(body=truth.body.replace(b"</Deleted>", marker))

    faulty.fail("DeleteObjects", marked, after_effect=True, when=lambda _: True)
    store.delete(put(faulty, ["a"]))
    (removed,) = [request for request in faulty.requests if request.operation == "DeleteObject"]
    assert removed.query["versionId"] == "v1"
    assert ".bestbefore-probe-" in removed.key


def test_dates_are_compared_to_the_second(store, faulty):
    faulty.honours.clear()
    put(faulty, ["a"])
    stored = faulty.put("bucket", "a", b"x", datetime(2026, 1, 1, 0, 0, 0, 987_000, tzinfo=UTC))
    seen = Target("a", stored.etag, stored.modified)
    assert list(store.delete([seen])) == [Outcome.DELETED]
