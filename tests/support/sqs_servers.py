"""Two servers that speak SQS and have nothing in common: moto's, and the npm package fauxqs.

Each is a process of its own, forgets everything when it ends, and lets anybody in.
"""

import contextlib
import importlib.util
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from botocore.config import Config
from botocore.session import Session

from bestbefore.adapters.queues.sqs import SqsSettings
from support.node import installed
from support.ports import free_port

REGION = "us-east-1"
_KEY_ID, SECRET = "key-id", "not-for-anybody-to-see"

# moto's queues are lists that several threads change at once: acks side by side lose one another,
# and receives find the same message. A thread that is only interrupted where it waits does neither.
# The time it goes by is the same, without two dates made of it: it looks at its clock some
# thousand times per message.
_MOTO = """
import sys
import time
from moto.server import ThreadedMotoServer
from moto.sqs import models
sys.setswitchinterval(30)
models.unix_time_millis = lambda: time.time() * 1000
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""

_FAUXQS = """
import { startFauxqs } from "fauxqs";
const server = await startFauxqs({ port: Number(process.argv[1]), logger: false });
console.log(server.port);
process.stdin.on("end", () => process.exit());
process.stdin.resume();
"""


class SqsServer:
    """A running server."""

    def __init__(self, words: Sequence[str], folder: Path | None = None) -> None:
        self._words = words
        self._folder = folder
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Be there, at the same port as before, and empty."""
        self._process = subprocess.Popen(
            [*self._words, str(self.port)],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip().isdigit(), f"{self._words[0]} did not start: {line!r}"

    def kill(self) -> None:
        """Be gone at once, in the middle of whatever it does."""
        self._process.kill()
        self._gone()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._gone()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self) -> Any:
        """A client of botocore's, as it comes."""
        return bare_client(self.endpoint)

    def queue(self, name: str | None = None, **attributes: str) -> str:
        """The URL of a new queue."""
        name = name or f"test-{uuid.uuid4().hex}"
        url: str = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def arn(self, url: str) -> str:
        said = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        arn: str = said["Attributes"]["QueueArn"]
        return arn

    def settings(self, url: str, **more: Any) -> SqsSettings:
        """Names the endpoint, too: fauxqs gives its queues a host that few can look up."""
        more = {"endpoint_url": self.endpoint} | more
        return SqsSettings(url, access_key_id=_KEY_ID, secret_access_key=SECRET, **more)

    def _gone(self) -> None:
        self._process.wait(20)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def bare_client(endpoint: str, connections: int = 10) -> Any:
    """A client of botocore's for *endpoint*, with nothing changed but how many sockets it has."""
    return Session().create_client(
        "sqs",
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id=_KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(max_pool_connections=connections),
    )


@contextlib.contextmanager
def moto_sqs() -> Iterator[SqsServer]:
    """moto's server; raises ImportError where it is not installed."""
    if importlib.util.find_spec("moto") is None:
        raise ImportError("moto is not installed")
    with SqsServer([sys.executable, "-W", "ignore", "-c", _MOTO]) as server:
        yield server


@contextlib.contextmanager
def fauxqs() -> Iterator[SqsServer]:
    """fauxqs; raises NoNode where it cannot be had."""
    folder = installed("fauxqs")
    with SqsServer(["node", "--input-type=module", "-e", _FAUXQS], folder) as server:
        yield server
