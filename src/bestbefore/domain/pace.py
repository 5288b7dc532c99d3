"""How fast one bucket may be worked on: batch size and concurrency, learned from the store.

Concurrency follows AIMD (additive increase, multiplicative decrease) with a slow start and a
quiet time after a throttle. The batch size is the one that moved the most objects a second.
Times are seconds on a monotonic clock, handed in.
"""

from dataclasses import dataclass, field

SIZES = (250, 1000, 500, 100)
"""Batch sizes, the first to begin with: S3 allows up to 1,000, and smaller ones can be faster."""

_MOST_KEYS_OUT = 8_000
_START = 8.0
_QUIET_FIRST, _QUIET_LAST = 1.0, 32.0
_LONGEST_QUIET = 1_000.0
_WINDOW_SECONDS = 0.5
_TRY_ANOTHER_EVERY = 8


@dataclass(slots=True)
class Pace:
    """The pace of one bucket in one process. Not thread-safe: the loop that owns it uses it."""

    most_requests: int = 32
    _requests: float = _START
    _slow_start: bool = True
    _quiet_until: float = 0.0
    _quiet: float = _QUIET_FIRST
    _size: int = SIZES[0]
    _rates: dict[int, float] = field(default_factory=dict)
    _windows: int = 0
    _window_began: float | None = None
    _window_keys: int = 0
    _window_batches: int = 0

    @property
    def size(self) -> int:
        """How many objects the next batch should hold."""
        return self._size

    def free(self, requests_out: int, now: float) -> int:
        """How many more batches may go out while *requests_out* are."""
        # A clock that was set back must not keep the bucket quiet for as long.
        if now < self._quiet_until <= now + _LONGEST_QUIET:
            return 0
        allowed = min(int(self._requests), self.most_requests, _MOST_KEYS_OUT // self._size)
        return max(0, max(1, allowed) - requests_out)

    def succeeded(self, keys: int, now: float) -> None:
        """A batch of *keys* came back without a throttle."""
        self._requests = min(
            float(self.most_requests),
            self._requests + (1.0 if self._slow_start else 1.0 / self._requests),
        )
        if now > self._quiet_until + 2 * self._quiet:
            self._quiet = max(_QUIET_FIRST, self._quiet / 2)
        self._measure(keys, now)

    def throttled(self, now: float, asked: float | None) -> None:
        """The store asked to slow down, for *asked* seconds if it said so.

        Halves once per quiet time: the answers to what was already out are the same event.
        """
        if now >= self._quiet_until:
            self._slow_start = False
            self._requests = max(1.0, self._requests / 2)
            self._quiet = min(_QUIET_LAST, self._quiet * 2)
            self._quiet_until = now + self._quiet
        if asked is not None:
            self._quiet_until = max(self._quiet_until, now + asked)
        self._window_began = None

    def quiet_for(self, now: float) -> float:
        """Seconds until anything may go out again; 0 if it may now."""
        return max(0.0, self._quiet_until - now)

    def _measure(self, keys: int, now: float) -> None:
        """Note what the present batch size achieves, and choose the next one."""
        if self._window_began is None:
            self._window_began, self._window_keys, self._window_batches = now, 0, 0
            return
        self._window_keys += keys
        self._window_batches += 1
        elapsed = now - self._window_began
        enough = self._window_batches >= 2 * min(self._requests, _MOST_KEYS_OUT // self._size)
        if elapsed < _WINDOW_SECONDS or not enough:
            return
        rate = self._window_keys / elapsed
        before = self._rates.get(self._size, rate)
        self._rates[self._size] = (before + rate) / 2
        self._windows += 1
        self._size = self._next_size()
        self._window_began = None

    def _next_size(self) -> int:
        """The best size so far, and every eighth time another one, each in turn."""
        if self._windows % _TRY_ANOTHER_EVERY == 0:
            return SIZES[self._windows // _TRY_ANOTHER_EVERY % len(SIZES)]
        return max(self._rates, key=lambda size: self._rates[size])
