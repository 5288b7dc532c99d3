"""Delete the same half of the same table on MariaDB beside pt-archiver, in interleaved rounds."""

import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from bench.rounds import Bestbefore, hold, timed
from bench.shipments import AGE, LEFT, NOTHING, TABLE, configuration, cutoff, left

SERVER = os.environ.get("BESTBEFORE_TEST_MARIADB", "mysql+pymysql://root@127.0.0.1:3306/")
_SIZES = (100, 1_000, 5_000)
_USUAL = 1_000
_FULL = f"{TABLE}_full"
_FILL = f"""
INSERT INTO {_FULL}
SELECT seq,
       if(seq <= :old,
          now() - INTERVAL 90 DAY + INTERVAL seq * (58 * 86400 / :old) SECOND,
          now() - INTERVAL 29 DAY + INTERVAL (seq - :old) * (28 * 86400 / :young) SECOND)
       + INTERVAL crc32(seq) % 3600 SECOND,
       crc32(seq) % 200000, concat('carrier-', seq % 50), repeat(md5(seq), 6)
FROM seq_1_to_{{rows}}
"""
_INDEXES = (
    f"ALTER TABLE {TABLE} ADD INDEX (delivered_at), ADD INDEX (shipment_id), "
    "ADD INDEX (carrier, shipment_id)"
)


def measure(rows: int, rounds: int) -> None:
    """Print the medians beside one bare DELETE, and ours beside pt-archiver's."""
    try:
        sa.create_engine(SERVER).connect().close()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        print(f"  MariaDB is left out: {error}")
        return
    with tempfile.TemporaryDirectory() as folder, _database() as url:
        contest = _Deleting(Path(folder), url, rows)
        contest.fill()
        medians = hold(contest, rounds, f"{rows // 2:,} of {rows:,} rows on MariaDB", rows // 2)
        we_start = contest.starting(rounds)
        contest.end()
    print(f"  of that ours with nothing to delete: {we_start:.2f} s")
    for size in _SIZES:
        if _peer(size) in medians:
            ratio = medians[_peer(size)] / medians[_ours(size)]
            print(f"  pt-archiver takes as long as bestbefore, N = {size:,}: {ratio:.2f} times")


class _Deleting:
    """Everything older than 30 days goes."""

    def __init__(self, folder: Path, url: str, rows: int) -> None:
        self._url = url
        self._rows = rows
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self._bestbefore = Bestbefore(folder / "state")
        self.contestants = {"one bare DELETE (the limit)": self._bare}
        found = shutil.which("pt-archiver")
        if found is None:
            print("  pt-archiver is left out: expected it on the PATH; "
                  "apt-get install percona-toolkit")  # fmt: skip
        for size in _SIZES:
            if found is not None:
                self.contestants[_peer(size)] = partial(self._pt_archiver, found, size)
            self.contestants[_ours(size)] = partial(self._run, size, 1)
        self.contestants[f"{_ours(_USUAL)}, 4 at a time"] = partial(self._run, _USUAL, 4)

    def fill(self) -> None:
        """The rows that each contestant gets a copy of."""
        old = self._rows // 2
        with self._engine.connect() as connection:
            connection.exec_driver_sql(
                f"CREATE TABLE {_FULL} (id bigint PRIMARY KEY, delivered_at timestamp NOT NULL, "
                "shipment_id bigint NOT NULL, carrier varchar(50) NOT NULL, payload text NOT NULL)"
            )
            fill = sa.text(_FILL.format(rows=self._rows))
            connection.execute(fill, {"old": old, "young": self._rows - old})

    def reset(self) -> None:
        """A table as if just built, its pages on the disk, and nothing left to purge."""
        with self._engine.connect() as connection:
            for statement in (
                f"DROP TABLE IF EXISTS {TABLE}, bestbefore_completed_batches",
                f"CREATE TABLE {TABLE} LIKE {_FULL}",
                f"INSERT INTO {TABLE} SELECT * FROM {_FULL} ORDER BY id",
                _INDEXES,
                f"ANALYZE TABLE {TABLE}",
                f"FLUSH TABLES {TABLE} FOR EXPORT",
                "UNLOCK TABLES",
            ):
                connection.exec_driver_sql(statement)
            waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'"
            while int(connection.exec_driver_sql(waiting).one()[1]) > 0:
                time.sleep(0.1)

    def expect_done(self) -> None:
        """Exactly the old rows are gone, whatever a contestant says."""
        with self._engine.connect() as connection:
            found = tuple(connection.exec_driver_sql(LEFT).one())
        assert found == left(self._rows), (found, left(self._rows))

    def starting(self, rounds: int) -> float:
        """The median of what we take where nothing is old."""
        self.reset()
        return statistics.median(self._run(_USUAL, 1, NOTHING) for _ in range(rounds))

    def end(self) -> None:
        self._engine.dispose()

    def _bare(self) -> float:
        statement = f"DELETE FROM {TABLE} WHERE {_old()}"
        with self._engine.connect() as connection:
            began = time.perf_counter()
            connection.exec_driver_sql(statement)
            return time.perf_counter() - began

    def _pt_archiver(self, program: str, size: int) -> float:
        there = sa.make_url(self._url)
        source = {"h": there.host, "P": there.port or 3306, "u": there.username,
                  "p": there.password, "D": there.database, "t": TABLE}  # fmt: skip
        return timed(
            program, "--source", ",".join(f"{k}={v}" for k, v in source.items() if v),
            "--purge", "--bulk-delete", "--limit", str(size), "--commit-each",
            # It would read the payloads, and ask the vendor whether there is a newer version.
            "--primary-key-only", "--no-version-check", "--no-check-charset", "--where", _old(),
        )  # fmt: skip

    def _run(self, size: int, at_a_time: int, age: timedelta = AGE) -> float:
        lines = f"max_concurrency = {at_a_time}"
        self._bestbefore.begin(configuration(self._url, size, lines, age))
        return self._bestbefore("run", "bench", "--yes")


@contextmanager
def _database() -> Iterator[str]:
    """The URL of an empty database, dropped at the end."""
    name = f"bestbefore_bench_{secrets.token_hex(4)}"
    engine = sa.create_engine(SERVER, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield sa.make_url(SERVER).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name}")
    engine.dispose()


def _old() -> str:
    return f"delivered_at < '{cutoff():%Y-%m-%d %H:%M:%S}'"


def _peer(size: int) -> str:
    return f"pt-archiver, N = {size:,}"


def _ours(size: int) -> str:
    return f"bestbefore run, N = {size:,}"
