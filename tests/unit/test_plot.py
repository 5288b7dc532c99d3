"""The picture of a tune."""

from dataclasses import replace
from pathlib import Path
from xml.dom import minidom

import pytest

from bestbefore.adapters.plot import draw
from bestbefore.domain.tuning import Ceilings, Cell, Killed, Recommendation, Spread, recommend

IDLE = Spread(0.002, 0.004, 0.008, 0.02, 500)


def cell(size: int, workers: int, felt: float = 0.01) -> Cell:
    took = Spread(size * 1e-6, size * 2e-6, size * 3e-6, size * 4e-6, 50)
    waits = Spread(0, 0, 0, felt, 50)
    return Cell(
        size, workers, 50, size * 50, 1.0, took, took, replace(IDLE, p99=felt), waits, 0, 200, 0,
        100, 0, Killed(size, 0),
    )  # fmt: skip


CELLS = [cell(size, workers) for size in (100, 1_000, 10_000) for workers in (1, 2)]


def _texts(svg: Path) -> set[str]:
    """What is written in a picture."""
    svg_texts = minidom.parse(str(svg)).getElementsByTagName("text")  # noqa: S318  (our own)
    return {text.firstChild.data for text in svg_texts}  # type: ignore[union-attr]


@pytest.mark.parametrize("ceilings", [Ceilings(0.2), Ceilings(0.2, lock_wait=0.5)], ids=str)
@pytest.mark.parametrize("felt", [0.0, 0.01, 0.4])
def test_it_is_drawn_whatever_was_measured(tmp_path: Path, ceilings: Ceilings, felt: float) -> None:
    cells = [*CELLS, cell(50, 1, felt)]
    files = [tmp_path / "tune.png", tmp_path / "tune.svg"]

    draw(files, "updates", cells, IDLE, ceilings, recommend(cells, ceilings, IDLE))

    assert files[0].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert _texts(files[1])


def test_it_names_the_ceilings_the_workers_and_what_is_recommended(tmp_path: Path) -> None:
    file = tmp_path / "tune.svg"

    draw([file], "updates", CELLS, IDLE, Ceilings(0.2), Recommendation(1_000, 2, ""))

    said = _texts(file)
    assert {
        "ceiling 200 ms", "ceiling 110 ms", "without cleanup 8 ms", "1 worker", "2 workers",
        "recommended: 1,000 with 2 workers", "10,000",
    } <= said  # fmt: skip


def test_the_same_measurements_make_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.svg", "b.svg", "a.png", "b.png")]

    for file in files:
        draw([file], "updates", CELLS, IDLE, Ceilings(0.2), Recommendation(None, None, ""))

    a, b, c, d = (file.read_bytes() for file in files)
    assert a == b
    assert c == d
