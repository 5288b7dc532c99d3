"""A real Redis: queues of our own on it, gone after the test, and servers of our own to break.

The shared one is at `URL`. Nothing but our own queues is touched there.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self, TypeVar

import pytest
import redis
from bullmq import Job, Queue
from redis.asyncio import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bestbefore.adapters.queues.bullmq import BullSettings, connect
from bestbefore.contracts.transport import name_of, receive
from bestbefore.ports.transport import Broker
from support.loops import run as run_alone
from support.ports import free_port

URL = os.environ.get("BESTBEFORE_TEST_REDIS", "redis://127.0.0.1:6379/0")
T = TypeVar("T")


def official(settings: BullSettings, use: Callable[[Queue], Awaitable[T]]) -> T:
    """What *use* does with BullMQ's own Python client."""

    async def run() -> T:
        client = Redis.from_url(settings.url, decode_responses=True)
        queue = Queue(settings.queue, {"connection": client, "prefix": settings.prefix})
        try:
            return await use(queue)
        finally:
            await queue.close()

    return run_alone(run())


def put(settings: BullSettings, body: bytes) -> None:
    """A job whose data are these bytes, JSON or not: what a client without BullMQ could write."""

    async def add(queue: Queue) -> None:
        job = Job(queue, "foreign", {}, {"jobId": f"foreign-{secrets.token_hex(8)}"})
        async with queue.client.pipeline(transaction=True) as pipe:
            await queue.scripts.addJob(job, pipe)
            pipe.hset(queue.toKey(job.id), "data", body)
            await pipe.execute()

    official(settings, add)


class Bull:
    """One empty queue of BullMQ, and everything connected to it."""

    def __init__(self, url: str) -> None:
        self.settings = BullSettings(url, f"test-{secrets.token_hex(6)}")
        self._brokers: list[Broker] = []

    def connect(self, url: str | None = None) -> Broker:
        """A broker as another process would have it; closed after the test."""
        settings = self.settings
        if url is not None:
            settings = BullSettings(url, settings.queue, settings.prefix)
        broker = connect(settings)
        self._brokers.append(broker)
        return broker

    def put(self, body: bytes) -> None:
        put(self.settings, body)

    def state(self, job_id: str) -> str:
        """Where BullMQ itself says that a job is."""
        return official(self.settings, lambda queue: queue.getJobState(job_id))

    def close(self) -> None:
        for broker in self._brokers:
            broker.close()


@contextlib.contextmanager
def bull_on(url: str) -> Iterator[Bull]:
    """A queue of one's own on the server at *url*, whose keys are gone afterwards."""
    bull = Bull(url)
    try:
        yield bull
    finally:
        bull.close()
        with redis.Redis.from_url(url) as client:
            pattern = f"{bull.settings.prefix}:{bull.settings.queue}:*"
            for key in client.scan_iter(pattern, count=1_000):
                client.delete(key)


def hold(arguments: list[str]) -> None:
    """A process that takes what it can get, says so, and never does anything with it."""
    url, queue, seconds = arguments
    transport = connect(BullSettings(url, queue)).transport
    got = receive(transport, 5, timedelta(seconds=float(seconds)))
    sys.stdout.write(" ".join(map(name_of, got)) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


class OwnRedis:
    """A server of our own at a free port, which keeps its data from one start to the next."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        words += ["--dir", str(self._folder), "--logfile", str(self._folder / "log")]
        self._process = subprocess.Popen([*words, *self._options])
        deadline = time.monotonic() + 30
        while True:
            try:
                with contextlib.suppress(redis.AuthenticationError):  # that is an answer too
                    self.command("PING")
                break
            except redis.ConnectionError:  # or it still reads what it has written
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                assert self._process.poll() is None, (self._folder / "log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """As a crash of the process: nothing is written any more."""
        self._process.kill()
        self._process.wait(10)

    def command(self, *words: str) -> object:
        with redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0)) as client:
            return client.execute_command(*words)


@pytest.fixture(scope="session")
def redis_url() -> str:
    try:
        with redis.Redis.from_url(URL, socket_connect_timeout=5) as client:
            client.ping()
    except redis.ConnectionError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Redis at {URL}: {error}")
    return URL


@pytest.fixture
def bull(redis_url: str) -> Iterator[Bull]:
    with bull_on(redis_url) as world:
        yield world


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Callable[..., OwnRedis]]:
    """Starts servers, with options as on the command line; they are gone after the test."""
    if shutil.which("redis-server") is None:
        absent = "no redis-server: apt-get install redis-server"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> OwnRedis:
            folder = tmp_path / secrets.token_hex(4)
            folder.mkdir()
            return stack.enter_context(OwnRedis(folder, *options))

        yield start
