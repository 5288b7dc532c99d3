"""O-DBF-04: no space is left for the ledger while a worker works. The disk is a real one."""

import logging
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.ports.ledger import LedgerError
from support.audit import Audit
from support.clock import NOW
from support.worlds import World, policy

MINUTES = timedelta(minutes=5)
PROBE = timedelta(seconds=30)
_SIZE = 6_000_000


class Disk:
    """A small disk, and a file on it that leaves nothing to others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def is_full(self) -> bool:
        return self._ballast.exists()

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            for size in (65_536, 4_096, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "bestbefore-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(words, check=False).returncode:
        pytest.skip("only root may mount a disk of its own, on Linux")
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_worker_whose_ledger_has_no_space_waits_and_then_completes_everything(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """O-DBF-04"""
    caplog.set_level(logging.INFO, "bestbefore")
    with World(disk.folder, policy()) as world:
        keys = world.fill(100)
        run = world.plan()
        writes: list[bool] = []
        sa.event.listen(
            world.system.database._writer, "begin", lambda _: writes.append(disk.is_full)
        )
        asleep = world.clock.sleep

        def refuse(_key: str) -> None:
            """The first delete is done when there is no space any more to note it."""
            if not any(writes):
                disk.fill()

        def sleep(seconds: float) -> None:
            asleep(seconds)
            if disk.is_full and world.clock.now() - NOW >= MINUTES:
                disk.free()

        world.store.refuse = refuse
        world.clock.sleep = sleep  # type: ignore[method-assign]

        world.work(drain=False, stopping=lambda: world.run(run).completed == len(keys))

        # Next to those that wait, one that needs no room of its own may have gone through.
        assert 2 <= sum(writes) <= 2 + MINUTES / PROBE, "it looks again every half minute"
        alerts = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert ["make space there" in alert.getMessage() for alert in alerts] == [True]
        assert "there is space again" in caplog.text
        assert sorted(world.store.deleted) == keys, "what was done is not done again"
        assert world.outcomes(run) == {"deleted": len(keys)}
        assert world.dead() == []
        world.assert_reconciled()
        assert Audit(disk.folder / "state.db").problems() == []


def test_a_worker_that_waits_for_space_ends_when_it_is_told_to(disk: Disk) -> None:
    with World(disk.folder, policy()) as world:
        world.fill(100)
        run = world.plan()
        disk.fill()

        with pytest.raises(LedgerError, match="make space there"):
            world.work(drain=False, stopping=lambda: world.clock.now() - NOW >= MINUTES)

        disk.free()
        world.work()
        assert world.outcomes(run) == {"deleted": 100}


def test_a_drain_does_not_wait_for_space_and_the_next_one_completes_everything(disk: Disk) -> None:
    with World(disk.folder, policy()) as world:
        world.fill(100)
        run = world.plan()
        disk.fill()
        began = world.clock.now()

        with pytest.raises(LedgerError, match="make space there"):
            world.work()

        assert world.clock.now() - began < PROBE
        disk.free()
        world.work()
        assert world.outcomes(run) == {"deleted": 100}
        world.assert_reconciled()
