"""Nothing gets in but what was signed with one of our keys, byte for byte, a moment ago."""

import base64
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from bestbefore.web.signatures import STANDARD_HEADER, Delivery, NotVerified, Verified, verify

NOW = datetime.fromtimestamp(1_767_225_600, UTC)
TOLERANCE = timedelta(minutes=5)
KEY, OLD_KEY, FOREIGN = (bytes([n]) * 32 for n in (1, 2, 3))
BODY = b'{"key": "value",  "num": 1.0}'
PLAIN = "x-signature-256"
TIMED, ITS_TIME = "x-signature", "x-timestamp"


def signed(
    body: bytes = BODY, *, key: bytes = KEY, at: datetime = NOW, sender_id: str = "msg_1"
) -> dict[str, str]:
    """The headers of an independent signer."""
    signature = Webhook(key).sign(sender_id, at, body.decode("latin-1"))
    if not body.isascii():  # it signs texts
        data = f"{sender_id}.{int(at.timestamp())}.".encode() + body
        signature = "v1," + base64.b64encode(hmac.digest(key, data, "sha256")).decode()
    return {
        "webhook-id": sender_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }


def check(
    headers: Mapping[str, str], body: bytes = BODY, header: str = STANDARD_HEADER
) -> Verified | NotVerified:
    return verify(headers, body, [OLD_KEY, KEY], header, TOLERANCE, NOW)


def test_o_hmac_01_the_raw_body_is_what_was_signed() -> None:
    compact = b'{"key":"value","num":1.0}'

    assert isinstance(check(signed()), Verified)
    assert isinstance(check(signed(), compact), NotVerified)
    assert isinstance(check(signed(compact)), NotVerified)


@pytest.mark.parametrize(
    ("seconds", "fits"),
    [(-301, False), (-300, True), (-299, True), (0, True), (299, True), (301, False),
     (3_600, False), (-86_400, False)],
)  # fmt: skip
def test_o_hmac_02_a_time_that_is_off_either_way_is_refused(seconds: int, fits: bool) -> None:
    found = check(signed(at=NOW + timedelta(seconds=seconds)))
    assert isinstance(found, Verified) == fits


def test_an_id_is_to_be_remembered_until_its_time_is_too_old() -> None:
    at = NOW - timedelta(seconds=299)
    found = check(signed(at=at))
    assert isinstance(found, Verified)
    assert found.delivery is not None
    assert found.delivery.sender_id == "msg_1"
    later = verify(signed(at=at), BODY, [KEY], STANDARD_HEADER, TOLERANCE, found.delivery.until)
    assert isinstance(later, NotVerified)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_without_one_of_its_headers_nothing_is_signed(missing: str) -> None:
    headers = signed()
    del headers[missing]
    assert isinstance(check(headers), NotVerified)


def test_either_key_is_good_while_one_replaces_the_other_and_no_third() -> None:
    assert isinstance(check(signed(key=OLD_KEY)), Verified)
    assert isinstance(check(signed(key=KEY)), Verified)
    assert isinstance(check(signed(key=FOREIGN)), NotVerified)
    both = signed(key=FOREIGN)["webhook-signature"] + " " + signed()["webhook-signature"]
    assert isinstance(check(signed() | {"webhook-signature": both}), Verified)


def test_without_keys_nothing_is_signed() -> None:
    assert isinstance(verify(signed(), BODY, [], STANDARD_HEADER, TOLERANCE, NOW), NotVerified)
    empty = signed() | {"webhook-signature": "v1,"}
    assert isinstance(check(empty), NotVerified)


def test_a_time_is_compared_as_it_was_written() -> None:
    """A number that is read and written again would lose what was signed."""
    odd = dict(signed())
    data = b"msg_1.01767225600." + BODY
    odd["webhook-timestamp"] = "01767225600"
    assert isinstance(check(odd), NotVerified)
    odd["webhook-signature"] = "v1," + base64.b64encode(hmac.digest(KEY, data, "sha256")).decode()
    assert check(odd) == check(signed())


def test_a_plain_signature_is_hex_of_the_body() -> None:
    good = "sha256=" + hmac.digest(KEY, BODY, "sha256").hex()
    assert check({PLAIN: good}, header=PLAIN) == Verified()
    assert check({PLAIN: good.removeprefix("sha256=")}, header=PLAIN) == Verified()
    for bad in (good[:-1], good.upper(), "=" + good[7:], "sha1=" + good[7:], "", good + " ",
                "sha256=" + hmac.digest(FOREIGN, BODY, "sha256").hex()):  # fmt: skip
        assert isinstance(check({PLAIN: bad}, header=PLAIN), NotVerified), bad
    assert isinstance(check(signed(), header=PLAIN), NotVerified)


