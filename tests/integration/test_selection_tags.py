"""Tags: read last, of what would be planned, and again right before the delete."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.ports.objects import StoreError
from support.memory import MemoryStore
from support.worlds import YOUNG, World, policy

LACKS = {"lacks_tags": ("keep",)}
DENIED = Failure(FailureClass.PERMISSION, "AccessDenied")
BUSY = Failure(FailureClass.THROTTLED, "SlowDown", timedelta(seconds=40))
DOWN = Failure(FailureClass.TRANSIENT, "InternalError")


class Asked(MemoryStore):
    """A store that remembers whose tags were asked for, and can fail by the number of asking."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.fails: list[Failure] = []

    def tags(
        self, bucket: str, keys: Sequence[str]
    ) -> Mapping[str, Mapping[str, str] | Failure | None]:
        self.asked += keys
        if self.fails:
            return dict.fromkeys(keys, self.fails.pop(0))
        return super().tags(bucket, keys)


def world(folder: Path, **source: object) -> World:
    """A world whose store is an `Asked`."""
    return World(folder, policy(**(source or LACKS)), stores={"s": Asked()})  # type: ignore[arg-type]


def asked(of: World) -> Asked:
    assert isinstance(of.store, Asked)
    return of.store


def test_only_what_its_tags_select_goes(tmp_path: Path) -> None:
    with world(tmp_path, tags=(("team", "growth"),), lacks_tags=("keep",)) as w:
        w.put("exports/goes", "exports/kept", "exports/other-team", "exports/untagged")
        w.store.tagged = {
            "exports/goes": {"team": "growth"},
            "exports/kept": {"team": "growth", "keep": "yes"},
            "exports/other-team": {"team": "sales"},
        }

        run = w.plan()
        w.work()

        assert (run.planned, run.protected, run.in_scope) == (1, {"tags": 3}, 4)
        assert w.store.deleted == ["exports/goes"]
        assert len(w.operations()) == 1
        w.assert_reconciled()


