"""An event loop in a thread of its own, for a client that knows no other way of waiting."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds until the thread has to have ended."""


class LoopClosed(Exception):
    """Nobody is there any more to do it."""


class Loop:
    """Runs coroutines for other threads. Its own thread ends with the process at the latest."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """What *work* returns or raises; TimeoutError after *within* seconds, LoopClosed if the
        loop was closed before or meanwhile."""
        with self._lock:
            if self._closed:
                work.close()
                raise LoopClosed
            running = asyncio.run_coroutine_threadsafe(_finished(work), self._loop)
        try:
            return running.result(within)
        finally:
            # Where it took too long, or this thread was interrupted; else it is done already.
            running.cancel()

    def close(self) -> None:
        """End what still runs, and the thread. Any number of times."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(_end_the_others(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except asyncio.CancelledError:
        # A future that was cancelled by the loop's end would tell its reader nothing.
        raise LoopClosed from None


async def _end_the_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
