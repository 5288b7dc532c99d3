"""A small backlog of rows is deleted before the call that planned it is answered."""

from datetime import timedelta
from pathlib import Path

from bestbefore.domain.report import Report
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.stages.work import Options
from support.shops import Shop


def answer(shop: Shop) -> tuple[Run, Report | None]:
    """What a call at this moment leads to: its run as it is stored then, and what was done."""
    planned, report = shop.system.answer(
        shop.policy,
        shop.clock.now().replace(microsecond=0),
        Trigger.HTTP,
        Options(drain=True),
        stopping=lambda: False,
    )
    return shop.system.records.run(planned.run.run_id), report


def test_a_few_rows_are_gone_when_the_call_is_answered(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.fill(50)

        run, report = answer(shop)

        assert report is not None
        assert report.rows == {"deleted": 50}
        assert (run.state, run.completed, shop.left()) == (RunState.DRAINED, 5, 0)
        again, nothing = answer(shop)
        assert (again.run_id, nothing) == (run.run_id, None)


def test_more_rows_than_that_are_left_to_the_workers(tmp_path: Path) -> None:
    with Shop(tmp_path, policy={"synchronous_below": 50}) as shop:
        shop.fill(50)

        run, report = answer(shop)

        assert report is None
        assert (run.state, run.waiting, shop.left()) == (RunState.OPEN, 5, 50)
        assert shop.work().rows == {"deleted": 50}


def test_what_is_not_done_in_time_goes_on_behind_the_answer(tmp_path: Path) -> None:
    within = timedelta(seconds=3)
    slow = {"pause": timedelta(seconds=1)}
    with Shop(tmp_path, policy={"synchronous_within": within}, **slow) as shop:
        shop.fill(50)
        began = shop.clock.now()

        run, report = answer(shop)

        assert report is not None
        assert report.stopped
        assert shop.clock.now() - began < within + timedelta(seconds=1)
        assert 0 < shop.left() < 50
        assert shop.left() == 50 - report.rows["deleted"]
        assert run.state is RunState.OPEN
        assert shop.work().rows["deleted"] == 50 - report.rows["deleted"]
        assert shop.left() == 0


def test_a_plan_alone_never_deletes(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.fill(5)

        shop.plan()

        assert shop.left() == 5
