"""What a worker does about failures: who is tried again, when, and what stops as a whole."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Attempts, Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import RunState
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Completed, Operation
from bestbefore.stages import attempt
from bestbefore.stages.attempt import Result
from support.clock import NOW
from support.worlds import OLD, World, failing, listed, policy

HOUR = timedelta(hours=1)


def attempts_by_key(world: World) -> Counter[str]:
    return Counter(world.store.attempts)


def test_one_transient_error_in_a_big_batch_repeats_only_its_own_key(tmp_path: Path) -> None:
    """O-BULK-02, P1"""
    with World(tmp_path, policy()) as world:
        keys = world.fill(1_000)
        sick = keys[7]
        world.store.refuse = lambda key: (
            Failure(FailureClass.TRANSIENT, "InternalError")
            if key == sick and attempts_by_key(world)[sick] <= 2
            else None
        )
        run = world.plan()

        report = world.work()

        assert attempts_by_key(world) == Counter(dict.fromkeys(keys, 1)) + Counter({sick: 2})
        assert (report.completed, report.dead) == (1_000, 0)
        assert report.retried == {"transient": 2}
        assert world.outcomes(run) == {"deleted": 1_000}
        assert world.store.objects == {}
        assert world.run(run).state is RunState.DRAINED
        world.assert_reconciled()


def test_denied_keys_die_after_three_attempts_and_their_neighbours_are_done(
    tmp_path: Path,
) -> None:
    """O-BULK-01"""
    with World(tmp_path, policy()) as world:
        keys = world.fill(5)
        denied = [keys[1], keys[3]]
        world.store.refuse = failing(FailureClass.PERMISSION, *denied, error="AccessDenied")
        run = world.plan()

        report = world.work()

        assert report.outcomes == {"deleted": 3}
        assert (report.dead, report.left) == (2, {"dead": 2})
        assert attempts_by_key(world) == {k: 3 if k in denied else 1 for k in keys}
        assert [(d.key, d.failure_class, d.error, d.attempts) for d in world.dead()] == [
            (key, FailureClass.PERMISSION, "AccessDenied", 3) for key in denied
        ]
        assert world.run(run).state is RunState.DRAINED
        world.assert_reconciled()


def test_an_enormous_retry_after_holds_nobody_else_up(tmp_path: Path) -> None:
    """O-RETRY-02: capped at 15 minutes by the adapter; the other 20 are done in their time."""
    with World(tmp_path, policy(), policy("others", store="t")) as world:
        slow, *_ = world.fill(11)
        world.fill(10, store="t")
        asked: list[datetime] = []

        def refuse(key: str) -> Failure | None:
            if key != slow:
                return None
            asked.append(world.clock.now())
            if len(asked) > 1:
                return None
            return Failure(FailureClass.THROTTLED, "slow down", timedelta(seconds=900))

        world.store.refuse = refuse
        world.clock.stride = timedelta(seconds=3)
        world.plan()
        world.plan("others")

        report = world.work()

        assert report.outcomes == {"deleted": 21}
        ended = {(o.policy, o.key): o.completed_at for o in world.operations()}
        del ended["exports", slow]
        assert all(at and at - NOW < timedelta(seconds=10) for at in ended.values())
        first, second = asked
        assert timedelta(seconds=900) <= second - first <= timedelta(seconds=1_000)
        world.assert_reconciled()


@pytest.mark.parametrize("asked", [None, timedelta(seconds=60)])
def test_retries_after_an_outage_do_not_come_back_in_lock_step(
    tmp_path: Path, asked: timedelta | None
) -> None:
    """O-RETRY-04: at most a fifth in any one second, and none before it was asked for."""
    with World(tmp_path, policy()) as world:
        spread = iter(n / 1_000 for n in range(1_000))
        world.spread = lambda: next(spread)
        world.fill(1_000)
        of = FailureClass.TRANSIENT if asked is None else FailureClass.THROTTLED
        world.store.refuse = failing(of, retry_after=asked)
        world.plan()
        failed_at = world.clock.now()

        world.work(stopping=lambda: len(world.store.attempts) >= 1_000)

        due = [operation.due_at for operation in world.operations()]
        assert all(moment is not None for moment in due)
        waits = [moment - failed_at for moment in due if moment is not None]
        if asked:
            assert min(waits) >= asked
            seconds = Counter(int(wait.total_seconds()) for wait in waits)
            assert max(seconds.values()) <= 200
        else:
            assert min(waits) >= timedelta(seconds=1)
            assert len(set(waits)) > 900, "full jitter"


def test_throttling_spends_no_attempts_and_halves_the_pace(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(50)
        world.store.refuse = lambda key: (
            Failure(FailureClass.THROTTLED, "SlowDown")
            if world.clock.now() - NOW < timedelta(minutes=30)
            else None
        )
        world.clock.stride = timedelta(seconds=2)
        world.plan()

        report = world.work()

        assert report.outcomes == {"deleted": 50}
        assert report.retried["throttled"] > 50
        assert world.dead() == []
        assert max(attempts_by_key(world).values()) > 8, "more often than any budget allows"
        world.assert_reconciled()


def test_expired_credentials_open_a_breaker_and_spend_nothing(tmp_path: Path) -> None:
    """P9: one probe after 30 s, then ever more rarely; a drain ends and names it."""
    with World(tmp_path, policy()) as world:
        world.fill(100)
        world.store.refuse = failing(FailureClass.CREDENTIALS, error="ExpiredToken")
        seen: list[float] = []
        refuse = world.store.refuse

        def note(key: str) -> Failure | None:
            seen.append((world.clock.now() - NOW).total_seconds())
            return refuse(key)

        world.store.refuse = note
        run = world.plan()

        report = world.work()

        batch, probes = seen[:100], seen[100:]
        assert max(batch) < 2
        assert [round(at / 10) * 10 for at in probes] == [30, 90, 210, 450]
        assert report.left == {"breaker": 100}
        assert report.dead == 0
        assert 600 <= (world.clock.now() - NOW).total_seconds() < 620
        (breaker,) = world.system.controls.breakers()
        assert breaker.reason == "ExpiredToken"
        stored = world.run(run)
        assert (stored.pending, stored.dead) == (100, 0)
        world.assert_reconciled()


def test_the_breaker_closes_with_the_first_success_and_all_is_done(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(100)
        world.store.refuse = lambda key: (
            Failure(FailureClass.CREDENTIALS, "ExpiredToken")
            if world.clock.now() - NOW < timedelta(minutes=3)
            else None
        )
        world.plan()

        report = world.work()

        assert report.outcomes == {"deleted": 100}
        assert world.system.controls.breakers() == []
        assert report.left == {}
        assert all(not o.error or o.failure_class for o in world.operations())
        world.assert_reconciled()


def test_an_open_breaker_stops_only_its_own_connection(tmp_path: Path) -> None:
    with World(tmp_path, policy(), policy("others", store="t")) as world:
        world.fill(10)
        world.fill(10, store="t")
        world.store.refuse = failing(FailureClass.CREDENTIALS)
        world.plan()
        world.plan("others")

        report = world.work()

        assert report.outcomes == {"deleted": 10}
        assert world.stores["t"].objects == {}
        assert report.left == {"breaker": 10}


def test_a_result_of_before_the_breaker_opened_does_not_close_it(tmp_path: Path) -> None:
    """Two batches out, credentials expire in between: only a probe may say that all is well."""
    with World(tmp_path, policy()) as world:
        keys = world.fill(1_000)
        sick = set(keys[:250])
        world.store.refuse = lambda key: (
            Failure(FailureClass.CREDENTIALS, "ExpiredToken") if key in sick else None
        )
        world.plan()

        world.work(stopping=lambda: len(world.store.attempts) >= 1_000)

        assert len(world.store.deleted) == 750
        assert [b.reason for b in world.system.controls.breakers()] == ["ExpiredToken"]


def test_denials_without_any_success_for_a_quarter_hour_open_the_breaker(tmp_path: Path) -> None:
    with World(tmp_path, policy(attempts=Attempts(permission=1_000))) as world:
        world.fill(150)
        world.store.refuse = failing(FailureClass.PERMISSION, error="AccessDenied")
        world.clock.stride = timedelta(seconds=5)
        world.plan()
        opened: list[datetime] = []

        def stop() -> bool:
            opened.extend(b.opened_at for b in world.system.controls.breakers())
            return bool(opened)

        world.work(stopping=stop)

        assert timedelta(minutes=15) <= opened[0] - NOW <= timedelta(minutes=31)
        assert world.dead() == []


def test_denials_beside_successes_open_nothing(tmp_path: Path) -> None:
    with World(tmp_path, policy(attempts=Attempts(permission=14))) as world:
        keys = world.fill(150)
        minutes = {key: n for n, key in enumerate(keys[120:])}

        def refuse(key: str) -> Failure | None:
            """120 are denied for ever, one of the others works every minute."""
            if world.clock.now() - NOW >= timedelta(minutes=minutes.get(key, 10_000)):
                return None
            return Failure(FailureClass.PERMISSION, "AccessDenied")

        world.store.refuse = refuse
        world.clock.stride = timedelta(seconds=5)
        world.plan()

        report = world.work()

        assert report.outcomes == {"deleted": 30}
        assert world.system.controls.breakers() == []
        assert report.dead == 120


def test_a_missing_bucket_stops_the_policy_with_one_dead_letter(tmp_path: Path) -> None:
    with World(tmp_path, policy(), policy("others", store="t")) as world:
        world.fill(1_000)
        world.fill(3, store="t")
        world.store.refuse = failing(
            FailureClass.MALFORMED, error="NoSuchBucket", whole_source=True
        )
        run = world.plan()
        world.plan("others")

        report = world.work()

        (letter,) = world.dead()
        assert letter.error == "NoSuchBucket"
        (pause,) = world.system.controls.pauses(world.clock.now())
        assert (pause.policy, pause.reason) == ("exports", "stopped by bestbefore: NoSuchBucket")
        assert report.left == {"dead": 1, "paused": 999}
        assert report.outcomes == {"deleted": 3}
        assert (world.run(run).pending, world.run(run).dead) == (999, 1)
        assert not any(operation.failure_class for operation in world.operations()
                       if operation.state is not State.DEAD)  # fmt: skip
        world.assert_reconciled()


def test_once_lifted_the_pause_comes_back_while_the_bucket_is_missing(tmp_path: Path) -> None:
    """One worker that lives for weeks: the second time is like the first, not a busy loop."""
    with World(tmp_path, policy()) as world:
        world.fill(10)
        world.store.refuse = failing(FailureClass.MALFORMED, whole_source=True)
        world.plan()
        lifted: list[int] = []

        def stopping() -> bool:
            if world.system.controls.pauses(world.clock.now()):
                if len(lifted) == 2:
                    return True
                lifted.append(len(world.dead()))
                world.system.controls.resume_work("exports", "boss", world.clock.now())
            return len(world.store.attempts) > 200

        world.work(drain=False, stopping=stopping)

        assert lifted == [1, 2]
        assert len(world.dead()) == 3
        assert len(world.system.controls.pauses(world.clock.now())) == 1
        world.assert_reconciled()


def test_a_pause_takes_effect_within_one_batch(tmp_path: Path) -> None:
    """P12"""
    with World(tmp_path, policy()) as world:
        world.fill(3_000)
        paused: list[int] = []

        def pause(key: str) -> None:
            if not paused:
                paused.append(len(world.store.attempts))
                world.system.controls.pause("exports", "incident", None, "boss", world.clock.now())

        world.store.refuse = pause
        run = world.plan()

        report = world.work(concurrency=1)

        assert report.left["paused"] == 3_000 - len(world.store.deleted)
        assert 1 <= len(world.store.deleted) <= 2 * 250, "what was in hand, and no more"
        assert world.system.controls.resume_work("exports", "boss", world.clock.now())
        world.work()
        assert world.outcomes(run) == {"deleted": 3_000}


def test_a_pause_of_everything_stops_every_policy(tmp_path: Path) -> None:
    with World(tmp_path, policy(), policy("others", store="t")) as world:
        world.fill(3)
        world.fill(3, store="t")
        world.plan()
        world.plan("others")
        world.system.controls.pause(None, "incident", None, "boss", world.clock.now())

        report = world.work()

        assert report.left == {"paused": 6}
        assert world.store.attempts == world.stores["t"].attempts == []


def test_what_an_older_version_planned_is_dropped_and_never_deleted(tmp_path: Path) -> None:
    """P7: whatever state it is in, also with a result still missing."""
    with World(tmp_path, policy()) as world:
        world.fill(5)
        old = world.plan()
        world.system.queue.publish(
            world.system.work.waiting(world.system.work.versions()[0].row, 3), world.clock.now()
        )
        lost = world.system.queue.receive(
            world.system.work.versions()[0].row, 1, world.clock.now(), timedelta(seconds=60)
        )
        world.restart(policy(version="v2", days=170))
        world.clock.step(HOUR)
        new = world.plan()

        report = world.work()

        assert world.outcomes(old) == {"superseded": 5}
        assert world.outcomes(new) == {"deleted": 5}
        assert report.outcomes == {"superseded": 5, "deleted": 5}
        assert len(world.store.attempts) == 5
        assert len(world.system.work.record(
            [Completed(lost[0], Outcome.DELETED)], "late", world.clock.now())) == 1  # fmt: skip
        world.assert_reconciled()


def test_a_worker_whose_file_lacks_the_current_version_leaves_it_alone(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(5)
        world.plan()
        with world.another(policy(version="v2")) as newer:
            newer.clock.step(HOUR)
            newer.plan()
            world.clock.step(HOUR)

            report = world.work()

            assert report.outcomes == {"superseded": 5}
            assert report.left == {"not_in_this_file": 5}
            assert world.store.attempts == []
            assert newer.work().outcomes == {"deleted": 5}


def test_an_overwritten_object_survives_and_is_no_failure(tmp_path: Path) -> None:
    """O-RACE-01"""
    with World(tmp_path, policy()) as world:
        world.put("exports/rep.json", content="A")
        run = world.plan()
        world.put("exports/rep.json", content="B", age=world.clock.now())

        report = world.work()

        assert world.store.objects["exports/rep.json"].etag == listed("x", content="B").etag
        assert report.outcomes == {"changed": 1}
        assert report.left == {}
        assert world.run(run).dead == 0
        world.clock.step(HOUR)
        assert world.plan().planned == 0, "the next plan waits until it has aged"


@pytest.mark.parametrize("why", ["older than five minutes", "retried", "redriven"])
def test_an_identical_upload_is_noticed_by_a_second_look(tmp_path: Path, why: str) -> None:
    """P2: the ETag is the same, so only LastModified tells."""
    with World(tmp_path, policy(attempts=Attempts(permission=1))) as world:
        key = "exports/rep.json"
        world.put(key, content="same")
        world.plan()
        if why == "older than five minutes":
            world.clock.step(timedelta(minutes=5, seconds=1))
        if why == "redriven":
            world.store.refuse = failing(FailureClass.PERMISSION)
            assert world.work().dead == 1
            world.redrive()
        if why == "retried":
            world.store.refuse = failing(FailureClass.TRANSIENT)
            world.work(stopping=lambda: bool(world.store.attempts))
        world.store.refuse = lambda key: None
        world.put(key, content="same", age=world.clock.now())

        report = world.work()

        assert report.outcomes == {"changed": 1}
        assert key in world.store.objects


def test_the_window_that_remains_is_five_minutes_long(tmp_path: Path) -> None:
    """P2: what the README admits. A second look at everything would double the requests."""
    with World(tmp_path, policy()) as world:
        world.put("exports/rep.json", content="same")
        world.plan()
        world.put("exports/rep.json", content="same", age=world.clock.now())
        world.clock.step(timedelta(minutes=4))

        assert world.work().outcomes == {"deleted": 1}


def test_a_key_that_comes_back_is_a_new_operation(tmp_path: Path) -> None:
    """O-IDEM-02"""
    june, july = datetime(2026, 6, 1, tzinfo=NOW.tzinfo), datetime(2026, 7, 10, tzinfo=NOW.tzinfo)
    with World(tmp_path, policy()) as world:
        key = "exports/daily.json"
        world.clock.set(june)
        world.put(key, content="daily", age=OLD)
        first = world.plan()
        world.system.queue.publish(
            world.system.work.waiting(world.system.work.versions()[0].row, 1), june + HOUR
        )
        world.clock.set(june + HOUR)
        duplicate = world.system.queue.receive(
            world.system.work.versions()[0].row, 1, world.clock.now(), timedelta(seconds=60)
        )
        world.clock.step(timedelta(minutes=2))
        assert world.work().outcomes == {"deleted": 1}
        world.put(key, content="daily", age=june + timedelta(days=1))

        world.clock.set(june + timedelta(days=2))
        attempts = world.system.work  # the first command once more, by somebody who kept it
        (claimed,) = duplicate
        results = _attempt(world, claimed)
        assert results == [Outcome.CHANGED]
        assert attempts.record([Completed(claimed, Outcome.DELETED)], "late", world.clock.now())
        assert key in world.store.objects

        world.clock.set(july)
        second = world.plan()
        report = world.work()

        assert (second.planned, second.already_completed) == (1, 0)
        assert report.outcomes == {"deleted": 1}
        assert world.outcomes(first) == {"deleted": 1}
        assert world.store.objects == {}


def _attempt(world: World, operation: Operation) -> list[Result]:
    system = world.system
    stage = attempt.Attempts(world.store, world.store, system.work, world.clock, system.depot)
    return stage.make(world.system.policy("exports"), [operation])


def test_an_error_nobody_foresaw_is_charged_to_its_own_key_only(tmp_path: Path) -> None:
    """P9: one poisonous key among a thousand."""
    with World(tmp_path, policy()) as world:
        keys = world.fill(1_000)
        poison = keys[421]

        def refuse(key: str) -> None:
            if key == poison:
                raise RuntimeError("a fault of ours")

        world.store.refuse = refuse
        run = world.plan()

        report = world.work()

        (letter,) = world.dead()
        assert (letter.key, letter.failure_class) == (poison, FailureClass.UNKNOWN)
        assert letter.error == "RuntimeError: a fault of ours"
        assert report.completed == 999
        assert world.outcomes(run).keys() <= {"deleted", "absent"}
        assert set(world.store.objects) == {poison}
        world.assert_reconciled()


def test_a_store_that_was_emptied_by_somebody_else_is_no_failure(tmp_path: Path) -> None:
    """O-RACE-02"""
    with World(tmp_path, policy()) as world:
        world.fill(20)
        run = world.plan()
        world.store.objects.clear()

        report = world.work()

        assert report.outcomes == {"absent": 20}
        assert world.run(run).state is RunState.DRAINED
        assert world.system.records.tallies(run, "outcome")["absent"].bytes == 0


class TestGenerations:
    """P7: never the current one, and nothing at all once it has vanished."""

    PATTERN = r"exports/(?P<generation>\d{4}-\d{2})/"

    def world(self, folder: Path) -> World:
        world = World(folder, policy(generation=self.PATTERN, keep_generations=1))
        for month in ("2026-01", "2026-02", "2026-03"):
            world.put(f"exports/{month}/a.json", f"exports/{month}/b.json")
        return world

    def test_the_newest_generation_is_never_touched(self, tmp_path: Path) -> None:
        with self.world(tmp_path) as world:
            run = world.plan()
            world.work()

            assert run.protected == {"generation": 2}
            assert set(world.store.objects) == {"exports/2026-03/a.json", "exports/2026-03/b.json"}
            assert not any(key.startswith("exports/2026-03") for key in world.store.attempts)

    def test_once_the_kept_generation_has_vanished_all_is_protected(self, tmp_path: Path) -> None:
        with self.world(tmp_path) as world:
            run = world.plan()
            for key in ("exports/2026-03/a.json", "exports/2026-03/b.json"):
                del world.store.objects[key]
            world.store._order = None

            report = world.work()

            assert report.outcomes == {"protected": 4}
            assert world.store.attempts == []
            assert world.run(run).state is RunState.DRAINED
            world.clock.step(HOUR)
            again = world.plan()
            assert (again.planned, again.protected) == (2, {"generation": 2})
            assert world.work().outcomes == {"deleted": 2}
            assert set(world.store.objects) == {"exports/2026-02/a.json", "exports/2026-02/b.json"}
            world.assert_reconciled()

    def test_it_is_asked_again_after_a_minute(self, tmp_path: Path) -> None:
        with self.world(tmp_path) as world:
            world.store.refuse = failing(FailureClass.TRANSIENT)
            world.plan()
            first = len(world.store.attempts)

            def stopping() -> bool:
                if len(world.store.attempts) > first and world.store.objects.keys() >= {
                    "exports/2026-03/a.json"
                }:
                    for key in ("exports/2026-03/a.json", "exports/2026-03/b.json"):
                        del world.store.objects[key]
                    world.store._order = None
                    world.store.refuse = lambda key: None
                    world.clock.step(timedelta(seconds=61))
                return False

            report = world.work(stopping=stopping)

            assert report.outcomes == {"protected": 4}
            assert len(world.store.objects) == 4
