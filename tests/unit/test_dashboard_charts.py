"""Charts and texts of the dashboard, without a browser."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from bestbefore.ports.dashboard import Backlog
from bestbefore.web.dashboard import charts
from bestbefore.web.dashboard.pages import ago, shown, size

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAY, STEP = timedelta(hours=24), timedelta(minutes=5)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  (our own)


def slot(state: str, reason: str = "", late: int = 0) -> dict[str, object]:
    return {"slot": "2026-07-01T02:00:00Z", "state": state, "reason": reason, "late_seconds": late}


def test_a_calendar_says_in_words_what_its_cells_show() -> None:
    slots = [
        slot("drained"), slot("drained", late=3_600), slot("missed", "paused: <b>"),
        slot("missed", "nobody answered"), slot("due"), slot("planned"), slot("skipped"),
    ]  # fmt: skip

    drawn = parsed(charts.calendar(slots))

    assert drawn.get("aria-label") == (
        "Last 7 slots: 2 fired, 1 late, 1 missed, 1 paused, 1 skipped, 1 due"
    )
    assert [cell.get("class") for cell in drawn] == [
        "slot fired", "slot late", "slot paused", "slot missed", "slot due", "slot fired",
        "slot skipped",
    ]  # fmt: skip
    assert drawn[2][0].text == "2026-07-01T02:00:00Z: paused; paused: <b>"


def test_a_backlog_has_a_gap_where_nobody_noted_it() -> None:
    points = [Backlog(NOW - timedelta(hours=hours), 100 * hours) for hours in (20, 2)]
    points.insert(1, Backlog(points[0].at + STEP, 1_500))

    drawn = parsed(charts.backlog(points, 7, NOW, DAY, STEP))

    assert drawn.get("aria-label") == (
        "Left to do in the last 24 hours: now 7, most 2,000 at 16:00 UTC"
    )
    lines = [shape for shape in drawn if shape.get("class") == "line"]
    assert len(lines) == 3


def test_a_bar_shows_the_parts_of_what_was_planned() -> None:
    counts = {"planned": 4, "completed": 2, "pending": 1, "waiting": 0, "dead": 1}

    drawn = parsed(charts.progress(counts))

    assert [(part.get("class"), part.get("width")) for part in drawn] == [
        ("completed", "300.0"), ("pending", "150.0"), ("dead", "150.0"),
    ]  # fmt: skip
    assert charts.progress(counts | {"planned": 0}) == ""


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a\nb", 'a<span class="control">\\n</span>b'),
        ("\u202egnp", '<span class="control">\\u202e</span>gnp'),
        ("\u200b", '<span class="control">\\u200b</span>'),
        ("\ud800", '<span class="control">\\ud800</span>'),
        ("größe 日本", "größe 日本"),
        (844197938335842305, "844197938335842305"),
    ],
)
def test_texts_are_escaped_and_what_would_not_be_seen_is_written_out(
    text: object, seen: str
) -> None:
    """O-UI-01"""
    assert shown(text) == f'<bdi class="text">{seen}</bdi>'


def test_times_and_sizes_are_said_for_people() -> None:
    assert ago("2026-07-01T09:00:00Z", NOW) == "3 h ago"
    assert ago("2026-07-03T12:00:00Z", NOW) == "in 2 d"
    assert ago("2026-07-01T11:59:50Z", NOW) == "just now"
    assert ago(None, NOW) == "never"
    assert size(999) == "999 B"
    assert size(1_234_567) == "1.2 MB"
