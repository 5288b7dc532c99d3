"""Progress on long work, for a person who watches; nothing where nobody does."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bestbefore.domain.report import Report
from bestbefore.domain.run import Run

if TYPE_CHECKING:
    from rich.text import Text

_RECENT = 10.0


class Progress:
    """What a scan and a worker tell while they run. Only for a person who watches is the ledger
    asked what is left."""

    def __init__(self, backlog: Callable[[], int], *, watched: bool) -> None:
        self.watched = watched
        self._backlog = backlog
        self._run: Run | None = None
        self._report: Report | None = None
        self._began = time.monotonic()
        self._done: list[tuple[float, int]] = [(self._began, 0)]
        self._asked_at = 0.0
        self._left = 0

    def page(self, run: Run) -> None:
        """A page was planned."""
        self._run = run

    def work(self, report: Report) -> None:
        """The worker went round."""
        self._report = report
        now = time.monotonic()
        self._done.append((now, report.completed))
        while now - self._done[0][0] > _RECENT:
            self._done.pop(0)
        if self.watched and now - self._asked_at > 1.0:
            self._left, self._asked_at = self._backlog(), now

    def __rich__(self) -> "Text":
        from rich.text import Text

        parts = [f"{time.monotonic() - self._began:5.0f} s"]
        if self._run is not None:
            parts.append(f"scanned {self._run.scanned:,}  planned {self._run.planned:,}")
        if self._report is not None:
            rate = self._rate()
            parts.append(f"done {self._report.completed:,} ({rate:,.0f}/s)")
            if self._report.dead:
                parts.append(f"dead {self._report.dead:,}")
            if rate and self._left:
                parts.append(f"left {self._left:,}, about {_duration(self._left / rate)}")
        return Text("  ".join(parts))

    def _rate(self) -> float:
        (began, before), (now, after) = self._done[0], self._done[-1]
        return (after - before) / (now - began) if now > began else 0.0


@contextmanager
def watched(backlog: Callable[[], int] = lambda: 0) -> Iterator[Progress]:
    """Progress on stderr while inside, if that is a terminal; it vanishes afterwards."""
    progress = Progress(backlog, watched=sys.stderr.isatty())
    if not progress.watched:
        yield progress
        return
    # Imported here: only a person who watches needs it.
    from rich.console import Console
    from rich.live import Live

    with Live(progress, console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield progress


@contextmanager
def told() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what it was last told, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live("", console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield lambda text: live.update(Text(text))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
