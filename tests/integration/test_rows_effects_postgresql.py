"""What a DELETE would do beside its rows on PostgreSQL: partitions, inheritance, row security."""

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
import sqlalchemy as sa

from bestbefore.contracts.row_dependents import EVERY, counted, plain
from bestbefore.contracts.row_world import CUTOFF, NEW, OLD, RowWorld, table
from bestbefore.domain.rows import Partitions
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase

SINCE, UNTIL = OLD - 1_000, NEW + 1_000
EVENTS = (
    "CREATE TABLE ev (id BIGINT, at BIGINT, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    f"CREATE TABLE ev_old PARTITION OF ev FOR VALUES FROM ({SINCE}) TO ({OLD + 10})",
    f"CREATE TABLE ev_new PARTITION OF ev FOR VALUES FROM ({OLD + 10}) TO ({UNTIL})",
)
ROWS = table("ev", partitions=Partitions.ROWS)
ALL = table("ev", partitions=Partitions.ROWS, dependents=None)


@pytest.fixture(params=["postgresql"])
def row_database(row_database: RowDatabase) -> RowDatabase:
    return row_database


@pytest.mark.parametrize("how", EVERY)
def test_a_foreign_key_to_one_partition_keeps_its_rows(world: RowWorld, how: str) -> None:
    """S-REACH-04."""
    _referred_partition(world, how)
    assert [end.rows for end in world.drain(ROWS)] == [1]
    assert world.ids("ev") == [2, 3]
    assert world.ask("SELECT i, a FROM ref") == [(2, OLD)]


@pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_rows_that_refer_to_one_partition_are_counted(world: RowWorld, how: str) -> None:
    """S-REACH-04."""
    _referred_partition(world, how)
    what = world.task(ALL)
    assert counted(what) == {"ref": (0, 1) if "NULL" in how else (1, 0)}
    effect = world.delete(ALL, what)
    assert (effect.rows, sum(effect.dependents.values()) + sum(effect.changed.values())) == (2, 1)
    assert world.ids("ev") == [3]


def test_rows_of_another_partition_with_the_same_values_lose_nothing(world: RowWorld) -> None:
    """S-REACH-04: ``id`` is unique within a partition only."""
    world.run(*EVENTS, "CREATE UNIQUE INDEX ON ev_new (id)", "CREATE UNIQUE INDEX ON ev_old (id)")
    world.run("CREATE TABLE ref (i BIGINT REFERENCES ev_new (id) ON DELETE CASCADE)")
    world.insert("ev", (1, OLD), (2, OLD), (1, NEW))
    world.run("INSERT INTO ref VALUES (1)")
    for source in (ROWS, ALL):
        assert [(end.rows, plain(end)) for end in world.drain(source)] == (
            [(2, {})] if source is ROWS else []
        )
    assert world.ask("SELECT i FROM ref") == [(1,)]
    assert world.ask("SELECT id, at FROM ev") == [(1, NEW)]


@pytest.mark.parametrize("how", EVERY)
def test_a_policy_about_one_partition_sees_what_refers_to_the_whole_table(
    world: RowWorld, how: str
) -> None:
    """S-REACH-04: the foreign key stands on the table above."""
    world.run(
        *EVENTS,
        "CREATE TABLE ref (i BIGINT, a BIGINT, kind INT NOT NULL DEFAULT 1, "
        f"FOREIGN KEY (i, a) REFERENCES ev (id, at) {how}) PARTITION BY LIST (kind)",
        "CREATE TABLE ref_1 PARTITION OF ref FOR VALUES IN (1)",
        "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
        "CREATE TRIGGER told BEFORE DELETE ON ev FOR EACH ROW EXECUTE FUNCTION told()",
    )
    world.insert("ev", (1, OLD), (2, OLD), (3, NEW))
    world.run(f"INSERT INTO ref VALUES (2, {OLD})")  # noqa: S608
    leaf, every = table("ev_old"), table("ev_old", dependents=None)
    facts = world.reader.describe(leaf)
    shown = world.reader.show(leaf, facts, CUTOFF, world.task(leaf).batch)
    assert [said.rpartition(": ")[2] for said in shown.triggers] == ["told"]
    assert [end.rows for end in world.drain(leaf)] == [1]
    assert world.ask("SELECT i, a FROM ref") == [(2, OLD)]
    (what,) = world.plan(every)
    assert sum(sum(numbers) for numbers in counted(what).values()) >= 1
    assert world.delete(every, what).rows == 1