def timed(
    body: bytes = BODY, *, key: bytes = KEY, at: str = str(int(NOW.timestamp()))
) -> dict[str, str]:
    """A time and its signature, as some sign both."""
    return {ITS_TIME: at, TIMED: hmac.digest(key, f"{at}.".encode() + body, "sha256").hex()}


def check_timed(headers: Mapping[str, str], body: bytes = BODY) -> Verified | NotVerified:
    return verify(headers, body, [OLD_KEY, KEY], TIMED, TOLERANCE, NOW, ITS_TIME)


def test_a_time_in_another_header_is_signed_with_the_body() -> None:
    for key in (KEY, OLD_KEY):
        assert isinstance(check_timed(timed(key=key)), Verified)
    with_prefix = timed()
    with_prefix[TIMED] = "sha256=" + with_prefix[TIMED]
    assert check_timed(with_prefix) == check_timed(timed())
    for bad in (
        timed(key=FOREIGN),
        timed() | {ITS_TIME: str(int(NOW.timestamp()) + 1)},
        timed() | {TIMED: hmac.digest(KEY, BODY, "sha256").hex()},
        {TIMED: timed()[TIMED]},
        {ITS_TIME: timed()[ITS_TIME]},
        timed(at="soon"),
        timed(at=str(int(NOW.timestamp() * 1_000))),
        timed(at=""),
    ):
        assert isinstance(check_timed(bad), NotVerified), bad
    assert isinstance(check_timed(timed(), BODY + b" "), NotVerified)


@pytest.mark.parametrize(
    ("seconds", "fits"), [(-301, False), (-300, True), (300, True), (301, False)]
)
def test_o_hmac_02_such_a_time_may_not_be_off_either(seconds: int, fits: bool) -> None:
    at = str(int(NOW.timestamp()) + seconds)
    assert isinstance(check_timed(timed(at=at)), Verified) == fits


def test_where_no_id_is_signed_the_signature_is_what_must_not_come_twice() -> None:
    one, same, other = (check_timed(timed(body), body) for body in (BODY, BODY, BODY + b" "))
    assert isinstance(one, Verified)
    assert isinstance(other, Verified)
    assert one == same
    assert one.delivery is not None
    assert other.delivery is not None
    assert one.delivery.sender_id != other.delivery.sender_id
    late = verify(timed(), BODY, [KEY], TIMED, TOLERANCE, one.delivery.until, ITS_TIME)
    assert isinstance(late, NotVerified)


@settings(deadline=None)
@given(
    st.binary(max_size=200),
    st.text(max_size=60),
    st.text(max_size=20),
    st.text(max_size=120),
    st.sampled_from([STANDARD_HEADER, PLAIN]),
)
def test_no_made_up_signature_gets_in(
    body: bytes, sender_id: str, time: str, signature: str, header: str
) -> None:
    headers = {"webhook-id": sender_id, "webhook-timestamp": time, header: signature}
    assert isinstance(check(headers, body, header), NotVerified)


@settings(deadline=None)
@given(st.data(), st.binary(max_size=80))
def test_no_change_of_a_signed_request_gets_in(data: st.DataObject, body: bytes) -> None:
    headers = signed(body)
    assert isinstance(check(headers, body), Verified)
    changed = data.draw(st.sampled_from(["body", *headers]))
    if changed == "body":
        other = data.draw(st.binary(max_size=80).filter(lambda b: b != body))
        assert isinstance(check(headers, other), NotVerified)
        return
    text = headers[changed]
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters(codec="latin-1").filter(lambda c: c != text[place]))
    if changed == "webhook-signature" and place >= len(text) - 2:
        return  # base64's last bits say nothing
    other_text = text[:place] + char + text[place + 1 :]
    found = check(headers | {changed: other_text}, body)
    assert isinstance(found, NotVerified), (changed, other_text)


def test_what_is_signed_names_its_delivery() -> None:
    found = check(signed(sender_id="msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"))
    assert isinstance(found, Verified)
    assert isinstance(found.delivery, Delivery)
    assert found.delivery.sender_id == "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
