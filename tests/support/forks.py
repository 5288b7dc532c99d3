"""Real processes without Python's start-up: a server that has imported everything and forks.

    with Forks() as forks:
        child = forks.start("support.cli:program", ["plan", "exports"], cwd=folder)
        child.kill()                      # SIGKILL
        assert child.wait() == -9

Starting an interpreter and importing the product takes a second of processor time; a fork of a
process that has done so takes milliseconds. The server is a process of its own, single-threaded,
so that no lock of the test process is copied in the middle of being held. A child ends as any
Python program does, with the usual traceback on stderr: threads are waited for, functions at exit
are called. Only its modules are not taken apart one by one.
"""

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

_TESTS = Path(__file__).parent.parent
_PRELOAD = ("bestbefore.cli", "bestbefore.app.check", "bestbefore.web.app", "support.harness")


class Child:
    """One forked process. ``out`` and ``err`` are the files it writes to."""

    def __init__(self, pid: int, out: Path, err: Path) -> None:
        self.pid = pid
        self.out = out
        self.err = err
        self._ended = threading.Event()
        self._status = 0

    def ended(self, status: int) -> None:
        self._status = status
        self._ended.set()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; harmless if the process has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, within: float = 60.0) -> int:
        """The exit status, negative for a signal. A process that is late is killed."""
        if not self._ended.wait(within):
            self.kill()
            self._ended.wait(10)
            pytest.fail(f"process {self.pid} did not end within {within:.0f} s\n{self.said()}")
        return self._status

    def said(self) -> str:
        """Everything it wrote to stderr."""
        return self.err.read_text(errors="replace")


class Forks:
    """The parent's side: starts the server, has it fork, hears of every end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._asked = 0

    def __enter__(self) -> Self:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "support.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        self._answers: list[Child] = []
        self._answered = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()  # the server ends, and its children with it
        self._server.wait(20)
        self._reader.join(20)
        self._server.stdout.close()

    def start(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Run ``module:function(arguments)`` in a new process with *cwd* as its folder."""
        assert self._server.stdin is not None
        with self._lock:
            self._asked += 1
            logs = cwd / ".output"
            logs.mkdir(exist_ok=True)
            out, err = logs / f"{self._asked}.out", logs / f"{self._asked}.err"
            job = {
                "target": target,
                "arguments": list(arguments),
                "cwd": str(cwd),
                "out": str(out),
                "err": str(err),
                "env": dict(env or {}),
            }
            with self._answered:
                self._server.stdin.write(json.dumps(job) + "\n")
                self._server.stdin.flush()
                assert self._answered.wait_for(lambda: self._answers, 60), "the fork server hangs"
                child = self._answers.pop()  # it may have ended since
            child.out, child.err = out, err
            return child

    def _read(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            said = json.loads(line)
            with self._answered:
                if "started" in said:
                    child = Child(said["started"], Path(), Path())
                    self._children[child.pid] = child
                    self._answers.append(child)
                    self._answered.notify_all()
                else:
                    self._children.pop(said["ended"]).ended(said["status"])


@pytest.fixture(scope="session")
def forks() -> "Any":
    with Forks() as server:
        yield server


def until(true: Callable[[], Any], within: float = 30.0, what: str = "it") -> Any:
    """Poll until *true()* is; fail after *within* seconds. Returns what it returned."""
    end = time.monotonic() + within
    while not (found := true()):
        if time.monotonic() > end:
            pytest.fail(f"{what} did not come true within {within:.0f} s")
        time.sleep(0.005)
    return found


# -- the server's side -----------------------------------------------------------------------


def _serve() -> dict[str, Any] | None:
    """Fork for each line of standard input. Returns the job in a child, None at the end."""
    for module in _PRELOAD:
        importlib.import_module(module)
    importlib.import_module("support.harness").warm_up()
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test process
    children: set[int] = set()
    buffered = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [], 1.0)
        if woken in ready:
            os.read(woken, 4096)
        _bury(children)
        if 0 not in ready:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            return None
        *lines, buffered = (buffered + chunk).split(b"\n")
        for line in lines:
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.close(woken)
                os.close(wake)
                return json.loads(line)
            children.add(pid)
            print(json.dumps({"started": pid}), flush=True)  # noqa: T201  (our protocol)


def _bury(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        children.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"ended": pid, "status": code}), flush=True)  # noqa: T201


def _become(job: dict[str, Any]) -> Callable[[], object]:
    for number, path in ((1, job["out"]), (2, job["err"])):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    module, _, name = job["target"].partition(":")
    function = getattr(importlib.import_module(module), name)
    return lambda: function(job["arguments"])


def _live(life: Callable[[], object]) -> None:
    """Run to the end. What the interpreter does last copies much of the server's memory, only to
    free it, which takes longer than most commands; so a plain end stops short of it."""
    status = 0
    try:
        life()
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        status = end.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _job = _serve()
    if _job is not None:
        _live(_become(_job))
