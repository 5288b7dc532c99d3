"""Workers that keep to what a database may be asked for: real ledger, real table, real loop."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.connecting import Tables, connect_tables
from bestbefore.app.settings import DatabaseSettings, ThrottleSettings
from bestbefore.domain.hold import Hold, Scope
from bestbefore.domain.report import Report
from bestbefore.domain.rows import Effect
from bestbefore.ports.records import OperationFilter
from bestbefore.ports.rows import RowDeleter
from support.clock import ManualClock
from support.forks import until
from support.shops import Shop

PATIENCE = 30


class Wrapped:
    """A deleter around the real one."""

    def __init__(self, deleter: RowDeleter) -> None:
        self._deleter = deleter

    def delete(self, *given: Any) -> Any:
        return self._deleter.delete(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deleter, name)


class Held(Wrapped):
    """One that waits in each batch, once *after* of them are through, until it is let go."""

    def __init__(self, deleter: RowDeleter, after: int = 0) -> None:
        super().__init__(deleter)
        self.go = threading.Event()
        self.inside = threading.Event()
        self.begun = 0
        self._after = after

    def delete(self, *given: Any) -> Any:
        self.begun += 1
        if self.begun > self._after:
            self.inside.set()
            assert self.go.wait(PATIENCE)
        return super().delete(*given)


class Counted(Wrapped):
    """One that knows how many are inside at a time."""

    def __init__(self, deleter: RowDeleter) -> None:
        super().__init__(deleter)
        self.at_a_time: list[int] = []
        self._inside = 0
        self._lock = threading.Lock()

    def delete(self, *given: Any) -> Any:
        with self._lock:
            self._inside += 1
            self.at_a_time.append(self._inside)
        try:
            return super().delete(*given)
        finally:
            with self._lock:
                self._inside -= 1


class Timed(Wrapped):
    """One in which each row takes 5 ms."""

    def delete(self, *given: Any) -> Any:
        effect = super().delete(*given)
        assert isinstance(effect, Effect)
        return replace(effect, seconds=effect.rows * 0.005)


@contextmanager
def shop_with(
    folder: Path, deleter: Callable[[RowDeleter], Any], **more: Any
) -> Iterator[tuple[Shop, Any]]:
    """A shop, and what *deleter* made of its own."""
    made: list[Any] = []

    def tables(settings: DatabaseSettings) -> Tables:
        real = connect_tables(settings)
        made.append(deleter(real.deleter))
        return replace(real, deleter=made[0])

    with Shop(folder, tables=tables, **more) as shop:
        shop.system.tables("shop")
        yield shop, made[0]


@contextmanager
def background(shop: Shop, **options: Any) -> Iterator[list[Report]]:
    """A worker in a thread, which is stopped at the end; its report is then in the list."""
    stop, reports = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(shop.worker(drain=False, stopping=stop.is_set, **options).run)
        try:
            yield reports
        finally:
            stop.set()
            reports.append(future.result(PATIENCE))


def planned(shop: Shop, rows: int = 100) -> None:
    shop.fill(rows)
    shop.plan()


def rounds(n: int) -> tuple[Callable[[Report], None], Callable[[], None]]:
    """For a worker's `on_progress`, and what waits until it went round *n* times more."""
    went = threading.Semaphore(0)

    def wait() -> None:
        while went.acquire(blocking=False):
            pass
        for _ in range(n):
            assert went.acquire(timeout=PATIENCE)

    return lambda _: went.release(), wait


# -- the hours of the day ----------------------------------------------------------------------


def at(hour: int, minute: int = 0) -> ManualClock:
    return ManualClock(datetime(2026, 7, 1, hour, minute, tzinfo=UTC))


