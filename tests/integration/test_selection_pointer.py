"""`current_pointer`: what an object names as in use is kept, at planning and at execution."""

from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Spared
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Operation
from bestbefore.ports.objects import StoreError
from bestbefore.stages.confirm import Confirmed
from support.memory import MemoryStore
from support.worlds import YOUNG, World, policy

POINTER = "exports/current.json"
PATTERN = r"exports/(?P<generation>\d{4}-\d{2})/"
MONTHS = ("2026-01", "2026-02", "2026-03")


def of(month: str) -> set[str]:
    return {f"exports/{month}/a.json", f"exports/{month}/b.json"}


def world(folder: Path, said: bytes | Failure | None, **source: object) -> World:
    """Three generations of two objects, and a pointer with *said* in it."""
    w = World(folder, policy(generation=PATTERN, current_pointer=POINTER, **source))  # type: ignore[arg-type]
    for month in MONTHS:
        w.put(*of(month))
    point(w, said)
    return w


def point(w: World, said: bytes | Failure | None) -> None:
    w.store.texts.pop(POINTER, None)
    if said is None:
        w.store.objects.pop(POINTER, None)
        w.store._order = None
    else:
        w.put(POINTER)
        w.store.texts[POINTER] = said


def test_the_generation_in_use_stays_whatever_its_age(tmp_path: Path) -> None:
    """P7, O-GUARD-01: not the newest, not young, but the one in use; its pointer stays too."""
    with world(tmp_path, b'{"generation": "2026-02"}') as w:
        run = w.plan()
        report = w.work()

        assert run.protected == {"pointer": 3}
        assert (run.planned, run.state) == (4, RunState.OPEN)
        assert report.outcomes == {"deleted": 4}
        assert set(w.store.objects) == of("2026-02") | {POINTER}
        w.assert_reconciled()


def test_a_pointer_may_look_like_an_object_of_a_generation(tmp_path: Path) -> None:
    key = "exports/2026-01/current"
    source = {"generation": PATTERN, "current_pointer": key}
    with World(tmp_path, policy(**source)) as w:
        w.put(*of("2026-01"), *of("2026-02"), key)
        w.store.texts[key] = b"2026-02"

        run = w.plan()
        w.work()

        assert run.protected == {"pointer": 3}
        assert set(w.store.objects) == of("2026-02") | {key}


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"",
        b"\n",
        b"2026-04",
        b"{}",
        b"x" * 65_537,
        b"\xff\xfe2\x000\x002\x006\x00",
        Failure(FailureClass.PERMISSION, "AccessDenied"),
        Failure(FailureClass.UNKNOWN, "NotImplemented"),
    ],
)
def test_a_pointer_that_says_nothing_protects_everything(
    tmp_path: Path, said: bytes | Failure | None, caplog: pytest.LogCaptureFixture
) -> None:
    """At planning, and at execution where it said something when the plan was made.

    O-GUARD-02: a cleanup that is blocked must not look like one with nothing to do.
    """
    with world(tmp_path, said) as w:
        run = w.plan()
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert "everything is kept: " in caplog.text
        assert POINTER in caplog.text
        assert run.protected == {"pointer": 6 + (said is not None)}
        assert (run.planned, run.state) == (0, RunState.DRAINED)

        point(w, b"2026-02")
        w.clock.step(timedelta(days=1))
        assert w.plan().planned == 4
        point(w, said)
        report = w.work()

        assert report.outcomes == {"protected": 4}
        assert report.protected == {"pointer": 4}
        assert len(caplog.records) == 2
        assert w.store.attempts == []
        assert all((o.reason or "").startswith("pointer: ") for o in w.operations())
        w.assert_reconciled()


def test_a_pointer_that_moves_after_the_plan_protects_what_it_names_by_then(
    tmp_path: Path,
) -> None:
    with world(tmp_path, b"2026-03") as w:
        w.plan()
        point(w, b"2026-01")

        report = w.work()

        assert report.outcomes == {"deleted": 2, "protected": 2}
        assert set(w.store.objects) == of("2026-01") | of("2026-03") | {POINTER}
        kept = w.operation("exports/2026-01/a.json")
        assert kept.reason == f"pointer: {POINTER} names 2026-01"
        w.assert_reconciled()

        w.clock.step(timedelta(minutes=10))
        run = w.plan()
        assert run.protected == {"pointer": 3}
        assert w.work().outcomes == {"deleted": 2}, "what it named before goes now"


