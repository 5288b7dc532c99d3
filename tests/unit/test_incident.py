"""What errors with one cause have in common."""

import pytest

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.incident import gist, incident_id
from bestbefore.read.failures import EXPLAINED

KEY = "exports/2026-06/customer-1842.json"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/{key}: AccessDenied (403)", "s3://b/{other}: AccessDenied (403)"),
        ("timed out at 2026-06-07T02:00:00Z", "timed out at 2026-07-01 03:10:59.12+02:00"),
        ("request 4442587FB7D0A2F9 failed", "request 0A2F9444B7D87F52 failed"),
        ("id 9dd4e461-268c-8034-f5c8-564e155c67a6", "id 1dd4e461-268c-8034-f5c8-564e155c67a7"),
        ("row 844197938335842304 stays", "row 844197938335842305 stays"),
        ("Key (id)=(42) is still referenced", "Key (id)=(43) is still referenced"),
    ],
)
def test_what_is_only_about_one_target_makes_no_difference(one: str, other: str) -> None:
    other_key = "exports/2026-07/customer-7.json"

    first = gist(one.format(key=KEY, other=other_key), KEY)

    assert first == gist(other.format(key=KEY, other=other_key), other_key)
    assert "1842" not in first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/k: AccessDenied (403)", "s3://b/k: InternalError (500)"),
        ("orders: permission denied (42501)", "orders: foreign key (23503)"),
    ],
)
def test_codes_tell_causes_apart(one: str, other: str) -> None:
    assert gist(one, KEY) != gist(other, KEY)


def test_a_gist_has_an_end_and_takes_any_text() -> None:
    assert len(gist("x" * 10_000, KEY)) == 300
    assert len(incident_id(FailureClass.UNKNOWN, gist("\ud800 \x00", "\ud800"))) == 16


def test_every_class_says_what_to_do() -> None:
    assert EXPLAINED.keys() == set(FailureClass)
