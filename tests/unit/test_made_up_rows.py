"""Rows that `tune` makes up: old and current ones mixed, as the table's definition wants them."""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from bestbefore.adapters.rows.scratch.recipes import Shape, recipe
from bestbefore.adapters.rows.scratch.synthetic import Recipe
from bestbefore.domain.rows import TimestampKind
from bestbefore.ports.tuning import ScratchRefused

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
CUTOFF = datetime(2026, 6, 1, 2, tzinfo=UTC)


def column(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": False, **more}


def made_up(
    *columns: dict[str, Any],
    key: tuple[str, ...] = ("id",),
    kind: TimestampKind = TimestampKind.TIMESTAMPTZ,
    unique: tuple[tuple[str, ...], ...] = (),
    checks: tuple[str, ...] = (),
    **more: Any,
) -> Recipe:
    shape = Shape(
        [*columns, column("ts", sa.DateTime())], [key, *unique], frozenset(), checks, frozenset()
    )
    wanted = {"where": None, "zone": None, "rows": 1_000, "offset": ""} | more
    return recipe(shape, key=key, timestamp="ts", kind=kind, cutoff=CUTOFF, now=NOW, **wanted)


def values(rows: Recipe, name: str) -> list[Any]:
    return [rows.row(number)[name] for number in range(rows.rows)]


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (TimestampKind.TIMESTAMPTZ, lambda said: datetime.fromisoformat(said).replace(tzinfo=UTC)),
        (TimestampKind.NAIVE, lambda said: datetime.fromisoformat(said).replace(tzinfo=UTC)),
        (TimestampKind.ISO_TEXT, datetime.fromisoformat),
        (TimestampKind.EPOCH_S, lambda said: datetime.fromtimestamp(said, UTC)),
        (TimestampKind.EPOCH_MS, lambda said: datetime.fromtimestamp(said / 1000, UTC)),
        (TimestampKind.DATE, lambda said: datetime.fromisoformat(said).replace(tzinfo=UTC)),
    ],
)
def test_every_other_row_is_old_whatever_the_timestamp_is(kind: TimestampKind, read: Any) -> None:
    rows = made_up(column("id", sa.Integer()), kind=kind)

    moments = [read(said) for said in values(rows, "ts")]

    assert [moment < CUTOFF for moment in moments] == [n % 2 == 0 for n in range(1_000)]
    assert sum(moment < CUTOFF for moment in moments) == rows.old_rows
    assert max(moments) <= NOW


def test_a_clock_on_a_wall_somewhere_else_is_believed() -> None:
    rows = made_up(column("id", sa.Integer()), kind=TimestampKind.NAIVE, zone="Asia/Tokyo")

    assert rows.written(CUTOFF) == "2026-06-01 11:00:00.000000"


def test_the_foreground_adds_and_changes_current_rows_only() -> None:
    rows = made_up(column("id", sa.Integer()), column("note", sa.Text()))
    cutoff = rows.written(CUTOFF)

    changed = [rows.current(number) for number in range(500)]

    assert all(rows.row(number)["ts"] >= cutoff for number in changed)
    assert len(set(changed)) == 500
    assert all(rows.row(number)["ts"] >= cutoff for number in range(1_000, 1_100))
    assert rows.touched is not None
    assert rows.touched.name == "note"


@pytest.mark.parametrize(
    "type_",
    [
        sa.Integer(), sa.BigInteger(), sa.Numeric(20), sa.Text(), sa.String(12), sa.Uuid(),
        postgresql.UUID(), sa.LargeBinary(16), sa.LargeBinary(8),
    ],
    ids=str,
)  # fmt: skip
def test_keys_are_all_different(type_: Any) -> None:
    keys = values(made_up(column("id", type_)), "id")

    assert len(set(keys)) == 1_000


def test_one_column_of_everything_unique_is_different_in_every_row() -> None:
    rows = made_up(
        column("tenant", sa.SmallInteger()),
        column("id", sa.BigInteger()),
        column("email", sa.String(80)),
        key=("tenant", "id"),
        unique=(("email",),),
    )

    assert len(set(values(rows, "id"))) == len(set(values(rows, "email"))) == 1_000
    assert 1 < len(set(values(rows, "tenant"))) <= 100


@pytest.mark.parametrize("key", [sa.SmallInteger(), sa.Boolean(), sa.Enum("a", "b"), sa.String(3)])
def test_a_key_that_cannot_hold_so_many_values_is_refused(key: Any) -> None:
    with pytest.raises(ScratchRefused, match=r"\(id\) is unique.*could all be different"):
        made_up(column("id", key))


@pytest.mark.parametrize(
    ("where", "met"),
    [
        ("status = 'delivered'", {"status": ["delivered"]}),
        ("\"status\" = 'it''s' AND kind = 3", {"status": ["it's"], "kind": [3]}),
        ("status IN ('a', 'b') AND NOT held", {"status": ["a", "b"], "held": [False]}),
        ("deleted IS NULL", {"deleted": [None]}),
    ],
)
def test_what_a_condition_names_is_what_rows_have(where: str, met: dict[str, list[Any]]) -> None:
    rows = made_up(
        column("id", sa.Integer()),
        column("status", sa.Text()),
        column("kind", sa.Integer()),
        column("held", sa.Boolean()),
        column("deleted", sa.Text(), nullable=True),
        where=where,
    )

    assert {name: sorted(set(values(rows, name)), key=str) for name in met} == met


def test_a_check_of_postgresql_is_understood() -> None:
    check = "((status)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])))"
    rows = made_up(column("id", sa.Integer()), column("status", sa.Text()), checks=(check,))

    assert set(values(rows, "status")) == {"a", "b"}


def test_a_type_of_which_nothing_is_known_is_null_where_it_may_be_and_refused_where_not() -> None:
    strange = sa.types.NullType()

    rows = made_up(column("id", sa.Integer()), column("shape", strange, nullable=True))
    assert set(values(rows, "shape")) == {None}

    with pytest.raises(ScratchRefused, match="column shape: nothing is known about its type"):
        made_up(column("id", sa.Integer()), column("shape", strange))


def test_generated_columns_are_left_to_the_database() -> None:
    rows = made_up(
        column("id", sa.Integer()), column("twice", sa.Integer(), computed={"sqltext": "id * 2"})
    )

    assert set(rows.row(0)) == {"id", "ts"}
