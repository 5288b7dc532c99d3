"""One process that goes on: loops in threads, begun again when they end, and whether all is well.

Any number of such processes may run on one state database.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS, _LAST_WAIT_SECONDS = 1.0, 30.0
_PROVEN_SECONDS = 5.0
"""A loop that was begun again counts as well once it has gone on for so long."""
_PROBE_EVERY_SECONDS = 1.0
_PROBE_STALE_SECONDS = 5.0


@dataclass(slots=True)
class _Loop:
    began: float
    failed: bool = False


class Service:
    """Loops by name, each of which runs until *stopping*, and what asks the state database.

    *probe* raises where the state database cannot be used.
    """

    def __init__(
        self,
        loops: Mapping[str, Callable[[], None]],
        probe: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._probe = probe
        self._stopping = stopping
        self._state = {name: _Loop(time.monotonic()) for name in loops}
        self._well_at: float | None = None
        self._threads = [
            threading.Thread(target=self._keep, args=(name, run), name=name, daemon=True)
            for name, run in loops.items()
        ]
        self._threads.append(threading.Thread(target=self._watch, name="readiness", daemon=True))

    def start(self) -> None:
        """Begin every loop."""
        for thread in self._threads:
            thread.start()

    def ready(self) -> bool:
        """Whether the state database answered a moment ago and every loop is going."""
        now = time.monotonic()
        reached = self._well_at is not None and now - self._well_at < _PROBE_STALE_SECONDS
        going = all(thread.is_alive() for thread in self._threads)
        return (
            reached
            and going
            and all(
                not loop.failed or now - loop.began > _PROVEN_SECONDS
                for loop in self._state.values()
            )
        )

    def join(self, within: float) -> None:
        """Wait for the loops to end, at most *within* seconds."""
        until = time.monotonic() + within
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _keep(self, name: str, run: Callable[[], None]) -> None:
        loop, wait = self._state[name], _FIRST_WAIT_SECONDS
        while not self._stopping.is_set():
            loop.began = time.monotonic()
            try:
                run()
            except Exception:
                log.exception("the %s ended; it begins again in %.0f s", name, wait)
            if self._stopping.is_set():
                return
            if time.monotonic() - loop.began > _LAST_WAIT_SECONDS:
                wait = _FIRST_WAIT_SECONDS
            # Until it has begun again and gone on for a while it is not well.
            loop.failed, loop.began = True, float("inf")
            self._stopping.wait(wait)
            wait = min(_LAST_WAIT_SECONDS, 2 * wait)

    def _watch(self) -> None:
        """Ask again and again, so that a question that hangs keeps nobody else waiting."""
        while not self._stopping.is_set():
            try:
                self._probe()
            except Exception as error:  # noqa: BLE001  (whatever it is, it is not well)
                if self._well_at is not None:
                    log.error("not ready: %s", error)  # noqa: TRY400  (the message says it all)
                self._well_at = None
            else:
                if self._well_at is None:
                    log.info("the state database answers")
                self._well_at = time.monotonic()
            self._stopping.wait(_PROBE_EVERY_SECONDS)