def test_a_pointer_that_moves_to_what_the_plan_never_saw_protects_everything(
    tmp_path: Path,
) -> None:
    with world(tmp_path, b"2026-03") as w:
        w.plan()
        w.put("exports/2026-07/a.json", age=YOUNG)
        point(w, b"2026-07")

        assert w.work().outcomes == {"protected": 4}
        w.clock.step(timedelta(minutes=10))
        assert w.plan().planned == 6, "the next run sees it"
        assert w.work().outcomes == {"deleted": 6}
        assert set(w.store.objects) == {"exports/2026-07/a.json", POINTER}


def test_once_the_named_generation_has_vanished_all_is_protected(tmp_path: Path) -> None:
    with world(tmp_path, b"2026-02") as w:
        w.plan()
        for key in of("2026-02"):
            del w.store.objects[key]
        w.store._order = None

        report = w.work()

        assert report.outcomes == {"protected": 4}
        assert report.protected == {"generation": 4}
        assert w.store.attempts == []


def test_a_pointer_and_the_newest_generations_protect_side_by_side(tmp_path: Path) -> None:
    with world(tmp_path, b"2026-01", keep_generations=1) as w:
        run = w.plan()
        w.work()

        assert run.protected == {"generation": 2, "pointer": 3}
        assert set(w.store.objects) == of("2026-01") | of("2026-03") | {POINTER}
        w.assert_reconciled()


@pytest.mark.parametrize(
    "of_class", [FailureClass.THROTTLED, FailureClass.TRANSIENT, FailureClass.CREDENTIALS]
)
def test_a_store_that_cannot_be_asked_now_ends_the_plan_which_then_goes_on(
    tmp_path: Path, of_class: FailureClass
) -> None:
    with world(tmp_path, Failure(of_class, "not now")) as w:
        with pytest.raises(StoreError, match="not now"):
            w.plan()
        assert w.work().received == 0, "nothing of an undecided plan is handed out"

        point(w, b"2026-03")
        run = w.plan(slot=w.system.records.runs()[0].slot)

        assert (run.planned, run.protected, run.complete) == (4, {"pointer": 3}, True)


def test_a_pointer_that_cannot_be_asked_for_a_while_delays_the_work(tmp_path: Path) -> None:
    with world(tmp_path, b"2026-03") as w:
        w.plan()
        until = w.clock.now() + timedelta(seconds=20)
        content = w.store.content

        def busy(bucket: str, key: str, most: int) -> bytes | None:
            if w.clock.now() < until:
                raise StoreError(Failure(FailureClass.TRANSIENT, "503"))
            return content(bucket, key, most)

        w.store.content = busy  # type: ignore[method-assign]

        report = w.work()

        assert report.outcomes == {"deleted": 4}
        assert report.retried["transient"] >= 4
        assert set(w.store.objects) == of("2026-03") | {POINTER}


def test_what_a_pointer_says_is_asked_again_after_a_minute(tmp_path: Path) -> None:
    with world(tmp_path, b"2026-03") as w:
        run = w.plan()
        operations = _claimed(w)
        confirmed = Confirmed(w.store, w.system.work, w.clock)
        exports = w.system.policy("exports")

        assert confirmed.protected(exports, run.row, operations) == {}
        point(w, b"2026-01")
        w.clock.step(timedelta(seconds=60))
        assert confirmed.protected(exports, run.row, operations) == {}
        w.clock.step(timedelta(seconds=1))
        protected = confirmed.protected(exports, run.row, operations)

        rows = {o.row for o in operations if o.key in of("2026-01")}
        assert protected == dict.fromkeys(rows, Spared("pointer", f"{POINTER} names 2026-01"))


def _claimed(w: World) -> list[Operation]:
    (version,) = w.system.work.versions()
    while (span := w.system.work.waiting(version.row, 1_000)) is not None:
        w.system.queue.publish(span, w.clock.now())
    return list(w.system.queue.receive(version.row, 100, w.clock.now(), timedelta(seconds=60)))


def test_a_store_needs_no_pointer_where_no_policy_has_one(tmp_path: Path) -> None:
    class Deaf(MemoryStore):
        def content(self, bucket: str, key: str, most: int) -> bytes | None:
            raise AssertionError("nobody asked for it")

    with World(tmp_path, policy(), stores={"s": Deaf()}) as w:
        w.fill(2)
        w.plan()
        assert w.work().outcomes == {"deleted": 2}