def test_a_partitioned_table_that_is_named_is_meant_with_its_partitions(world: RowWorld) -> None:
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE notes (ev BIGINT, kind INT) PARTITION BY LIST (kind)",
        "CREATE TABLE notes_1 PARTITION OF notes FOR VALUES IN (1)",
        "ALTER TABLE notes_1 ADD FOREIGN KEY (ev) REFERENCES ev (id) ON DELETE CASCADE",
    )
    world.insert("ev", (1, OLD), (2, OLD))
    world.run("INSERT INTO notes VALUES (1, 1)")
    assert [end.rows for end in world.drain(table("ev"))] == [1]
    named = table("ev", dependents=("notes",))
    assert [(end.rows, plain(end)) for end in world.drain(named)] == [(1, {"notes_1": 1})]


def test_a_table_with_inheritance_children_is_refused(world: RowWorld) -> None:
    """S-REACH-06."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE ev_shop () INHERITS (ev)",
        "CREATE TABLE note (ev BIGINT REFERENCES ev (id))",
    )
    world.insert("ev", (1, OLD))
    world.insert("ev_shop", (1, NEW))
    world.run("INSERT INTO note VALUES (1)")
    for source in (table("ev"), table("ev", dependents=None)):
        with pytest.raises(TableRefused, match=r"inherit from ev .*ev_shop.*NO INHERIT"):
            world.reader.describe(source)
    assert world.ask("SELECT id, at FROM ev ORDER BY at") == [(1, OLD), (1, NEW)]


def test_a_child_whose_rows_are_inherited_is_refused_under_dependents(world: RowWorld) -> None:
    """S-REACH-06: a DELETE from it would remove the rows of its own children."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE note (ev BIGINT REFERENCES ev (id))",
        "CREATE TABLE note_shop () INHERITS (note)",
    )
    world.insert("ev", (1, OLD))
    world.reader.describe(table("ev"))
    with pytest.raises(TableRefused, match=r"inherit from .*note"):
        world.reader.describe(table("ev", dependents=("note",)))


def test_a_setting_that_changes_what_others_refer_to_is_refused(world: RowWorld) -> None:
    """SET NULL fires ON UPDATE of the next table, which nothing would count."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE note (ev BIGINT UNIQUE REFERENCES ev (id) ON DELETE SET NULL)",
        "CREATE TABLE file (note BIGINT REFERENCES note (ev) ON UPDATE CASCADE)",
    )
    world.insert("ev", (1, OLD), (2, OLD))
    world.run("INSERT INTO note VALUES (1)", "INSERT INTO file VALUES (1)")
    with pytest.raises(TableRefused, match=r"refers to the columns that this changes"):
        world.reader.describe(table("ev", dependents=None))
    assert [end.rows for end in world.drain(table("ev"))] == [1]
    assert world.ask("SELECT note FROM file") == [(1,)]


def test_a_child_without_an_index_is_refused_unless_it_is_small(world: RowWorld) -> None:
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE INDEX ON ev (at, id)",
        "CREATE TABLE note (ev BIGINT REFERENCES ev (id))",
    )
    world.insert("ev", (1, OLD))
    careful = table("ev", dependents=("note",), allow_full_scan=False)
    world.reader.describe(careful)
    world.run("INSERT INTO note SELECT 1 FROM generate_series(1, 10001)")
    with pytest.raises(TableRefused, match=r"note refers to ev by \(ev\) without an index"):
        world.reader.describe(careful)
    world.reader.describe(table("ev", allow_full_scan=False))
    world.reader.describe(table("ev", dependents=("note",)))
    world.run("CREATE INDEX ON note (ev)")
    world.reader.describe(careful)


# -- row security


@pytest.fixture
def shop_role(row_database: RowDatabase, world: RowWorld) -> Iterator[str]:
    name = f"bb_{secrets.token_hex(4)}"
    world.run(f"CREATE ROLE {name} LOGIN")
    yield name
    world.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_row_security_that_applies_to_us_is_refused_or_accepted(
    row_database: RowDatabase, world: RowWorld, shop_role: str
) -> None:
    """S-PROOF-03, as far as planning goes: blindness is no success."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT, tenant TEXT)",
        "ALTER TABLE ev ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON ev USING (tenant = current_setting('app.tenant', true))",
    )
    world.run("INSERT INTO ev VALUES (1, 1, 'a')")
    with _as(row_database, world, shop_role) as narrow:
        world.run(f"GRANT SELECT, DELETE, UPDATE ON ev TO {shop_role}")
        with pytest.raises(TableRefused, match=r"row security decides .*BYPASSRLS.*row_security"):
            narrow.reader.describe(table("ev"))
        accepted = table("ev", accepts_row_security=True, ledger_only=True)
        assert narrow.plan(accepted) == []
        codes = {finding.code for finding in narrow.reader.check(accepted, CUTOFF)}
        assert "row-security-accepted" in codes
        world.run(f"CREATE POLICY everything ON ev TO {shop_role} USING (true)")
        world.run(f"ALTER ROLE {shop_role} BYPASSRLS")
        assert sum(what.batch.rows for what in narrow.plan(table("ev"))) == 1


