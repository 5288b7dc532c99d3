"""An event loop in a thread of its own, for a client that can only wait in one."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds for what still runs to come to its end."""

_log = logging.getLogger(__name__)


class LoopClosed(Exception):
    """Nobody is there any more to do it."""


class Loop:
    """Runs coroutines for other threads. Its own is a daemon, so that no process waits for it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_mention)
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], within: float) -> T:
        """What *work* returns or raises. After *within* seconds it is cancelled: TimeoutError.
        LoopClosed where the loop was closed before or meanwhile."""
        with self._lock:
            if self._closed:
                raise LoopClosed
            running = asyncio.run_coroutine_threadsafe(_ended(work()), self._loop)
        try:
            return running.result(within)
        except concurrent.futures.CancelledError:
            raise LoopClosed from None  # before it had begun
        finally:
            running.cancel()  # where it took too long, or this thread was interrupted

    def close(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do *farewell*, end everything else, and the thread. Any number of times."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        last = asyncio.run_coroutine_threadsafe(self._end(farewell), self._loop)
        last.result(3 * _PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    async def _end(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await farewell()
        except TimeoutError:
            _log.debug("did not come to its end within %s s", _PATIENCE)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_PATIENCE)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


async def _ended(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except asyncio.CancelledError:
        # By the end of the loop; a future that is cancelled would say nothing to who waits for it.
        raise LoopClosed from None


def _mention(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the client leaves behind when a connection is lost: every caller was told already."""
    _log.debug("%s", context.get("message"), exc_info=context.get("exception"))
