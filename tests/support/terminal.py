"""A command at a terminal: its stdin and stderr are one, and somebody types an answer.

code, out = at_terminal(folder, "plan", "exports", answer="y\n")
"""

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

QUESTION = b"[y/N] "
_PATIENCE_SECONDS = 60


class Said(NamedTuple):
    """How a command at a terminal ended: what it wrote to stdout, and what the terminal showed."""

    code: int
    out: str
    shown: str


def at_terminal(
    folder: Path, *words: str, answer: str | signal.Signals = "", stdin: int | None = None
) -> Said:
    """Run a command in *folder*. Once it asks, *answer* is typed, or sent where it is a signal; an
    empty one ends the input. With *stdin* its input is that, and only stderr a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "bestbefore", *words],
        cwd=folder,
        stdin=slave if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    shown = _until_it_asks_or_ends(master)
    if shown.endswith(QUESTION):
        if isinstance(answer, signal.Signals):
            child.send_signal(answer)
        else:
            os.write(master, answer.encode() or b"\x04")
        shown += _until_it_asks_or_ends(master)
    assert child.stdout is not None
    out = child.stdout.read().decode()
    code = child.wait(_PATIENCE_SECONDS)
    child.stdout.close()
    os.close(master)
    return Said(code, out, shown.decode())


def _until_it_asks_or_ends(master: int) -> bytes:
    shown = b""
    while not shown.endswith(QUESTION):
        assert select.select([master], [], [], _PATIENCE_SECONDS)[0], shown
        try:
            read = os.read(master, 65_536)
        except OSError:  # its other end is closed
            return shown
        if not read:
            return shown
        shown += read
    return shown
