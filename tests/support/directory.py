"""A directory store to try: a root with one bucket, and somebody who puts files there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.contracts.objects import ObjectWorld

BUCKET = "bucket"
OLD = datetime(2026, 1, 1, tzinfo=UTC)


def put(bucket: Path, key: str, body: bytes, modified: datetime = OLD) -> Path:
    """Write a file as careful programs do: beside the place it is for, then moved there."""
    path = bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{uuid4().hex}")
    beside.write_bytes(body)
    os.utime(beside, (modified.timestamp(), modified.timestamp()))
    return beside.replace(path)


def open_in(folder: Path) -> list[str]:
    """What this process has open in *folder*, and not what else it has."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):  # the one that listed them
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return sorted(path for path in found if path.startswith(str(folder)))


def directory(root: Path, bucket: str = BUCKET) -> ObjectWorld:
    """Both sides of the adapter over *root*, with an empty bucket in it."""
    (root / bucket).mkdir()
    return ObjectWorld(
        DirectoryLister(root),
        DirectoryDeleter(root),
        lambda key, body: put(root / bucket, key, body),
        bucket,
    )


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for the one who runs it."""
    with tempfile.TemporaryDirectory(prefix="bestbefore-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def nobody() -> Iterator[None]:
    """Act as a user without any privilege."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def in_namespace(folder: Path, script: str) -> str:
    """Run *script* where it may mount file systems that nobody else sees, with *folder* as its
    working directory; returns what it printed. Skips where the kernel has no such namespaces."""
    inside = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        inside += ["--user", "--map-root-user"]
    try:
        allowed = subprocess.run([*inside, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no `unshare` (util-linux)")
    if allowed.returncode:
        pytest.skip(f"no mount namespaces here: {allowed.stderr.decode().strip()}")
    done = subprocess.run(
        [*inside, sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def mounting(*mounts: str) -> str:
    """The beginning of a script for `in_namespace`: each of *mounts* is a command to run."""
    return "import subprocess\n" + "".join(
        f"subprocess.run({mount.split()!r}, check=True)\n" for mount in mounts
    )
