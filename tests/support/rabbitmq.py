"""A real RabbitMQ: queues of our own on it, gone after the test. It is at `URL`.

What stops, starves or locks a broker is done to a `Node` of our own.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from bestbefore.adapters.queues.rabbitmq import RabbitSettings, connect
from bestbefore.ports.transport import Broker
from support.forks import until
from support.loops import run as run_alone
from support.ports import free_port
from support.proxy import Proxy

T = TypeVar("T")
URL = os.environ.get("BESTBEFORE_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
_PROGRAMS = Path("/usr/lib/rabbitmq/bin")


class Rabbit:
    """Somebody else's hands at the broker at *url*."""

    def __init__(self, url: str = URL) -> None:
        self.url = url
        self._queues: list[str] = []
        self._brokers: list[Broker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers:
            broker.close()
        for name in self._queues:
            self.delete(name)

    def name(self) -> str:
        """A queue's name that nobody has. What is under it is deleted at the end."""
        name = f"bestbefore-test-{secrets.token_hex(6)}"
        self._queues += [name, f"{name}.dead"]
        return name

    def settings(self, queue: str, **how: Any) -> RabbitSettings:
        return RabbitSettings(how.pop("url", self.url), queue, **how)

    def broker(self, queue: str, confirm_seconds: float = 20, **how: Any) -> Broker:
        """The adapter, closed at the end."""
        broker = connect(self.settings(queue, **how), confirm_seconds=confirm_seconds)
        self._brokers.append(broker)
        return broker

    def proxied(self, proxy: Proxy) -> str:
        """The URL through *proxy*."""
        return self.at("127.0.0.1", proxy.port)

    def at(self, host: str, port: int) -> str:
        """The URL with another place to connect to."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=f"{parts.username}:{parts.password}@{host}:{port}").geturl()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), parts.port or 5672

    def declare(self, queue: str, arguments: Mapping[str, Any], **how: Any) -> None:
        self.do(
            lambda channel: channel.declare_queue(
                queue, durable=how.pop("durable", True), arguments=dict(arguments), **how
            )
        )

    def put(self, queue: str, body: bytes) -> None:
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        self.do(lambda channel: channel.default_exchange.publish(message, queue))

    def look(self, queue: str) -> aio_pika.abc.AbstractIncomingMessage:
        """The first message, with all its properties; it stays there."""
        return self.do(lambda channel: _looked(channel, queue))

    def exists(self, queue: str) -> bool:
        try:
            self.count(queue)
        except aio_pika.exceptions.ChannelNotFoundEntity:
            return False
        return True

    def count(self, queue: str) -> int:
        """Messages that nobody has. A quorum queue that is busy says 0."""
        found = self.do(lambda channel: channel.declare_queue(queue, passive=True))
        return found.declaration_result.message_count or 0

    def delete(self, queue: str) -> None:
        self.do(lambda channel: channel.queue_delete(queue))

    def do(self, work: Callable[[AbstractChannel], Awaitable[T]]) -> T:
        return run_alone(_done(self.url, work))


async def _done(url: str, work: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    async with await aio_pika.connect(url, timeout=10) as connection:
        return await work(await connection.channel())


async def _looked(channel: AbstractChannel, queue: str) -> aio_pika.abc.AbstractIncomingMessage:
    message = await (await channel.get_queue(queue)).get()
    await message.nack(requeue=True)
    return message


class Node:
    """A broker of our own on free ports, as the account `rabbitmq`; it can be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._between_nodes = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}/"
        self._environment = os.environ | {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_DIST_PORT": str(self._between_nodes),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_NODENAME": f"bestbefore-{secrets.token_hex(4)}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RUNNING_UNDER_SYSTEMD": "true",  # the process we start is the broker itself
        }
        if os.getuid() == 0:
            shutil.chown(folder, "rabbitmq", "rabbitmq")

    def start(self) -> None:
        """Start, with what was there before."""
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [*_as_rabbitmq(), str(_PROGRAMS / "rabbitmq-server")],
                cwd=self._folder,
                env=self._environment,
                stdout=said,
                stderr=said,
            )
        process = self._process
        until(
            lambda: self._answers() or process.poll() is not None,
            within=60,
            what=f"RabbitMQ on port {self._port}",
        )
        assert process.poll() is None, (self._folder / "said").read_text()

    def restart(self) -> None:
        """Stop as a service is stopped, and start."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        self.start()

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)

    def ctl(self, *words: str) -> None:
        """`rabbitmqctl` on this node."""
        subprocess.run(
            [*_as_rabbitmq(), str(_PROGRAMS / "rabbitmqctl"), "--quiet", *words],
            cwd=self._folder,
            env=self._environment,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def _answers(self) -> bool:
        """Whether it takes a connection, once it listens."""
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", self._port)) != 0:
                return False
        with suppress(OSError, aio_pika.exceptions.AMQPError):
            run_alone(_done(self.url, _nothing))
            return True
        return False


async def _nothing(_channel: AbstractChannel) -> None:
    return


def _as_rabbitmq() -> list[str]:
    """It refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--clear-groups", "--"]


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """Where a broker answers."""
    try:
        run_alone(_done(URL, _nothing))
    except OSError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no RabbitMQ at {urlsplit(URL).hostname}: {error}")
    return URL


@pytest.fixture
def rabbit(rabbitmq_url: str) -> Iterator[Rabbit]:
    """The broker that everybody uses."""
    with Rabbit(rabbitmq_url) as rabbit:
        yield rabbit


@pytest.fixture(scope="session")
def rabbitmq_node() -> Iterator[Node]:
    """A broker that only this process uses, and that may be ill-treated."""
    absent = None
    if not (_PROGRAMS / "rabbitmq-server").exists():
        absent = "rabbitmq-server is not installed"
    elif os.getuid() == 0 and shutil.which("setpriv") is None:
        absent = "setpriv is not installed"
    if absent is not None:
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    with tempfile.TemporaryDirectory(prefix="bestbefore-rabbitmq-") as name:
        folder = Path(name)
        node = Node(folder)
        try:
            node.start()
            yield node
        finally:
            node.kill()


@pytest.fixture
def own_rabbit(rabbitmq_node: Node) -> Iterator[Rabbit]:
    """Hands at the broker that may be ill-treated."""
    with Rabbit(rabbitmq_node.url) as rabbit:
        yield rabbit
