"""moto's server: S3 as somebody else understands it. A process of its own per test process."""

import importlib.util
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from bestbefore.adapters.objects.s3 import S3Settings
from bestbefore.adapters.objects.s3.client import plain_client

_SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()          # until whoever started this is gone
server.stop()
"""


class Moto:
    """The running server."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def settings(self) -> S3Settings:
        return S3Settings(self.endpoint, "us-east-1", "key-id", "secret")


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    if importlib.util.find_spec("moto") is None:
        absent = "no moto: pip install 'moto[server]'"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        host, port = process.stdout.readline().split()
        yield Moto(f"http://{host}:{port}")
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


@pytest.fixture
def moto_bucket(moto: Moto) -> str:
    """The name of an empty bucket on `moto`, which forgets everything at its end."""
    name = f"test-{uuid.uuid4().hex}"
    plain_client(moto.settings()).create_bucket(Bucket=name)
    return name
