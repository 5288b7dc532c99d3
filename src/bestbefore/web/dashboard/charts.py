"""Charts as SVG. Nothing in them carries a style, a script or other people's text unescaped; what
they show stands in words beside them as well."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup, escape

from bestbefore.ports.dashboard import Backlog
from bestbefore.read.documents import Document

_CELL, _GAP, _A_ROW = 16, 4, 30

_MARKS = {
    "fired": "M4 8.5l3 3 5-6.5",
    "late": "M8 3.5v5l3 2",
    "missed": "M4.5 4.5l7 7m0-7l-7 7",
    "paused": "M6 4.5v7m4-7v7",
    "skipped": "M4.5 8h7",
    "due": "M8 7.5v1",
}
"""What is drawn in a cell of 16, so that colour is not all that tells them apart."""

_BAR_WIDTH, _BAR_HEIGHT = 600, 12
_WIDTH, _HEIGHT = 480, 90


def became(slot: Document) -> str:
    """What became of a slot, in the words of the calendar: a key of `_MARKS`."""
    match slot["state"]:
        case "missed" if (slot["reason"] or "").startswith("paused"):
            return "paused"
        case "drained" | "planned":
            return "late" if slot["late_seconds"] else "fired"
        case state:
            return str(state)


def calendar(slots: Sequence[Document]) -> Markup:
    """A cell for each of *slots*, oldest first, in rows of thirty."""
    rows = (len(slots) + _A_ROW - 1) // _A_ROW
    step = _CELL + _GAP
    cells = Markup().join(
        _cell(slot, n % _A_ROW * step, n // _A_ROW * step) for n, slot in enumerate(slots)
    )
    width = min(len(slots), _A_ROW) * step - _GAP
    return Markup(
        '<svg class="calendar" role="img" aria-label="{label}" viewBox="0 0 {w} {h}" '
        'width="{w}" height="{h}">{cells}</svg>'
    ).format(label=summary(slots), w=width, h=rows * step - _GAP, cells=cells)


def key(name: str) -> Markup:
    """One cell, for the legend."""
    return Markup(
        '<svg class="key" aria-hidden="true" viewBox="0 0 16 16" width="12" height="12">'
        '<g class="slot {name}"><rect width="16" height="16" rx="3"/><path d="{mark}"/></g></svg>'
    ).format(name=name, mark=_MARKS[name])


def summary(slots: Sequence[Document]) -> str:
    """``Last 30 slots: 28 fired, 1 late, 1 missed``."""
    found = [became(slot) for slot in slots]
    parts = [f"{found.count(name)} {name}" for name in _MARKS if name in found]
    return f"Last {len(slots)} slots: {', '.join(parts)}"


def _cell(slot: Document, x: int, y: int) -> Markup:
    name = became(slot)
    return Markup(
        '<g class="slot {name}" transform="translate({x} {y})"><title>{title}</title>'
        '<rect width="16" height="16" rx="3"/><path d="{mark}"/></g>'
    ).format(
        name=name,
        x=x,
        y=y,
        title=f"{slot['slot']}: {name}; {slot['reason']}",
        mark=_MARKS.get(name, ""),
    )


def backlog(
    points: Sequence[Backlog], left: int, now: datetime, span: timedelta, step: timedelta
) -> Markup:
    """How much was left to do, from *now* - *span* to *now*, when *left* are. Where nobody noted
    it for a while there is a gap."""
    seen = [*points, Backlog(now, left)]
    most = max(max(n for _, n in seen), 1)
    top = max(seen, key=lambda point: point.n)
    label = f"Left to do in the last {span // timedelta(hours=1)} hours: now {left:,}"
    if top.n > left:
        label += f", most {top.n:,} at {top.at:%H:%M} UTC"

    def place(point: Backlog) -> tuple[float, float]:
        x = _WIDTH * (1 - (now - point.at) / span)
        return round(max(0.0, x), 1), round(_HEIGHT - 2 - (_HEIGHT - 6) * point.n / most, 1)

    shapes = Markup().join(_shape([place(point) for point in run]) for run in _runs(seen, 2 * step))
    grid = Markup().join(
        Markup('<path class="grid" d="M{x} 0V{h}"/>').format(x=_WIDTH * n // 4, h=_HEIGHT)
        for n in range(1, 4)
    )
    return Markup(
        '<svg class="backlog" role="img" aria-label="{label}" viewBox="0 0 {w} {h}" '
        'preserveAspectRatio="none">{grid}<path class="axis" d="M0 {b}H{w}"/>{shapes}</svg>'
    ).format(label=label, w=_WIDTH, h=_HEIGHT, b=_HEIGHT - 1, grid=grid, shapes=shapes)


def _runs(points: Sequence[Backlog], gap: timedelta) -> Iterator[list[Backlog]]:
    """*points*, cut where more than *gap* lies between two of them."""
    run: list[Backlog] = []
    for point in points:
        if run and point.at - run[-1].at > gap:
            yield run
            run = []
        run.append(point)
    yield run


def _shape(places: Sequence[tuple[float, float]]) -> Markup:
    line = " ".join(f"{'L' if n else 'M'}{x} {y}" for n, (x, y) in enumerate(places))
    if len(places) == 1:  # a line without length shows nothing
        line += "h1"
    first, last = places[0][0], places[-1][0]
    return Markup(
        '<path class="area" d="{line}L{last} {b}L{first} {b}Z"/><path class="line" d="{line}"/>'
    ).format(line=escape(line), last=last, first=first, b=_HEIGHT - 1)


def progress(counts: Mapping[str, int]) -> Markup:
    """A bar of what became of ``planned``: completed, pending, waiting and dead."""
    planned = counts["planned"]
    if not planned:
        return Markup()
    names = ("completed", "pending", "waiting", "dead")
    x, parts = 0.0, []
    for name in names:
        width = _BAR_WIDTH * counts[name] / planned
        if counts[name]:
            parts.append(
                Markup('<rect class="{}" x="{}" width="{}" height="{}"/>').format(
                    name, round(x, 2), round(max(width, 2), 2), _BAR_HEIGHT
                )
            )
        x += width
    label = ", ".join(f"{counts[name]:,} {name}" for name in names)
    return Markup(
        '<svg class="progress" role="img" aria-label="{label}" viewBox="0 0 {w} {h}" '
        'preserveAspectRatio="none">{parts}</svg>'
    ).format(label=f"Of {planned:,} planned: {label}", w=_BAR_WIDTH, h=_BAR_HEIGHT,
             parts=Markup().join(parts))  # fmt: skip