@pytest.mark.parametrize("how", EVERY)
def test_rows_of_another_table_that_row_security_hides_are_no_rows_that_are_missing(
    row_database: RowDatabase, world: RowWorld, shop_role: str, how: str
) -> None:
    """Foreign keys reach rows that we do not see."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        f"CREATE TABLE note (ev BIGINT DEFAULT NULL REFERENCES ev (id) {how})",
        "ALTER TABLE note ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY none ON note USING (false)",
        f"GRANT SELECT, DELETE, UPDATE ON ev, note TO {shop_role}",
    )
    world.insert("ev", (1, OLD))
    world.run("INSERT INTO note VALUES (1)")
    with _as(row_database, world, shop_role) as narrow:
        for dependents in ((), ("note",), None):
            for accepts in (False, True):
                source = table("ev", dependents=dependents, accepts_row_security=accepts)
                with pytest.raises(TableRefused, match=r"note refer .*row security may hide"):
                    narrow.reader.describe(source)
    assert world.ask("SELECT ev FROM note") == [(1,)]


def test_rows_that_refer_and_cannot_be_read_are_named_with_the_grant(
    row_database: RowDatabase, world: RowWorld, shop_role: str
) -> None:
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE note (ev BIGINT REFERENCES ev (id) ON DELETE CASCADE)",
        f"GRANT SELECT, DELETE, UPDATE ON ev TO {shop_role}",
    )
    world.insert("ev", (1, OLD))
    world.run("INSERT INTO note VALUES (1)")
    with _as(row_database, world, shop_role) as narrow:
        with pytest.raises(TableRefused) as refused:
            narrow.reader.describe(table("ev"))
        for grant in str(refused.value).rpartition(": ")[2].split("; "):
            world.run(grant)
        source = table("ev", ledger_only=True)
        assert narrow.plan(source) == []
    assert world.ask("SELECT ev FROM note") == [(1,)]


def test_a_reference_that_row_security_hides_from_the_start_ends_nothing_silently(
    row_database: RowDatabase, world: RowWorld, shop_role: str
) -> None:
    """Row security that is switched on after the plan stops the batch."""
    world.run(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE note (ev BIGINT REFERENCES ev (id) ON DELETE CASCADE)",
        f"GRANT SELECT, DELETE, UPDATE ON ev, note TO {shop_role}",
    )
    world.insert("ev", (1, OLD))
    source = table("ev", ledger_only=True)
    what = world.task(source)
    world.run(
        "INSERT INTO note VALUES (1)",
        "ALTER TABLE note ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY none ON note USING (false)",
    )
    with _as(row_database, world, shop_role) as narrow:
        failure = narrow.fails(source, what)
    assert failure.whole_source
    assert world.ask("SELECT ev FROM note") == [(1,)]


def _referred_partition(world: RowWorld, how: str) -> None:
    world.run(
        *EVENTS,
        "CREATE TABLE ref (i BIGINT, a BIGINT, "
        f"FOREIGN KEY (i, a) REFERENCES ev_old (id, at) {how})",
    )
    world.insert("ev", (1, OLD), (2, OLD), (3, NEW))
    world.run(f"INSERT INTO ref VALUES (2, {OLD})")  # noqa: S608


def _as(row_database: RowDatabase, world: RowWorld, role: str) -> AbstractContextManager[RowWorld]:
    """The same tables, by *role*."""
    ((schema,),) = world.ask("SELECT current_schema()")
    world.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    options = f"-c search_path={schema}"
    url = sa.make_url(row_database.url).set(username=role, query={"options": options})
    return row_database.world(url.render_as_string(hide_password=False))
