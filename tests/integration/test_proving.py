"""Every run that drains ends with one fresh look at its source, within bounds."""

import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.app import proving
from bestbefore.app.proving import BUDGET
from bestbefore.domain.failure import Attempts, FailureClass
from bestbefore.ports.objects import KeyRange, Page
from bestbefore.ports.records import Verification
from support.clock import NOW
from support.memory import MemoryStore
from support.shops import Shop
from support.worlds import World, failing, policy


class CountingStore(MemoryStore):
    """Counts listing pages; ``before_page`` runs before each."""

    def __init__(self) -> None:
        super().__init__(page_size=10)
        self.pages = 0
        self.before_page = lambda: None

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        self.pages += 1
        self.before_page()
        return super().page(bucket, prefix, keys)


def go_on() -> bool:
    return False


def test_a_run_that_drained_is_verified_once_whoever_asks(
    tmp_path: Path, state: str | None
) -> None:
    store = CountingStore()
    with (
        World(tmp_path, policy(attempts=Attempts(permission=1)), stores={"s": store},
              state_url=state) as world,
        world.another() as other,
    ):  # fmt: skip
        first, *_ = world.fill(3)
        store.refuse = failing(FailureClass.PERMISSION, first)
        world.plan()
        world.work()
        assert world.system.records.verification("exports") is None
        pages = store.pages

        for process in (world, other, world):
            process.system.proving.run(go_on)

        found = world.system.records.verification("exports")
        assert found is not None
        assert (found.overdue, found.at >= NOW) == (1, True)
        assert store.pages == pages + 1


def test_a_run_that_is_not_drained_is_not_verified(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(3)
        world.plan()

        world.system.proving.run(go_on)

        assert world.system.records.verification("exports") is None


def test_a_scan_that_found_nothing_is_its_own_proof(tmp_path: Path) -> None:
    store = CountingStore()
    with World(tmp_path, policy(), stores={"s": store}) as world:
        world.put("exports/young.json", age=NOW)
        world.plan()
        pages = store.pages

        world.system.proving.run(go_on)

        assert world.system.records.verification("exports") == Verification(NOW, 0, None, 0)
        assert store.pages == pages


def test_a_look_that_takes_too_long_leaves_the_older_number_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    store = CountingStore()
    with World(tmp_path, policy(), stores={"s": store}) as world:
        world.fill(100)
        world.plan()
        world.work()
        older = Verification(NOW - timedelta(days=1), 7, NOW - timedelta(days=90), 0)
        world.system.records.save_verification("exports", older)
        for n in range(100):  # so that there is more than one page to list
            world.put(f"exports/young-{n:03}.json", age=NOW)
        store.before_page = lambda: world.clock.step(BUDGET)
        before = store.pages

        world.system.proving.run(go_on)
        looked = store.pages - before
        world.system.proving.run(go_on)

        assert world.system.records.verification("exports") == older
        assert 0 < looked < 10
        assert store.pages == before + looked


def test_what_a_killed_process_had_claimed_is_verified_by_another(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(1)
        world.plan()
        world.work()
        claimed = world.system.proofs.claim(
            {"exports": "v1"}, world.clock.now(), timedelta(minutes=10)
        )
        assert claimed is not None  # and its process dies here

        world.system.proving.run(go_on)
        assert world.system.records.verification("exports") is None
        world.clock.step(timedelta(minutes=11))
        world.system.proving.run(go_on)

        assert world.system.records.verification("exports") is not None


def test_rows_are_verified_as_well(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.fill(50)
        shop.plan()
        shop.work()
        shop.fill(3)  # written late, and old already

        shop.system.proving.run(go_on)

        (row,) = shop.status()["policies"]
        assert row["verified"]["overdue"] == 3


def test_a_look_in_the_way_of_nobody_while_a_worker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at one policy hangs, and what another one has to do is done meanwhile."""
    # The worker's clock runs as fast as this machine lets it.
    monkeypatch.setattr(proving, "BUDGET", timedelta(days=10_000))
    slow, quick = CountingStore(), MemoryStore()
    hanging, go = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        assert go.wait(60)

    with World(
        tmp_path,
        policy(store="slow"),
        policy("other", store="quick"),
        stores={"slow": slow, "quick": quick},
    ) as world:
        world.fill(1, "slow")
        world.plan()
        world.work()
        slow.before_page = hang
        done = threading.Event()
        worker = threading.Thread(
            target=lambda: world.worker(drain=False, stopping=done.is_set).run()
        )
        worker.start()
        try:
            assert hanging.wait(60)
            world.fill(5, "quick")
            world.plan("other")
            until = time.monotonic() + 60
            while quick.objects and time.monotonic() < until:
                time.sleep(0.01)
            assert not quick.objects
            assert world.system.records.verification("exports") is None
        finally:
            go.set()
            until = time.monotonic() + 60
            while world.system.records.verification("exports") is None:
                assert time.monotonic() < until
                time.sleep(0.01)
            done.set()
            worker.join(60)
