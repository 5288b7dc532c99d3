"""A queue in a folder, as an adapter of somebody else's package: one file is one message.

    install(tmp_path / "site", monkeypatch)
    [queue]
    kind = "folder"
    options = { folder = "…", dead = "…" }

For tests of the command line: whoever takes a message and dies keeps it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Broker, Capabilities, Delivery, Message, TransportFailed

_TAKEN = ".taken"


class FolderQueue:
    """`bestbefore.ports.transport.Transport` over the files in *folder*."""

    capabilities = Capabilities(262_144, None, False, False, True, False, True)

    def __init__(self, folder: Path) -> None:
        self.name = f"folder {folder.name}"
        self._folder = folder

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        self._there()
        for message in messages:
            put(self._folder, message.body)
        return [None] * len(messages)

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        self._there()
        taken = []
        for file in sorted(self._folder.glob("*.message"))[:limit]:
            mine = file.rename(file.with_suffix(_TAKEN))
            taken.append(Delivery(mine.read_bytes(), mine))
        return taken

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        return []

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            delivery.receipt.unlink(missing_ok=True)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.receipt.exists():
                delivery.receipt.rename(delivery.receipt.with_suffix(".message"))

    def _there(self) -> None:
        if not self._folder.is_dir():
            said = f"{self.name}: there is no such queue; create it, or correct the name"
            raise TransportFailed(Failure(FailureClass.MALFORMED, said))


def connect(options: Mapping[str, str]) -> Broker:
    """What the entry point names."""
    dead = FolderQueue(Path(options["dead"])) if "dead" in options else None
    return Broker(FolderQueue(Path(options["folder"])), dead, list, lambda: None)


def put(folder: Path, body: bytes) -> None:
    """Somebody writes a message there."""
    part = folder / f"{uuid4().hex}.part"
    part.write_bytes(body)
    part.rename(part.with_suffix(".message"))


def held(folder: Path) -> list[bytes]:
    """The messages there, in somebody's hands or not."""
    found = [*folder.glob("*.message"), *folder.glob(f"*{_TAKEN}")]
    return [file.read_bytes() for file in found]


def install(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process, and those it starts, find this adapter as if its package was installed."""
    about = site / "folder_queue-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-queue\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[bestbefore.queues]\nfolder = folder_queue_adapter:connect\n"
    )
    (site / "folder_queue_adapter.py").write_text(Path(__file__).read_text(encoding="utf-8"))
    here = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", f"{here}:{site}")
    monkeypatch.syspath_prepend(site)
