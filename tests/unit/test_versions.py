"""What a policy selects of a bucket that keeps versions, and how long it waits for a lock."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.failure import NEVER, Attempts, Budget, Failure, FailureClass, decide
from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.retention import Age
from bestbefore.domain.selection import Listed, Selector, Verdict
from bestbefore.domain.versions import Version, Versions
from bestbefore.ports.objects import BucketFacts, unfit

NOW = datetime(2026, 7, 1, tzinfo=UTC)
CUTOFF = datetime(2026, 6, 1, tzinfo=UTC)
OLD = datetime(2026, 1, 1, tzinfo=UTC)
NEW = datetime(2026, 6, 30, tzinfo=UTC)
SOURCE = ObjectSource("s", "b", "")


def judge(mode: Versions, item: Listed, **rules: object) -> Verdict:
    source = replace(SOURCE, versions=mode, **rules)  # type: ignore[arg-type]
    return Selector.of(source, CUTOFF, NOW).judge(item)


def entry(written: datetime = OLD, *, key: str = "k", size: int = 10, marker: bool = False,
          since: datetime | None = None, others: int = 0, kept: int = 0) -> Listed:  # fmt: skip
    size = 0 if marker else size
    return Listed(key, size, "", written, version=Version("id", marker, since, others, kept))


@pytest.mark.parametrize(
    ("item", "verdict"),
    [
        (entry(since=OLD), Verdict.ELIGIBLE),
        (entry(since=CUTOFF), Verdict.YOUNG),
        (entry(since=NEW), Verdict.YOUNG),  # old itself, and current until a day ago
        (entry(marker=True, since=OLD), Verdict.ELIGIBLE),
        (entry(), Verdict.CURRENT),
        (entry(others=3), Verdict.CURRENT),
        (entry(marker=True, others=1), Verdict.CURRENT),
        (entry(marker=True), Verdict.ELIGIBLE),
        (entry(NEW, marker=True), Verdict.YOUNG),
        (entry(since=NOW + timedelta(1)), Verdict.FUTURE_DATE),
    ],
)
def test_noncurrent_means_since_when_something_else_was_the_newest(
    item: Listed, verdict: Verdict
) -> None:
    assert judge(Versions.NONCURRENT, item) is verdict


@pytest.mark.parametrize(
    ("item", "verdict"),
    [
        (entry(since=NEW), Verdict.ELIGIBLE),  # old itself, whenever it was replaced
        (entry(NEW, since=NEW), Verdict.YOUNG),
        (entry(others=3), Verdict.ELIGIBLE),
        (entry(others=3, kept=1), Verdict.COVERS_KEPT),
        (entry(NEW, others=3), Verdict.YOUNG),
        (entry(marker=True, others=3), Verdict.ELIGIBLE),
    ],
)
def test_purge_means_written_before_the_cutoff_and_nothing_kept_beneath(
    item: Listed, verdict: Verdict
) -> None:
    assert judge(Versions.PURGE, item) is verdict


def test_sizes_and_folder_markers_are_about_versions_and_not_about_delete_markers() -> None:
    assert judge(Versions.PURGE, entry(size=1), min_size=5) is Verdict.SIZE
    assert judge(Versions.PURGE, entry(marker=True), min_size=5) is Verdict.ELIGIBLE
    assert judge(Versions.PURGE, entry(key="d/", size=0)) is Verdict.FOLDER_MARKER
    assert judge(Versions.PURGE, entry(key="d/", marker=True)) is Verdict.ELIGIBLE


@pytest.mark.parametrize(
    ("versioning", "chosen", "fits"),
    [
        (None, None, True),
        (None, Versions.PURGE, False),
        ("Enabled", None, False),
        ("Suspended", None, False),
        ("Enabled", Versions.MARKER, True),
        ("Suspended", Versions.MARKER, False),
        ("Suspended", Versions.NONCURRENT, True),
        ("Suspended", Versions.PURGE, True),
    ],
)
def test_a_mode_fits_a_bucket_or_says_why_not(
    versioning: str | None, chosen: Versions | None, fits: bool
) -> None:
    facts = BucketFacts("endpoint", versioning, None)
    assert (unfit(facts, replace(SOURCE, versions=chosen)) is None) is fits


def test_a_lock_charges_nothing_and_is_due_at_its_end() -> None:
    until = NOW + timedelta(days=62)
    held = Failure(FailureClass.HELD, "locked", until=until)
    decision = decide(held, Budget.fresh(), Attempts(), NOW, lambda: 0.5)
    assert decision.budget.attempts == 0
    assert decision.due_at == until  # type: ignore[union-attr]


def test_a_lock_without_a_date_is_due_never_and_one_that_ended_soon() -> None:
    legal = decide(Failure(FailureClass.HELD, "hold"), Budget.fresh(), Attempts(), NOW, float)
    assert legal.due_at == NEVER  # type: ignore[union-attr]
    ended = Failure(FailureClass.HELD, "locked", until=NOW - timedelta(seconds=1))
    due = decide(ended, Budget.fresh(), Attempts(), NOW, float).due_at  # type: ignore[union-attr]
    assert NOW < due <= NOW + timedelta(minutes=1)


def test_policies_without_versions_keep_their_fingerprint() -> None:
    policy = Policy("p", "v1", "", Age(0, 86_400), SOURCE)
    assert policy.decides()["objects.versions"] is None
    assert policy.decides()["objects.bypass_governance"] is None
    chosen = replace(policy, source=replace(SOURCE, versions=Versions.PURGE))
    assert chosen.fingerprint() != policy.fingerprint()
