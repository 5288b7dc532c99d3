"""`tune`."""

from pathlib import Path
from typing import Any

import click

from bestbefore.cli.context import FAILING, emit, fail, opened, verb

_WORKERS = (1, 2, 4)
_LEAST_BATCHES = 4


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(sorted({int(part.replace("_", "")) for part in value.split(",")}))
        except ValueError:
            numbers = (0,)
        if numbers[0] < 1:
            self.fail(f"{value!r} is not a list of numbers such as 100,1000", param, ctx)
        return numbers


@click.command()
@click.argument("policy")
@click.option("--rows", type=click.IntRange(100, 100_000_000), default=100_000, show_default=True,
              help="How many rows to make up; every other one is old.")  # fmt: skip
@click.option("--sizes", type=_Numbers(), default=(100, 500, 1_000, 5_000, 10_000),
              show_default="100,500,1000,5000,10000", help="Batch sizes to try.")  # fmt: skip
@click.option("--workers", type=_Numbers(), show_default="1,2,4, up to max_concurrency",
              help="Numbers of workers to try.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(0.1, 3600), default=1.5, show_default=True,
              help="How long to measure each size with each number of workers.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path(),
              show_default="this folder", help="Where tune-POLICY.json and so on go.")  # fmt: skip
@click.option("--clean", "cleaning", is_flag=True,
              help="Only remove what a tune that was killed left behind.")  # fmt: skip
@verb
def tune(
    config: Path,
    as_json: bool,
    policy: str,
    rows: int,
    sizes: tuple[int, ...],
    workers: tuple[int, ...] | None,
    seconds: float,
    out: Path,
    cleaning: bool,
) -> None:
    """Measure which batch size and how many workers suit POLICY's table.

    Works on a copy of the table's shape with made-up rows, in a schema of its own (on SQLite a
    file), and removes it again. Of the real table only the definition is read. Exit status 1 if no
    size meets both ceilings, or if a replayed batch changed a row.
    """
    # Imported here: it takes a while, and no other verb needs it.
    from bestbefore.app.tune import Axes, clean
    from bestbefore.cli.tuning import measured, prepare, show, write

    with opened(config, warn=True) as system:
        found = system.policy(policy)
        if not found.about_rows:
            fail(f"policies.{policy} is about objects; only batches of rows have a size to choose")
        database = system.settings.databases[found.connection]
        if cleaning:
            gone = clean(database)
            emit(as_json, {"removed": gone}, lambda: f"removed {', '.join(gone) or 'nothing'}")
            return
        if sizes[-1] * _LEAST_BATCHES > rows:
            fail(f"a batch of {sizes[-1]:,} needs --rows {sizes[-1] * _LEAST_BATCHES} at least")
        prepare(out)
        axes = Axes(
            sizes,
            workers or [n for n in _WORKERS if n <= database.max_concurrency],
            seconds,
            database.pause,
            database.rows_per_second,
        )
        tuned = measured(system, found, axes, rows)
    answer = write(tuned, out)
    if as_json:
        emit(True, answer, str)
    else:
        show(answer)
    changed = any(cell["rows_changed_by_replays"] for cell in answer["cells"])
    raise SystemExit(FAILING if changed or answer["recommended"] is None else 0)
