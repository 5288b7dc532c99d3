"""What a hold is about, and what falls under it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.hold import Held, Hold, Scope
from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.retention import Age

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
PLACE = "http://s3.example.com"
POLICY = Policy("exports", "v1", "", Age(0, 1), ObjectSource("s", "bucket", "exports/"))


def prefix_hold(prefix: str = "", *, store: str = "s", place: str = PLACE) -> Hold:
    scope = Scope(store=store, place=place, bucket="bucket", prefix=prefix)
    return Hold(scope, "audit", None, "ann", NOW)


def held(*holds: Hold, policy: Policy = POLICY, place: str = PLACE) -> Held:
    return Held.among(holds, policy, place)


def test_a_prefix_holds_the_keys_that_begin_with_it_character_by_character() -> None:
    over = held(prefix_hold("exports/2026-01")).over

    for key in ("exports/2026-01", "exports/2026-01/a", "exports/2026-01-old/a"):
        assert over(key) is not None, key
    for key in ("exports/2026-0", "exports/2026-02/a", "Exports/2026-01/a", "x/exports/2026-01/"):
        assert over(key) is None, key


def test_two_spellings_of_one_letter_are_two_prefixes() -> None:
    over = held(prefix_hold("exports/gr\u00f6\u00dfe")).over

    assert over("exports/gr\u00f6\u00dfe-1") is not None
    assert over("exports/gro\u0308\u00dfe-1") is None


@pytest.mark.parametrize("prefix", ["", "exports", "exports/", "exports/2026-01/a"])
def test_a_hold_inside_or_around_what_a_policy_looks_at_concerns_it(prefix: str) -> None:
    assert held(prefix_hold(prefix)).holds


@pytest.mark.parametrize("prefix", ["other/", "exports-old/", "export/"])
def test_a_hold_beside_what_a_policy_looks_at_does_not(prefix: str) -> None:
    assert not held(prefix_hold(prefix)).holds


def test_a_hold_on_a_policy_holds_all_of_it_and_nothing_of_another() -> None:
    hold = Hold(Scope(policy="exports"), "audit", None, "ann", NOW)

    assert held(hold).over("exports/anything") is hold
    assert held(hold, policy=replace(POLICY, version="v2")).over("exports/a") is hold
    assert held(hold, policy=replace(POLICY, name="others")).over("exports/a") is None


def test_every_policy_that_looks_at_a_bucket_respects_its_holds() -> None:
    other = replace(POLICY, name="others", source=ObjectSource("s", "bucket", "", match="*.json"))

    assert held(prefix_hold("exports/"), policy=other).over("exports/a.json") is not None


def test_another_name_for_the_same_place_does_not_get_around_a_hold() -> None:
    renamed = replace(POLICY, source=ObjectSource("t", "bucket", "exports/"))

    assert held(prefix_hold(), policy=renamed).over("exports/a") is not None
    assert held(prefix_hold(), policy=renamed, place="http://else").over("exports/a") is None


def test_the_same_name_holds_wherever_its_store_has_moved_to() -> None:
    assert held(prefix_hold(), place="http://new-address").over("exports/a") is not None


def test_another_bucket_is_not_held() -> None:
    other = replace(POLICY, source=ObjectSource("s", "bucket-2", "exports/"))

    assert not held(prefix_hold(), policy=other).holds


def test_the_same_hold_has_the_same_id_and_another_one_another() -> None:
    hold = prefix_hold("exports/")
    different = [
        prefix_hold("exports"),
        replace(hold, reason="court case"),
        replace(hold, until=NOW + timedelta(days=1)),
        replace(hold, scope=Scope(policy="exports")),
        prefix_hold("exports/", store="t"),
    ]

    assert replace(hold, by="eve", at=NOW + timedelta(days=1)).hold_id == hold.hold_id
    assert len({hold.hold_id, *(other.hold_id for other in different)}) == 1 + len(different)
    assert len(hold.hold_id) == 12
