"""Scenarios on a product that breaks just their promise: each says what it found instead."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.app.system import System
from bestbefore.domain.hold import Held
from bestbefore.gate import stage
from bestbefore.gate.scenarios import foreground
from bestbefore.gate.stage import Rights
from bestbefore.stages import plan
from bestbefore.stages.confirm import Confirmed
from support.gate_faults import planted
from support.gates import Gates, failures
from support.row_databases import RowDatabase
from support.versions import VersionedBucket

Patch = pytest.MonkeyPatch


def _no_holds(patch: Patch) -> None:
    patch.setattr(System, "held", lambda self, policy: Held())


def _no_second_thoughts(patch: Patch) -> None:
    patch.setattr(Confirmed, "protected", lambda self, policy, run, some: {})


def _old_versions_work(patch: Patch) -> None:
    versions = SqlWorkLedger.versions
    patch.setattr(
        SqlWorkLedger, "versions", lambda self: [v._replace(current=True) for v in versions(self)]
    )


def _no_max_deletes(patch: Patch) -> None:
    reason = plan.park_reason
    patch.setattr(
        plan,
        "park_reason",
        lambda run, reach, seen: reason(run, replace(reach, max_deletes=None), seen),
    )


def _duplicates_are_never_done(patch: Patch) -> None:
    push = stage.push
    patch.setattr(stage, "push", lambda *given: push(*given)._replace(done=False))


def _dry_runs_write(patch: Patch) -> None:
    def for_real(self: Any, policy: Any, slot: Any, _scratch: Any, trigger: Any, **_: Any) -> Any:
        return self.plan(policy, slot, trigger).run

    patch.setattr(plan.Planner, "preview", for_real)


BROKEN: Mapping[str, tuple[Callable[[Patch], None], str]] = {
    "held-prefix": (_no_holds, "commands planned: expected 6, found 9"),
    "current-generation": (_no_second_thoughts, "outcomes: .*'deleted': 6"),
    "superseded": (_old_versions_work, "outcomes of v1: .*found {'deleted': 20}"),
    "caps": (_no_max_deletes, "state of the run: expected parked, found open"),
    "duplicate-delivery": (_duplicates_are_never_done, "pushed again: .*expected 20, found 0"),
    "dry-run": (_dry_runs_write, "runs in the ledger: expected 0, found 1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_scenario_fails_where_its_promise_is_broken(
    gates: Gates, tmp_path: Path, monkeypatch: Patch, name: str
) -> None:
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    gates.directory(tmp_path / "root", "bucket")
    fault, found = BROKEN[name]
    fault(monkeypatch)
    reason = failures(gates.play(name))[name] or ""
    assert re.search(found, reason), reason


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("foreign keys not seen", "without `dependents`: expected 0, found 4"),
        ("dependents outside the caps", "state of the run .*: expected parked, found open"),
        ("more dependents than counted", r"rows left: .*expected \[10, 41, .*found \[41, "),
    ],
)
def test_rows_of_other_tables_at_risk_fail_their_scenario(
    gates: Gates, row_database: RowDatabase, fault: str, found: str
) -> None:
    gates.rows(row_database.url)
    with planted(fault):
        reason = failures(gates.play("dependents-beyond-cap"))["dependents-beyond-cap"] or ""
    assert re.search(found, reason), reason


@pytest.mark.parametrize("name", ["foreground-objects", "planner-budget"])
def test_a_promise_holds_where_only_what_was_replaced_goes(
    gates: Gates, seaweed: Seaweed, versioned: VersionedBucket, monkeypatch: Patch, name: str
) -> None:
    for seconds in ("_SECONDS", "_CLEANUP_SECONDS"):
        monkeypatch.setattr(foreground, seconds, 0.5)
    gates.objects(seaweed.settings(), versioned.name, versions="noncurrent")
    assert failures(gates.play(name)) == {}


def test_a_right_that_was_taken_away_is_given_back_though_the_scenario_failed(
    gates: Gates, tmp_path: Path
) -> None:
    """The commands here change nothing, so that everything is deleted all the same."""
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    gates.directory(tmp_path / "root", "bucket")
    said = tmp_path / "said"
    rights = Rights(f"echo taken >> {said}", f"echo given back >> {said}")
    assert "permission" in failures(gates.play("permission", rights=rights))
    assert said.read_text().split("\n", 1) == ["taken", "given back\n"]