def test_a_shut_window_ends_a_drain_and_is_named(tmp_path: Path) -> None:
    window = (time(1), time(5))
    with Shop(tmp_path, clock=at(12), window=window, timezone="Asia/Tokyo") as shop:
        planned(shop)

        report = shop.work()

        assert report.left == {"window": 10}
        assert (report.received, shop.left()) == (0, 100)
        (throttle,) = shop.status()["throttles"]
        assert throttle["connection"] == "shop"
        assert throttle["reason"] == "window: 01:00-05:00 in Asia/Tokyo"
        assert throttle["until"] == "2026-07-01T16:00:00Z"

        shop.clock.set(datetime(2026, 7, 1, 16, tzinfo=UTC))
        assert shop.status()["throttles"] == []
        assert shop.work().left == {}
        assert shop.left() == 0


def test_a_window_that_shuts_ends_what_is_begun_and_begins_nothing(tmp_path: Path) -> None:
    clock = at(4, 59)
    went, several_rounds = rounds(5)
    with shop_with(
        tmp_path, lambda real: Held(real, 20), clock=clock, window=(time(1), time(5)),
        max_concurrency=1,
    ) as (shop, held), ThreadPoolExecutor(1) as pool:  # fmt: skip
        planned(shop, 500)
        drain = pool.submit(shop.work, on_progress=went)
        assert held.inside.wait(PATIENCE)
        clock.step(timedelta(minutes=1))
        several_rounds()
        held.go.set()
        report = drain.result(PATIENCE)

        assert held.begun == 21
        assert (report.received, report.completed, report.left) == (21, 21, {"window": 29})
        assert shop.left() == 290


# -- pauses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 20])
def test_a_pause_takes_effect_within_one_batch(tmp_path: Path, after: int) -> None:
    """P12: what is begun ends, and nothing more begins, also not of what a thread has in hand."""
    went, several_rounds = rounds(5)
    with shop_with(tmp_path, lambda real: Held(real, after), max_concurrency=1) as (shop, held):
        planned(shop, 500)
        with background(shop, on_progress=went) as reports:
            assert held.inside.wait(PATIENCE)
            shop.system.controls.pause(None, "incident", None, "me", shop.clock.now())
            several_rounds()
            held.go.set()
            several_rounds()
            assert held.begun == after + 1
            assert shop.left() == 500 - 10 * held.begun

            shop.system.controls.resume_work(None, "me", shop.clock.now())
            until(lambda: shop.left() == 0, what="the end")
            several_rounds()
        assert (reports[0].received, reports[0].completed, reports[0].abandoned) == (50, 50, 0)


def test_a_hold_takes_effect_within_one_batch(tmp_path: Path) -> None:
    """What is begun ends, and all else is kept, also of what a thread has in hand."""
    with (
        shop_with(tmp_path, lambda real: Held(real, 20), max_concurrency=1) as (shop, held),
        ThreadPoolExecutor(1) as pool,
    ):
        planned(shop, 500)
        drain = pool.submit(shop.work)
        assert held.inside.wait(PATIENCE)
        hold = Hold(Scope(policy="updates"), "audit", None, "me", shop.clock.now())
        shop.system.holds.add(hold)
        held.go.set()

        assert drain.result(PATIENCE).outcomes == {"deleted": 21, "protected": 29}
        assert shop.left() == 290


# -- concurrency -------------------------------------------------------------------------------


def test_one_process_begins_with_one_batch_and_never_has_more_than_it_may(
    tmp_path: Path,
) -> None:
    """Of several runs, so that what is claimed together may be of any."""
    with shop_with(tmp_path, Counted, max_concurrency=3) as (shop, counted):
        for _ in range(10):
            planned(shop, 100)
            shop.clock.step(timedelta(days=1))

        assert shop.work().completed == 100

        assert set(counted.at_a_time[:8]) == {1}
        assert 1 < max(counted.at_a_time) <= 3


# -- strain ------------------------------------------------------------------------------------


def reasons(shop: Shop) -> list[str]:
    """Why work waits."""
    return [throttle["reason"] for throttle in shop.status()["throttles"]]


