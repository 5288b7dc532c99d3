"""The stand-in for Infrai in a process of its own, so that who is measured does not serve it."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bestbefore.adapters.queues.infrai import InfraiQueueSettings, create
from support.infrai import KEY

_SERVE = """
import sys
sys.path.append(sys.argv[1])
from support.infrai import Infrai
with Infrai() as infrai:
    infrai.remembers = False
    print(infrai.base_url, flush=True)
    sys.stdin.read()          # until whoever started this is gone
"""


@contextmanager
def infrai_process() -> Iterator[str]:
    """Run one; yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def new_queue(base_url: str) -> InfraiQueueSettings:
    """A queue of its own there, which keeps messages for as long as anybody can."""
    name = f"bench-{uuid.uuid4().hex}"
    settings = InfraiQueueSettings(name, f"{name}-dead", KEY, base_url)
    create(settings)
    return settings
