"""The PostgreSQL that benchmarks use: databases of their own, and what its sessions wait for."""

import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa

POSTGRESQL = os.environ.get(
    "BESTBEFORE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
_SAMPLE_SECONDS = 0.02


def there() -> bool:
    """Whether the server answers; says so where it does not."""
    try:
        connected(POSTGRESQL).close()
    except psycopg.OperationalError as error:
        print(f"  PostgreSQL is left out: {error}")
        return False
    return True


def durability() -> str:
    """What a commit waits for."""
    names = "fsync", "synchronous_commit", "full_page_writes"
    with connected(POSTGRESQL) as connection:
        return ", ".join(
            f"{name} {value}"
            for name in names
            for (value,) in connection.execute("SELECT current_setting(%s)", [name])
        )


def connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


@contextmanager
def database() -> Iterator[str]:
    """The URL of an empty database, dropped at the end."""
    with _created("TEMPLATE template0 ENCODING 'UTF8'") as url:
        yield url


@contextmanager
def copy_of(url: str) -> Iterator[str]:
    """The URL of a copy of the database at *url*, file by file and checkpointed (PostgreSQL 15).

    Nobody may be connected to the original.
    """
    with _created(f"TEMPLATE {sa.make_url(url).database} STRATEGY FILE_COPY") as copy:
        yield copy


@contextmanager
def watched(url: str) -> Iterator[Counter[str]]:
    """What the server's sessions are at, looked at all the time."""
    seen: Counter[str] = Counter()
    ended = threading.Event()

    def look() -> None:
        with connected(url) as connection:
            while not ended.wait(_SAMPLE_SECONDS):
                seen.update(
                    name
                    for (name,) in connection.execute(
                        "SELECT coalesce(wait_event, 'processor') FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                        "AND state <> 'idle'"
                    )
                )

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def shares(seen: Counter[str]) -> str:
    """The most frequent ones. ClientRead in a transaction: the server waits for our process."""
    total = seen.total() or 1
    return ", ".join(f"{name} {n / total:.0%}" for name, n in seen.most_common(4))


@contextmanager
def _created(how: str) -> Iterator[str]:
    server = sa.make_url(POSTGRESQL)
    name = f"bestbefore_bench_{secrets.token_hex(4)}"
    with connected(POSTGRESQL) as connection:
        connection.execute(f"CREATE DATABASE {name} {how}")
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        with connected(POSTGRESQL) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