def test_strain_holds_work_back_and_its_end_lets_it_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    throttle = ThrottleSettings(sql="SELECT busy FROM foreground")
    went, several_rounds = rounds(20)
    with Shop(tmp_path, throttle=throttle) as shop:
        shop.ask("CREATE TABLE foreground (busy)")
        shop.ask("INSERT INTO foreground VALUES (3)")
        planned(shop)
        with ThreadPoolExecutor(1) as pool:
            drain = pool.submit(shop.work, on_progress=went)
            until(lambda: shop.status()["throttles"], what="a throttle")
            several_rounds()
            # Before it has answered for the first time, the reason is that it has not.
            until(lambda: reasons(shop) == ["sql: it gives 3, which is above 0"], what="the answer")
            assert shop.left() == 100
            waiting = list(shop.system.records.operations(OperationFilter()))
            assert {operation.state for operation in waiting} == {"pending"}
            assert {operation.failure_class for operation in waiting} == {None}

            shop.ask("UPDATE foreground SET busy = 0")
            report = drain.result(PATIENCE)

        assert (report.completed, report.left, shop.left()) == (10, {}, 0)
        assert not report.retried, "what waits has not failed"
        assert shop.status()["throttles"] == []
        # Once each time it changes: a question may go unanswered, too, while the table is written.
        said = [text for text in caplog.messages if "work on shop" in text]
        assert "work on shop waits: sql: it gives 3, which is above 0" in said
        assert all(earlier != later for earlier, later in pairwise(said))


def test_a_question_that_makes_no_sense_holds_work_back_and_says_why(tmp_path: Path) -> None:
    throttle = ThrottleSettings(sql="SELECT busy FROM foregroud")
    went, several_rounds = rounds(20)
    with Shop(tmp_path, throttle=throttle) as shop:
        planned(shop)
        with background(shop, on_progress=went) as reports:
            until(lambda: shop.status()["throttles"], what="a throttle")
            several_rounds()
            until(lambda: "no such table: foregroud" in "".join(reasons(shop)), what="the answer")
        assert reports[0].received == 0
        assert shop.left() == 100


# -- rates -------------------------------------------------------------------------------------


def test_a_drain_keeps_the_rate(tmp_path: Path) -> None:
    """By its own clock, which only moves while it waits."""
    with Shop(tmp_path, rows_per_second=100) as shop:
        planned(shop, 500)
        began = shop.clock.now()

        report = shop.work()

        took = (shop.clock.now() - began).total_seconds()
        assert report.completed == 50
        assert 4.7 <= took <= 6


def test_a_drain_keeps_its_pauses(tmp_path: Path) -> None:
    with Shop(tmp_path, pause=timedelta(milliseconds=100)) as shop:
        planned(shop, 500)
        began = shop.clock.now()

        assert shop.work().completed == 50

        took = (shop.clock.now() - began).total_seconds()
        assert 4.8 <= took <= 6


# -- sizes -------------------------------------------------------------------------------------


def test_a_target_duration_makes_the_next_batches_as_large_as_they_may_be(
    tmp_path: Path,
) -> None:
    policy = {"batch_size": 100, "target_duration": timedelta(milliseconds=200)}
    with shop_with(tmp_path, Timed, policy=policy) as (shop, _):

        def sizes() -> set[int]:
            return {
                operation.size
                for operation in shop.system.records.operations(OperationFilter())
                if operation.state != "completed"
            }

        shop.fill(1_000)
        shop.plan()
        assert sizes() == {100}
        assert shop.status()["policies"][0]["batch_size"] == 100
        shop.work()
        assert shop.status()["policies"][0]["batch_size"] == 25

        seen = []
        for _ in range(8):
            shop.clock.step(timedelta(days=1))
            shop.fill(600)
            shop.plan()
            seen.append(max(sizes()))
            shop.work()

        assert seen[0] == 25, "a quarter at once"
        assert seen == sorted(seen), "and then by a fifth at a time"
        assert 36 <= seen[-1] <= 40
        assert shop.left() == 0
