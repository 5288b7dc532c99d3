"""A foreground of our own: deliveries at a fixed rate, and how they fared."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_PER_SECOND = 40
_SLOWER = 1.2
_SLOWER_SECONDS = 0.1


@dataclass(slots=True)
class Phase:
    """How deliveries fared for a while: how many ``seconds`` each took, and what ``failed``."""

    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return len(self.seconds) + len(self.failed)

    def quantile(self, share: float) -> float:
        """The seconds that *share* of the deliveries took at most; 0 where there was none."""
        ordered = sorted(self.seconds)
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0

    def slower_than(self, before: "Phase") -> bool:
        """Whether its p99 is above that of *before* by a fifth, and by 100 ms as well."""
        was, now = before.quantile(0.99), self.quantile(0.99)
        return now > _SLOWER * was and now - was > _SLOWER_SECONDS


class Probe:
    """A context that delivers until it is left, 40 times a second, in a thread of its own.

    ``deliver`` does it once, for the number it is given, and raises where it did not succeed. Who
    is late does not catch up, so that a slow delivery counts once.
    """

    def __init__(self, deliver: Callable[[int], None]) -> None:
        self._deliver = deliver
        self._phase: Phase | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    @contextmanager
    def phase(self, least: float) -> Iterator[Phase]:
        """What is delivered within, for *least* seconds or more."""
        phase, until = Phase(), time.monotonic() + least
        with self.within(phase):
            yield phase
            time.sleep(max(0.0, until - time.monotonic()))

    @contextmanager
    def within(self, phase: Phase) -> Iterator[None]:
        """Count what is delivered within for *phase*, which may have had parts before."""
        self._phase = phase
        try:
            yield
        finally:
            self._phase = None

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number, step = 0, 1 / _PER_SECOND
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due + step, time.monotonic())
            phase, began = self._phase, time.monotonic()
            number += 1
            try:
                self._deliver(number)
            except Exception as error:  # noqa: BLE001  (whatever it is, it was no success)
                if phase is not None:
                    phase.failed.append(f"{type(error).__name__}: {error}")
            else:
                if phase is not None:
                    phase.seconds.append(time.monotonic() - began)
