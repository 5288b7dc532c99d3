"""A PostgreSQL of our own and a replica of it, whose replay can be stopped."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from bestbefore.adapters.rows.pressure import SqlPressure
from bestbefore.domain.throttle import Limits
from support.forks import until
from support.ports import free_port

_ABSENT = "no initdb, pg_ctl and pg_basebackup of PostgreSQL here, or no way to run them"
LIMITS = Limits(replica_lag=timedelta(seconds=0.5))


class Pair:
    """A primary and its replica, each reachable in one folder by its port's number."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._programs = programs
        # The server refuses to run as root.
        self._as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        self.ports = [free_port(), free_port()]
        self._started: list[int] = []

    def start(self) -> None:
        primary, replica = self.ports
        folder = self.folder
        self._run("initdb", "-D", f"{folder}/{primary}", "-A", "trust", "-U", "me", "--no-sync")
        self._start(primary, "wal_level = replica")
        self._run("pg_basebackup", "-h", str(folder), "-p", str(primary), "-U", "me", "-R",
                  "-D", f"{folder}/{replica}", "--checkpoint=fast", "--no-sync")  # fmt: skip
        self._start(replica, "wal_receiver_status_interval = 1")

    def url(self, role: str = "me") -> str:
        return f"postgresql+psycopg://{role}@/postgres?host={self.folder}&port={self.ports[0]}"

    def ask(self, which: int, statement: str) -> object:
        """Run a statement on the primary (0) or on the replica (1)."""
        there = f"host={self.folder} port={self.ports[which]} user=me dbname=postgres"
        with closing(psycopg.connect(there, autocommit=True)) as connection:
            found = connection.execute(statement)
            return found.fetchone() if found.description else None

    def close(self) -> None:
        for port in reversed(self._started):
            self._run("pg_ctl", "-D", f"{self.folder}/{port}", "-m", "immediate", "stop")

    def _start(self, port: int, *settings: str) -> None:
        lines = ["listen_addresses = ''", f"unix_socket_directories = '{self.folder}'",
                 f"port = {port}", "fsync = off", "shared_buffers = 8MB", *settings]  # fmt: skip
        more = f"{self.folder}/{port}/postgresql.conf"
        self._program(["sh", "-c", f"cat >> {more}"], "\n".join([*lines, ""]))
        data, log = f"{self.folder}/{port}", f"{self.folder}/{port}.log"
        self._run("pg_ctl", "-D", data, "-w", "-l", log, "start")
        self._started.append(port)

    def _run(self, program: str, *arguments: str) -> None:
        self._program([str(self._programs / program), *arguments])

    def _program(self, words: list[str], given: str = "") -> None:
        subprocess.run(
            [*self._as_user, *words], input=given, text=True, check=True, cwd="/",
            stdout=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip


def _programs() -> Path | None:
    """Where all of PostgreSQL's programs are."""
    found = [Path(shutil.which("pg_basebackup") or "nowhere").parent]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wanted = ("initdb", "pg_ctl", "pg_basebackup")
    return next((p for p in found if all((p / name).exists() for name in wanted)), None)


@pytest.fixture
def pair() -> Iterator[Pair]:
    programs = _programs()
    if programs is None or (os.getuid() == 0 and shutil.which("runuser") is None):
        if os.environ.get("CI"):
            pytest.fail(_ABSENT)
        pytest.skip(_ABSENT)
    with tempfile.TemporaryDirectory(prefix="bestbefore-pair-") as folder:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        made = Pair(programs, Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def strain(pair: Pair) -> Iterator[Callable[[], str]]:
    pressure = SqlPressure(pair.url())
    yield lambda: str(pressure.strain(LIMITS) or "")
    pressure.close()


def test_a_replica_that_falls_behind_is_strain_until_it_has_caught_up(
    pair: Pair, strain: Callable[[], str]
) -> None:
    pair.ask(0, "CREATE TABLE t (id integer)")
    in_step = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
    until(lambda: pair.ask(0, in_step), what="the replica")
    until(lambda: strain() == "", what="a lag that is measured anew")

    pair.ask(1, "SELECT pg_wal_replay_pause()")

    def behind() -> str:
        pair.ask(0, "INSERT INTO t VALUES (1)")
        return strain()

    found = until(behind, what="the lag")
    assert found.startswith("replica_lag: a replica is ")
    assert found.endswith(" s behind, at most 0.5 s is allowed")

    pair.ask(1, "SELECT pg_wal_replay_resume()")
    until(lambda: not strain(), what="the end of it")


def test_who_may_not_see_how_far_replicas_are_behind_is_told_so(pair: Pair) -> None:
    pair.ask(0, "CREATE ROLE poor LOGIN")
    until(lambda: pair.ask(0, "SELECT 1 FROM pg_stat_replication"), what="the replica")
    poor = SqlPressure(pair.url("poor"))

    assert "this role may not see" in str(poor.strain(LIMITS))

    pair.ask(0, "GRANT pg_monitor TO poor")
    assert "may not see" not in str(poor.strain(LIMITS))
    poor.close()
