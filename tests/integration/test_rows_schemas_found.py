"""What the property over schemas has found once, each as its smallest schema."""

import pytest

from bestbefore.contracts.row_world import ME, NEW, OLD, RowWorld, table
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.ports.rows import RowTask, TableRefused

NODES = "CREATE TABLE nodes (id INT PRIMARY KEY, at BIGINT, code INT UNIQUE, p INT, {})"
AUTO = table("nodes", dependents=None)


def counts(what: RowTask) -> list[tuple[int, int, int | None]]:
    """What is removed and changed beside a batch, and how much of that is young."""
    return [(one.removed, one.changed, one.younger) for one in what.batch.dependents]


def removed(world: RowWorld, source: RowSource, what: RowTask) -> int:
    """How many rows of the table are gone with a batch and all of its parts."""
    before, waiting = len(world.ids(source.table)), [what]
    while waiting:
        end = world.deleter.delete(source, waiting.pop(0), ME)
        if isinstance(end, Divided):
            ids = (bytes([len(waiting) + place + 1]) * 32 for place, _ in enumerate(end.parts))
            waiting += [
                what._replace(operation_id=id_, batch=part)
                for id_, part in zip(ids, end.parts, strict=True)
            ]
        else:
            assert isinstance(end, Effect), end
    return before - len(world.ids(source.table))


def test_a_child_with_two_foreign_keys_is_not_counted_once_per_row_of_it(world: RowWorld) -> None:
    """S-REACH-01."""
    world.run(
        "CREATE TABLE nodes (id INT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE c (id INT PRIMARY KEY, at BIGINT, x INT, y INT, "
        "FOREIGN KEY (x) REFERENCES nodes (id), FOREIGN KEY (y) REFERENCES nodes (id))",
    )
    world.insert("nodes", (1, OLD), (2, NEW))
    world.insert("c", (1, NEW, 1, None), (2, OLD, None, 1), (3, NEW, 2, 2), (4, NEW, 2, None))
    assert counts(world.task(AUTO)) == [(2, 0, 1)]


def test_a_young_row_of_the_table_that_loses_its_reference_is_young(world: RowWorld) -> None:
    """S-REACH-02."""
    world.run(NODES.format("FOREIGN KEY (p) REFERENCES nodes (id) ON DELETE SET NULL"))
    world.insert("nodes", (1, OLD, None, None), (2, NEW, None, 1))
    for source in (AUTO, table("nodes", dependents=("nodes",))):
        assert counts(world.task(source)) == [(0, 1, 1)]


@pytest.mark.parametrize("how", ["", "ON DELETE CASCADE"])
def test_a_row_whose_own_code_is_null_still_refers_to_others(world: RowWorld, how: str) -> None:
    """S-REACH-03."""
    world.run(NODES.format(f"FOREIGN KEY (p) REFERENCES nodes (code) {how}"))
    world.insert("nodes", (1, OLD, 7, None), (2, OLD, None, 7), (3, OLD, 8, None))
    effects = [world.delete(AUTO, what) for what in world.plan(AUTO, 1)]
    beside = sum(n for effect in effects for n in effect.dependents.values())
    assert sum(effect.rows for effect in effects) + beside == 3
    assert world.ids("nodes") == []


def test_parts_of_a_batch_take_no_row_with_them_that_was_not_planned(world: RowWorld) -> None:
    """S-REACH-01."""
    world.run(NODES.format("FOREIGN KEY (p) REFERENCES nodes (id)"))
    world.insert("nodes", (1, OLD, None, None), (2, OLD, None, None))
    what = world.task(AUTO)
    world.insert("nodes", (3, OLD, None, 1))
    assert removed(world, AUTO, what) <= what.batch.rows == 2


def test_rows_in_a_circle_of_cascades_are_removed_with_each_other(world: RowWorld) -> None:
    if world.kind == "mysql":
        pytest.skip("rows in a circle stay as referenced here")
    world.run(NODES.format("FOREIGN KEY (p) REFERENCES nodes (id) ON DELETE CASCADE"))
    world.insert("nodes", (1, OLD, None, None), (2, OLD, None, 1))
    world.run("UPDATE nodes SET p = 2 WHERE id = 1")
    assert sum(end.rows for end in world.drain(AUTO)) == 2
    assert world.ids("nodes") == []


def test_a_reference_of_a_row_to_its_table_that_would_change_others_is_refused(
    world: RowWorld,
) -> None:
    """S-REACH-02."""
    world.run(
        NODES.format(
            "FOREIGN KEY (code) REFERENCES nodes (id) ON DELETE SET NULL, "
            "FOREIGN KEY (p) REFERENCES nodes (code)"
        )
    )
    with pytest.raises(TableRefused, match="changed too"):
        world.reader.describe(AUTO)
    world.reader.describe(table("nodes"))


def test_a_reference_of_a_row_to_its_table_by_what_several_share_is_refused(
    world: RowWorld,
) -> None:
    """S-REACH-07."""
    if world.kind != "mysql":
        pytest.skip("only MariaDB and MySQL have such keys")
    world.run(
        "CREATE TABLE nodes (id INT PRIMARY KEY, at BIGINT, n INT, p INT, KEY (n), "
        "FOREIGN KEY (p) REFERENCES nodes (n) ON DELETE CASCADE)"
    )
    for source in (AUTO, table("nodes")):
        with pytest.raises(TableRefused, match="several rows may share"):
            world.reader.describe(source)
