"""The picture of a tune: what larger batches bring, and what they cost."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bestbefore.domain.tuning import Ceilings, Cell, Recommendation, Spread, workers

_COLOURS = ("#0b6e99", "#c2571a", "#5b4b9a", "#3f7d3f", "#8a5a00", "#a33b6b")
_GREY, _RED, _GREEN = "#6b6b6b", "#b3261e", "#2e7d32"
_SIZE = (7.0, 7.6)
_DOTS_PER_INCH = 110
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "grid.color": "#e6e6e6",
    "svg.hashsalt": "bestbefore",
    "svg.fonttype": "none",
}


def draw(
    files: Sequence[Path],
    title: str,
    cells: Sequence[Cell],
    idle: Spread,
    ceilings: Ceilings,
    recommendation: Recommendation,
) -> None:
    """Write the same picture to each of *files*, as their names say (``.png``, ``.svg``)."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        brings, takes, felt = figure.subplots(3, 1, sharex=True)
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        _lines(brings, cells, lambda cell: cell.rows_per_second, recommendation)
        brings.set(title="rows deleted per second")
        brings.set_ylim(bottom=0)
        brings.legend(frameon=False, fontsize=9)
        _lines(takes, cells, lambda cell: cell.batch.p95 * 1000, recommendation)
        takes.set(title="how long 95 % of the batches take at most, ms", yscale="log")
        _across(takes, ceilings.duration, "ceiling", _RED)
        _lines(felt, cells, lambda cell: ceilings.felt(cell) * 1000, recommendation)
        felt.set(yscale="symlog" if min(map(ceilings.felt, cells)) <= 0 else "log")
        _across(felt, ceilings.foreground(idle), "ceiling", _RED)
        if ceilings.lock_wait is None:
            felt.set(title="how long 99 % of the writes of others take at most, ms")
            _across(felt, idle.p99, "without cleanup", _GREY)
        else:
            felt.set(title="how long others wait for a lock at most, ms")
        _sizes(felt, sorted({cell.size for cell in cells}))
        for axes in (brings, takes, felt):
            axes.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:,.10g}"))
            if axes.get_yscale() == "log":
                axes.margins(y=0.12)
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_minor_locator(NullLocator())
        for file in files:
            figure.savefig(file, dpi=_DOTS_PER_INCH, metadata=_undated(file))


def _lines(
    axes: Axes,
    cells: Sequence[Cell],
    value: Callable[[Cell], float],
    recommendation: Recommendation,
) -> None:
    """A line for each number of workers, and a ring around what is recommended."""
    counts = sorted({cell.workers for cell in cells})
    for place, count in enumerate(counts):
        line = sorted((cell.size, value(cell)) for cell in cells if cell.workers == count)
        axes.plot(
            [size for size, _ in line], [height for _, height in line], "o-",
            color=_COLOURS[place % len(_COLOURS)], linewidth=1.8, markersize=4.5,
            label=workers(count),
        )  # fmt: skip
    best = recommendation.size, recommendation.workers
    for cell in cells:
        if (cell.size, cell.workers) == best:
            axes.plot(
                cell.size, value(cell), "o", color=_GREEN, fillstyle="none", markersize=13,
                markeredgewidth=2.2, linestyle="none",
                label=f"recommended: {cell.size:,} with {workers(cell.workers)}",
            )  # fmt: skip


def _across(axes: Axes, seconds: float, name: str, colour: str) -> None:
    """A dashed line over all sizes, with its name."""
    axes.axhline(seconds * 1000, color=colour, linestyle="--", linewidth=1.2)
    axes.annotate(
        f"{name} {seconds * 1000:,.3g} ms", (0, seconds * 1000), xycoords=("axes fraction", "data"),
        xytext=(4, 3), textcoords="offset points", color=colour, fontsize=8.5,
    )  # fmt: skip


def _sizes(axes: Axes, sizes: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("rows per batch")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


def _undated(file: Path) -> dict[str, str | None]:
    """The same picture is the same file."""
    return {"Date": None} if file.suffix == ".svg" else {}
