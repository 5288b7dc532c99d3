"""Processes that run one at a time, each until the next thing it does to the world outside its own
memory. Who runs, for how long, and who dies is decided by whoever holds the kernel.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime, timedelta
from typing import Any, NoReturn

from greenlet import greenlet

_A_MOMENT = timedelta(milliseconds=1)


class Killed(BaseException):
    """As by SIGKILL: whatever the process tries on its way out comes to nothing."""


class Process:
    """One process. ``wakes_at`` is until when it sleeps; ``read_at`` by the name of what it asked
    the ledger last, the step and the moment in which it did. ``stopped`` is a SIGTERM."""

    def __init__(
        self, kernel: "Kernel", kind: str, name: str, body: Callable[["Process"], object]
    ) -> None:
        self.kernel = kernel
        self.kind = kind
        self.name = name
        self.stopped = False
        self.dead = False
        self.error: Exception | None = None
        self.wakes_at: datetime | None = None
        self.read_at: dict[str, tuple[int, datetime]] = {}
        self.left = 0
        self._body = body
        self.greenlet = greenlet(self._run)

    @property
    def ended(self) -> bool:
        return bool(self.greenlet.dead)

    def point(self, what: str) -> None:
        """Say that *what* comes next, and wait for leave to do it."""
        self._live_on()
        while self.left <= 0:
            self._give_way()
        self.left -= 1
        self.kernel.step += 1
        self.kernel.now += _A_MOMENT
        self.kernel.trace.append(f"{self.name} {what}")
        self.read_at[what] = self.kernel.step, self.kernel.now

    def sleep(self, seconds: float) -> None:
        self._live_on()
        self.wakes_at = self.kernel.now + timedelta(seconds=seconds)
        while self.wakes_at > self.kernel.now:
            self._give_way()
        self.wakes_at = None

    def die(self, of: str | bytes) -> NoReturn:
        """Have the key or the operation *of* end it, as by a segmentation fault."""
        self.kernel.trace.append(f"{self.name} dies of {of!r}")
        self.dead = True
        self.kernel.at_death(self, of)
        raise Killed

    def _run(self) -> None:
        try:
            self._body(self)
        except Killed:
            pass
        except self.kernel.harmless as error:
            self.error = error
            self.kernel.trace.append(f"{self.name} ends: {type(error).__name__}: {error}")

    def _give_way(self) -> None:
        self.greenlet.parent.switch()
        self._live_on()

    def _live_on(self) -> None:
        if self.dead:
            raise Killed


class Kernel:
    """All processes, and their time. A process may end by one of *harmless*, as a command line
    does with exit code 1 or 2; anything else is a bug. *at_death* hears of what one dies of."""

    def __init__(
        self,
        now: datetime,
        harmless: tuple[type[Exception], ...],
        at_death: Callable[[Process, str | bytes], None],
    ) -> None:
        self.now = now
        self.harmless = harmless
        self.at_death = at_death
        self.step = 0
        self.trace: list[str] = []
        self.processes: list[Process] = []
        self.current: Process | None = None
        self._started = 0

    @property
    def actor(self) -> str:
        """Whose turn it is."""
        return "nobody" if self.current is None else self.current.name

    @property
    def doing(self) -> str:
        """What they do."""
        return self.trace[-1].partition(" ")[2]

    @property
    def living(self) -> Sequence[Process]:
        return [process for process in self.processes if not process.ended]

    def start(self, kind: str, body: Callable[[Process], object]) -> Process:
        self._started += 1
        process = Process(self, kind, f"{kind}-{self._started}", body)
        self.processes.append(process)
        return process

    def go_on(self, process: Process, points: int) -> None:
        """Let *process* do so many things, until it sleeps or ends."""
        if process.ended or (process.wakes_at is not None and process.wakes_at > self.now):
            return
        process.left, self.current = points, process
        try:
            process.greenlet.switch()
        finally:
            self.current = None
            if process.ended:
                self.processes.remove(process)

    def kill(self, process: Process) -> None:
        """End it where it stands."""
        self.trace.append(f"{process.name} killed")
        process.dead, self.current = True, process
        try:
            process.greenlet.throw(Killed)
        finally:
            self.current = None
            self.processes.remove(process)

    def close(self) -> None:
        for process in list(self.processes):
            self.kill(process)


class ProcessClock:
    """`bestbefore.ports.clock.Clock` of one process, which is *off* by so much."""

    def __init__(self, process: Process, off: timedelta) -> None:
        self._process = process
        self._off = off

    def now(self) -> datetime:
        return self._process.kernel.now + self._off

    def sleep(self, seconds: float) -> None:
        self._process.sleep(seconds)


class Inline(Executor):
    """A pool that has done what it is given before `submit` returns."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **more))
        except Exception as error:  # noqa: BLE001  (whoever asks for the result gets it)
            future.set_exception(error)
        return future
