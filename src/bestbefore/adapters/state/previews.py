"""What a person is shown of a run, on a SQL database."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batches, staying
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import operations, previews, row_batches, runs
from bestbefore.domain.prefixes import PrefixCounts, Under
from bestbefore.domain.preview import Example, Preview, Selected, Stay
from bestbefore.domain.rows import DependentRows, RowBatch, Walk
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState

_PAGE = 5_000

_SELECTED = (
    sa.select(
        operations.c.id,
        operations.c.key,
        operations.c.size,
        operations.c.last_modified,
        operations.c.version_id,
        operations.c.upload_id,
    )
    .where(
        operations.c.run_id == sa.bindparam("run"),
        operations.c.state == sa.literal_column("'waiting'"),
        operations.c.id > sa.bindparam("after"),
    )
    .order_by(operations.c.id)
    .limit(_PAGE)
)
_SELECTED_BATCHES = _SELECTED.add_columns(*batches.DETAILS).join(
    row_batches, row_batches.c.operation == operations.c.id
)


@replays("keep")
class SqlPreviews:
    """`bestbefore.ports.previews.Previews` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def selected(self, run: Run) -> Iterator[Selected]:
        after, query = 0, _SELECTED_BATCHES if run.about_rows else _SELECTED
        while True:
            with self._db.read() as connection:
                page = connection.execute(query, {"run": run.row, "after": after}).fetchall()
            for row in page:
                yield Selected(
                    row.key,
                    row.size,
                    moment(row.last_modified),
                    row.version_id,
                    row.upload_id,
                    batches.maybe_batch(row) if run.about_rows else None,
                )
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def stays(self, run: Run) -> Mapping[str, PrefixCounts]:
        with self._db.read() as connection:
            return staying.load(connection, run.row)

    def keep(self, run: Run, preview: Preview) -> bool:
        text = json.dumps(_document(preview))
        with self._db.write() as connection:
            state = connection.execute(
                sa.select(runs.c.state).where(runs.c.id == run.row).with_for_update()
            ).scalar_one()
            if state != RunState.PARKED:
                return False
            connection.execute(
                self._db.insert(previews)
                .values(run_id=run.row, shown=text)
                .on_conflict_do_update(index_elements=["run_id"], set_={"shown": text})
            )
        return True

    def find(self, run: Run) -> Preview | None:
        with self._db.read() as connection:
            stored = connection.execute(
                sa.select(previews.c.shown).where(previews.c.run_id == run.row)
            ).scalar_one_or_none()
        return _preview(json.loads(stored)) if stored else None


def _document(preview: Preview) -> dict[str, Any]:
    return {
        "n": preview.n,
        "size": preview.size,
        "oldest": preview.oldest and micros(preview.oldest),
        "newest": preview.newest and micros(preview.newest),
        "prefixes": preview.prefixes,
        "stays": preview.stays,
        "sample": [
            (why, *target[:2], micros(target.last_modified), *target[3:5], _stored(target.batch))
            for why, target in preview.sample
        ],
        "first": _stored(preview.first),
        "statement": preview.statement,
        "triggers": preview.triggers,
    }


def _preview(stored: Mapping[str, Any]) -> Preview:
    return Preview(
        n=stored["n"],
        size=stored["size"],
        oldest=maybe_moment(stored["oldest"]),
        newest=maybe_moment(stored["newest"]),
        prefixes=_prefixes(stored["prefixes"]),
        stays=tuple(
            Stay(reason, n, _prefixes(prefixes), tuple((table, rows) for table, rows in tables))
            for reason, n, prefixes, tables in stored["stays"]
        ),
        sample=tuple(
            Example(why, Selected(key, size, moment(at), version, upload, _batch(batch)))
            for why, key, size, at, version, upload, batch in stored["sample"]
        ),
        first=_batch(stored["first"]),
        statement=stored["statement"],
        triggers=tuple(stored["triggers"]),
    )


def _prefixes(stored: list[Any]) -> tuple[Under, ...]:
    return tuple(Under(*under) for under in stored)


def _stored(batch: RowBatch | None) -> list[Any] | None:
    if batch is None:
        return None
    return [batch.first, batch.last, batch.rows, micros(batch.oldest), batch.walk, batch.shape,
            batch.dependents]  # fmt: skip


def _batch(stored: list[Any] | None) -> RowBatch | None:
    if stored is None:
        return None
    first, last, rows, oldest, walk, shape, dependents = stored
    counted = tuple(DependentRows(*one) for one in dependents)
    return RowBatch(first, last, rows, moment(oldest), Walk(walk), shape, counted)
