"""Is a database under strain? Asked about once a second and beside the work, which never waits for
the answer itself."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta

from bestbefore.domain.throttle import Strain
from bestbefore.ports.clock import Clock

ASKING = Strain("throttle", "the answer is awaited")
"""What is known before the first answer, and for a moment after a long rest."""

_Answer = tuple[Strain | None, datetime]

_ASK_EVERY = timedelta(seconds=1)
_TRUSTED_FOR = timedelta(seconds=5)


class Watch:
    """What *ask* last said. Nothing can be told to be safe by an old answer, or by none."""

    def __init__(
        self,
        ask: Callable[[], Strain | None],
        clock: Clock,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._done = done
        self._pool = ThreadPoolExecutor(1, "watch")
        self._asking: Future[_Answer] | None = None
        self._asked_at = clock.now()
        self._answer: _Answer | None = None

    def strain(self, now: datetime) -> Strain | None:
        """Why the database should be left alone; None where nothing speaks against work."""
        if self._asking is not None and self._asking.done():
            self._answer, self._asking = self._answered(self._asking), None
        strain, at = self._answer or (ASKING, None)
        if self._asking is None and (at is None or not at <= now < at + _ASK_EVERY):
            self._asking, self._asked_at = self._pool.submit(self._asked), now
        if at is not None and now - at <= _TRUSTED_FOR:
            return strain
        if now - self._asked_at > _TRUSTED_FOR:
            return Strain("throttle", "it gives no answer, so nobody can tell that it is safe")
        return ASKING

    def close(self) -> None:
        """Ask no more, and say that it is *done*, once a question under way has ended by its own
        timeouts."""
        self._pool.submit(self._done)
        self._pool.shutdown(wait=False)

    def _asked(self) -> _Answer:
        return self._ask(), self._clock.now()

    def _answered(self, asking: Future[_Answer]) -> _Answer:
        error = asking.exception()
        if error is not None:  # a fault of ours, or a driver that is not there
            return Strain("throttle", f"it cannot be asked: {error}"), self._clock.now()
        return asking.result()