def test_a_candidate_whose_tags_cannot_be_read_is_kept_and_counted(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.put("exports/goes", "exports/denied")
        w.store.untold = {"exports/denied": DENIED}

        run = w.plan()
        w.work()

        assert (run.planned, run.protected) == (1, {"tags_unreadable": 1})
        assert set(w.store.objects) == {"exports/denied"}


def test_a_dry_run_and_a_verification_read_tags_too(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.fill(3)
        w.store.tagged = {"exports/000001.json": {"keep": ""}}
        with w.system.scratch() as scratch:
            of = w.system.policy("exports")
            drawn = w.system.planner(of).preview(of, w.clock.now(), scratch.plans, Trigger.PLAN)

        assert (drawn.planned, drawn.protected) == (2, {"tags": 1})
        assert w.operations() == []


def test_tags_are_asked_for_once_and_last(tmp_path: Path) -> None:
    """Not those of what is young, outside, on hold or already pending."""
    with world(tmp_path, lacks_tags=("keep",), match="*.json", min_size=10) as w:
        w.put("exports/a.json", "exports/a.csv")
        w.put("exports/young.json", age=YOUNG)
        w.put("exports/small.json", size=1)
        w.plan()
        w.put("exports/b.json")
        w.clock.step(timedelta(seconds=1))
        again = w.plan()

        assert asked(w).asked == ["exports/a.json", "exports/b.json"]
        assert (again.planned, again.already_pending) == (1, 1)


def test_a_tag_added_after_the_plan_keeps_that_object_and_only_that(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        keys = w.fill(10)
        run = w.plan()
        assert run.planned == 10
        w.store.tagged[keys[4]] = {"keep": "legal said so"}

        report = w.work()

        assert set(w.store.objects) == {keys[4]}
        assert report.outcomes == {"deleted": 9, "protected": 1}
        assert report.protected == {"tags": 1}
        kept = w.operation(keys[4])
        assert (kept.outcome, kept.reason) == ("protected", "tags: it has the tag keep")
        assert w.run(run).state is RunState.DRAINED
        w.assert_reconciled()

        w.store.tagged.clear()
        w.clock.step(timedelta(minutes=10))
        assert w.plan().planned == 1, "it is planned again once the tag is gone"
        assert w.work().outcomes == {"deleted": 1}


def test_what_cannot_be_asked_about_at_work_is_tried_again_and_never_deleted(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as w:
        keys = w.fill(5)
        w.plan()
        w.store.untold = {keys[2]: DENIED}

        report = w.work()

        assert report.outcomes == {"deleted": 4}
        assert (report.dead, report.retried) == (1, {"permission": 2})
        (letter,) = w.dead()
        assert (letter.key, letter.failure_class) == (keys[2], FailureClass.PERMISSION)
        assert set(w.store.objects) == {keys[2]}
        assert keys[2] not in w.store.attempts

        w.store.untold = {}
        w.redrive()
        assert w.work().outcomes == {"deleted": 1}


def test_an_object_that_is_gone_before_its_tags_are_read_is_absent(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        (key,) = w.fill(1)
        w.plan()
        del w.store.objects[key]

        assert w.work().outcomes == {"absent": 1}
        assert w.store.attempts == []


def test_a_plan_waits_as_long_as_the_store_asks_for_its_tags(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.fill(3)
        asked(w).fails = [BUSY, BUSY]
        before = w.clock.now()

        run = w.plan()

        assert (run.planned, run.complete) == (3, True)
        assert (w.clock.now() - before).total_seconds() >= 80


@pytest.mark.parametrize("failure", [BUSY, DOWN])
def test_a_plan_that_cannot_read_any_tags_ends_and_is_continued(
    tmp_path: Path, failure: Failure
) -> None:
    with world(tmp_path) as w:
        w.fill(3)
        asked(w).fails = [failure] * 5

        with pytest.raises(StoreError, match=failure.error):
            w.plan()

        assert w.operations() == []
        run = w.plan(slot=w.system.records.runs()[0].slot)
        assert (run.planned, run.protected, run.complete) == (3, {}, True)


def test_expired_credentials_end_a_plan_at_once(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        w.fill(3)
        w.store.untold = {"exports/000001.json": Failure(FailureClass.CREDENTIALS, "ExpiredToken")}

        with pytest.raises(StoreError, match="ExpiredToken"):
            w.plan()

        assert len(asked(w).asked) == 3


def test_one_key_whose_tags_fail_for_ever_does_not_stop_a_plan(tmp_path: Path) -> None:
    """P9: poison stays alone."""
    with world(tmp_path) as w:
        keys = w.fill(4)
        w.store.untold = {keys[1]: DOWN}

        run = w.plan()

        assert (run.planned, run.protected) == (3, {"tags_unreadable": 1})
        assert asked(w).asked == keys + [keys[1]] * 4


def test_expired_credentials_at_work_open_the_breaker_and_spend_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        keys = w.fill(20)
        w.plan()
        w.store.untold = dict.fromkeys(keys, Failure(FailureClass.CREDENTIALS, "ExpiredToken"))

        report = w.work()

        assert report.left == {"breaker": 20}
        assert (report.dead, w.store.attempts) == (0, [])
        w.assert_reconciled()


def test_a_policy_without_tags_reads_none(tmp_path: Path) -> None:
    with world(tmp_path, min_size=1) as w:
        w.fill(3)
        w.plan()

        assert w.work().outcomes == {"deleted": 3}
        assert asked(w).asked == []


def test_a_storage_class_that_does_not_match_is_kept_and_counted(tmp_path: Path) -> None:
    with world(tmp_path, storage_class=("GLACIER",)) as w:
        w.fill(2)
        cold = w.store.objects["exports/000001.json"]._replace(storage_class="GLACIER")
        w.store.put(cold)

        run = w.plan()
        w.work()

        assert (run.planned, run.protected, run.in_scope) == (1, {"storage_class": 1}, 2)
        assert set(w.store.objects) == {"exports/000000.json"}
