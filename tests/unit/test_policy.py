"""What a policy is, and which changes need a new version of it."""

import json
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest

from bestbefore.domain.failure import Attempts
from bestbefore.domain.policy import ObjectSource, Policy, Reach, decided_rows, what_changed
from bestbefore.domain.retention import Age, parse_age
from bestbefore.domain.rows import (
    FileArchive,
    Partitions,
    RowSource,
    TableArchive,
    TimestampKind,
)
from bestbefore.domain.versions import Versions

SOURCE = ObjectSource(store="exports", bucket="weekly-digests", prefix="exports/")
POLICY = Policy(
    name="digests",
    version="retain-30d-v2",
    owner="growth-team",
    older_than=Age(0, 30 * 86_400),
    source=SOURCE,
)

CHANGES: dict[str, Any] = {
    "store": "other",
    "bucket": "other",
    "prefix": "other/",
    "match": "*.json",
    "regex": ".*",
    "min_size": 1,
    "max_size": 0,
    "folder_markers": True,
    "generation": "(?P<generation>.)",
    "keep_generations": 1,
    "keep_last": 1,
    "keep_last_group": "a",
    "keep_last_min_size": 1,
    "storage_class": ("GLACIER",),
    "tags": (("team", "growth"),),
    "lacks_tags": ("keep",),
    "current_pointer": "exports/current.json",
    "abort_incomplete_uploads": True,
    "versions": Versions.PURGE,
    "bypass_governance": True,
}


def test_every_part_of_a_source_is_tried_below() -> None:
    assert CHANGES.keys() == {field.name for field in fields(ObjectSource)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_goes_changes_the_fingerprint_and_is_named(name: str) -> None:
    edited = replace(POLICY, source=replace(SOURCE, **{name: CHANGES[name]}))

    assert edited.fingerprint() != POLICY.fingerprint()
    [line] = what_changed(POLICY.decides(), edited.decides())
    assert line.startswith(f"objects.{name}: ")
    assert " became " in line


def test_a_change_of_age_or_action_changes_the_fingerprint() -> None:
    younger = replace(POLICY, older_than=parse_age("29d"))

    assert younger.fingerprint() != POLICY.fingerprint()
    assert replace(POLICY, action="archive").fingerprint() != POLICY.fingerprint()
    assert what_changed(POLICY.decides(), younger.decides()) == ['older_than: "30d" became "29d"']


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "others"},
        {"schedule": "0 3 * * *"},
        {"timezone": "Europe/Berlin"},
        {"priority": 9},
        {"reach": Reach(1, 0.1, 0)},
        {"attempts": Attempts(1, 1, 1)},
        {"older_than": parse_age("P30D")},
        {"older_than": parse_age("720h")},
        {"version": "retain-30d-v3"},
    ],
)
def test_what_does_not_decide_what_goes_leaves_the_fingerprint(change: dict[str, Any]) -> None:
    edited = replace(POLICY, **change)

    assert edited.fingerprint() == POLICY.fingerprint()
    assert what_changed(POLICY.decides(), edited.decides()) == []


def test_the_fingerprint_stays_the_same_over_releases() -> None:
    """Ledgers hold it: a new one here would refuse every policy after an upgrade."""
    assert (
        POLICY.fingerprint() == "a1a200c120b80a5609cae573ea663cb3d7e7b0a93be538a20ba37b696ce0c6b1"
    )


def test_what_is_not_set_is_not_part_of_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a key that a later release adds, unset, changes no fingerprint."""
    before = POLICY.fingerprint()
    decides = Policy.decides
    monkeypatch.setattr(Policy, "decides", lambda self: decides(self) | {"objects.new": None})

    assert POLICY.fingerprint() == before


def test_keys_that_only_one_release_knows_are_named_as_changed() -> None:
    assert what_changed({"a": 1}, {"b": "größe"}) == ["a: 1 became null", 'b: null became "größe"']


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({}, False),
        ({"keep_generations": 1}, True),
        ({"keep_last": 2}, True),
        ({"current_pointer": "exports/current"}, True),
        ({"lacks_tags": ("keep",)}, False),
        ({"min_size": 1}, False),
    ],
)
def test_only_generations_and_last_ones_need_the_end_of_a_scan(
    change: dict[str, Any], keeps: bool
) -> None:
    assert replace(SOURCE, **change).keeps_some is keeps


@pytest.mark.parametrize(
    ("reach", "capped"),
    [(Reach(), False), (Reach(max_deletes=1), True), (Reach(max_fraction=0.5), True)],
)
def test_a_first_run_limit_alone_is_no_cap(reach: Reach, capped: bool) -> None:
    assert reach.capped is capped


def test_commands_of_one_store_share_a_connection() -> None:
    assert POLICY.connection == "exports"


@pytest.mark.parametrize(
    "source",
    [
        RowSource("shop", "orders", "placed_at"),
        RowSource(
            "shop",
            '"Shop"."Orders"',
            "placed_at",
            key=("tenant", "id"),
            timestamp_kind=TimestampKind.NAIVE,
            timestamp_zone="Europe/Berlin",
            where="paid",
            dependents=("a", "b"),
            partitions=Partitions.ROWS,
            archive=TableArchive("orders_archive"),
        ),
        RowSource("shop", "orders", "at", dependents=None),
        RowSource("shop", "orders", "at", trusts_foreign_keys=True, accepts_row_security=True),
        RowSource("shop", "orders", "at", archive=FileArchive("cold", "b", "p/", "parquet")),
    ],
)
def test_rows_are_found_again_by_what_was_decided_about_them(source: RowSource) -> None:
    policy = Policy("p", "v1", "me", Age(1, 0), source)
    assert decided_rows(json.loads(json.dumps(policy.decides()))) == source


def test_what_0_1_recorded_of_rows_is_read_as_it_was_meant() -> None:
    policy = Policy("p", "v1", "me", Age(1, 0), RowSource("shop", "orders", "at", dependents=None))
    decided = policy.decides()
    del decided["rows.foreign_keys_seen"], decided["rows.row_security"]

    assert decided["rows.dependents"] is None
    assert decided_rows(decided) == policy.rows


def test_dependents_decide_and_what_is_left_unset_does_not_change_a_fingerprint() -> None:
    def fingerprint(**changes: Any) -> str:
        source = RowSource("shop", "orders", "at", **changes)
        return Policy("p", "v1", "me", Age(1, 0), source).fingerprint()

    of_0_1 = {
        "older_than": "1mo", "action": "delete", "rows.database": "shop", "rows.table": "orders",
        "rows.timestamp": "at", "rows.timestamp_kind": "auto", "rows.partitions": "auto",
    }  # fmt: skip

    def of(said: dict[str, object]) -> str:
        return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    assert fingerprint(dependents=None) == of(of_0_1)
    assert fingerprint() == fingerprint(dependents=()) == of(of_0_1 | {"rows.dependents": []})
    listed = fingerprint(dependents=("notes", "lines"))
    assert listed == fingerprint(dependents=("lines", "notes"))
    assert listed == of(of_0_1 | {"rows.dependents": ["lines", "notes"]})
    trusting = fingerprint(trusts_foreign_keys=True)
    blind = fingerprint(accepts_row_security=True)
    assert len({fingerprint(), fingerprint(dependents=None), listed, trusting, blind}) == 5
