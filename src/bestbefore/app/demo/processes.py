"""The processes of the demo: the command line as a person types it, and the worker that fails."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_COMMAND = (sys.executable, "-m", "bestbefore")
_FAILING_WORKER = (sys.executable, "-m", "bestbefore.app.demo.worker")


class Unexpected(Exception):
    """Something did not happen as the demo says it does."""


class Answer(NamedTuple):
    """What one command said."""

    line: str
    output: str
    remarks: str

    @property
    def document(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.output)


class InHand(NamedTuple):
    """A batch that was deleted in the store and not recorded: so many of so many commands."""

    commands: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Processes:
    """Starts processes in *folder*; all of them end when *ending* closes."""

    folder: Path
    environ: Mapping[str, str]
    ending: ExitStack

    def start(self, *arguments: str) -> "Running":
        """Start ``bestbefore ARGUMENTS``."""
        process = self._spawn(_COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return Running(shlex.join(["bestbefore", *arguments]), process)

    def run(self, *arguments: str, expect: int | None = 0) -> Answer:
        """Run ``bestbefore ARGUMENTS`` to its end, which has to be exit status *expect*; None
        takes what it says either way."""
        return self.start(*arguments).end(expect)

    def start_failing_worker(self, name: str, *arguments: str) -> "FailingWorker":
        """Start the demo's own worker, with its remarks in a file called after *name*."""
        with (self.folder / f"{name}.log").open("w") as log:
            process = self._spawn(
                _FAILING_WORKER,
                *arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return FailingWorker(process, Path(log.name))

    def _spawn(
        self, command: tuple[str, ...], *arguments: str, **pipes: Any
    ) -> "subprocess.Popen[str]":
        pipes.setdefault("stdin", subprocess.DEVNULL)
        environ = os.environ | self.environ
        environ.pop("BESTBEFORE_CONFIG", None)
        process: subprocess.Popen[str] = subprocess.Popen(  # noqa: S603
            [*command, *arguments], cwd=self.folder, env=environ, text=True, **pipes
        )
        self.ending.callback(process.wait)
        self.ending.callback(process.kill)  # runs before the wait; also ends what is frozen
        return process


@dataclass(frozen=True, slots=True)
class Running:
    """A command on its way."""

    line: str
    _process: "subprocess.Popen[str]"

    def end(self, expect: int | None = 0) -> Answer:
        """Wait for its end, which has to be exit status *expect*."""
        output, remarks = self._process.communicate()
        status = self._process.returncode
        if status not in (expect, *((0, 1) if expect is None else ())):
            said = f"{output}{remarks}"
            raise Unexpected(f"`{self.line}` ended with {status}, not {expect}:\n{said}")
        return Answer(self.line, output, remarks)


@dataclass(frozen=True, slots=True)
class FailingWorker:
    """A `bestbefore.app.demo.worker`."""

    _process: "subprocess.Popen[str]"
    _log: Path

    def caught(self) -> InHand:
        """Wait until it has deleted its second batch and recorded nothing of it."""
        return InHand(*map(int, self._line().split()))

    def stopped(self) -> None:
        """Wait until it has come to the instant in which it is to be lost."""
        self._line()

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Take its processor away, as a suspended virtual machine's, and wait until it is gone."""
        self._process.send_signal(signal.SIGUSR1)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wake(self) -> Any:
        """Let it go on as if nothing had happened; returns its report once it is done."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._process.send_signal(signal.SIGCONT)
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101
        line: str = self._process.stdout.readline()
        if not line:
            raise Unexpected(f"a worker ended early:\n{self._log.read_text()[-2_000:]}")
        return line
