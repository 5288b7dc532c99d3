"""The schema: what migrations make is what the code expects, and nothing newer is touched."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command, config, script
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from bestbefore.adapters.state import database as module
from bestbefore.adapters.state.database import Database, micros
from bestbefore.adapters.state.measures import SqlMeasures
from bestbefore.adapters.state.schema import metadata
from bestbefore.contracts.ledger_world import DAY, POLICY, SLOT
from bestbefore.contracts.row_ledger import ROWS, RowLedger, batch, gone, operation_of
from bestbefore.domain.counts import Count
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import DependentRows, Effect
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Completed, DeadFilter, LedgerError, PolicyEdited
from bestbefore.ports.records import OperationFilter
from support.ledgers import all_sides
from support.postgresql import Postgres

MIGRATIONS = Path(module.__file__).with_name("migrations")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture(params=["file", "empty_url"], ids=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Where nothing is yet, on either database."""
    return request.getfixturevalue(request.param)


def prepare(url: str) -> None:
    database = Database(url)
    try:
        database.prepare()
    finally:
        database.dispose()


def as_postgresql_is_told() -> sa.MetaData:
    """The schema, with what its ``info`` says for PostgreSQL."""
    for table in metadata.tables.values():
        for item in (table, *table.indexes):
            for name, value in item.info.items():
                dialect, _, option = name.partition("_")
                item.dialect_options[dialect][option] = value
    return metadata


def test_migrations_make_exactly_the_tables_of_the_schema(url: str) -> None:
    prepare(url)

    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_migrations_make_the_same_indexes_and_constraints(file: str, tmp_path: Path) -> None:
    """What a comparison of metadata overlooks: conditions of partial indexes, WITHOUT ROWID."""
    prepare(file)
    other = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}", poolclass=sa.NullPool)
    with other.begin() as connection:
        metadata.create_all(connection)

    migrated = sa.create_engine(file, poolclass=sa.NullPool)
    assert _described(migrated) == _described(other)


def test_migrations_make_the_same_indexes_and_storage_on_postgresql(
    postgres: Postgres, empty_url: str
) -> None:
    prepare(empty_url)
    schema = postgres.create_schema()
    other = sa.create_engine(postgres.url(schema), poolclass=sa.NullPool)
    with other.begin() as connection:
        as_postgresql_is_told().create_all(connection)

    migrated = sa.create_engine(empty_url, poolclass=sa.NullPool)
    assert _described_by_server(migrated) == _described_by_server(other)
    postgres.drop_schema(schema)


def test_preparing_twice_changes_nothing(file: str, tmp_path: Path) -> None:
    prepare(file)
    shutil.copy(tmp_path / "state.db", tmp_path / "before.db")

    prepare(file)

    assert (tmp_path / "state.db").read_bytes() == (tmp_path / "before.db").read_bytes()


def test_a_newer_schema_is_refused_and_left_alone(url: str) -> None:
    prepare(url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(LedgerError, match=r"schema is 9999, which is newer .* upgrade bestbefore"):
        prepare(url)

    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT * FROM alembic_version").scalar() == "9999"


def test_a_ledger_from_before_row_batches_goes_on(url: str) -> None:
    _prepare_0006(url)
    database = Database(url)
    database.prepare()

    ledger = RowLedger(all_sides(database))
    (run,) = ledger.records.runs()
    assert (run.about_rows, run.rows, run.planned, run.pending) == (False, 0, 3, 1)
    assert ledger.records.tallies(run, "outcome") == {"deleted": (1, 100)}
    ended, *_ = ledger.records.operations(OperationFilter(run_id=run.run_id))
    assert (ended.batch, ended.effect, ended.freed) == (None, None, 100)
    (claimed,) = ledger.claim()
    assert ledger.record(Completed(claimed, Outcome.DELETED)) == []
    assert ledger.again(run).state is RunState.DRAINED
    rows = ledger.plan("0-99")
    ledger.publish()
    ledger.record(*map(gone, ledger.claim()))
    assert ledger.rows(ledger.again(rows)) == {"deleted": 100}
    database.dispose()


def test_a_ledger_from_before_dependents_were_counted_goes_on(url: str) -> None:
    """Design, "From 0.1": what it planned counted none, and may do no more than that."""
    auto = replace(ROWS, source=replace(ROWS.rows, dependents=None))
    _prepare_0016(url, auto)
    database = Database(url)
    database.prepare()

    ledger = RowLedger(all_sides(database))
    with pytest.raises(PolicyEdited, match=r"`dependents` is `none` by default since 0\.2"):
        ledger.plans.check_policies([ROWS])
    ledger.plans.check_policies([auto, replace(ROWS, version="v2")])
    (run,) = ledger.records.runs()
    assert (run.dependents, run.referenced, run.table, run.most_dependents) == ((), {}, None, 0)
    ended, waiting = ledger.records.operations(OperationFilter(run_id=run.run_id))
    assert ended.effect == Effect(Outcome.DELETED, 100, {"notes": 3}, seconds=0.5)
    assert waiting.batch == batch("100-199")
    ledger.publish()
    (claimed,) = ledger.claim()
    ledger.record(gone(claimed, changed={"notes": 1}))
    assert ledger.beside(run, "changed") == {"notes": 1}
    ledger.dependents["200-299"] = (DependentRows("shop.notes", removed=4),)
    planned = ledger.plan("200-299", of=auto, slot=SLOT + DAY)
    assert ledger.again(planned).dependents == (DependentRows("shop.notes", removed=4),)
    database.dispose()


def test_counts_begin_with_what_the_ledger_knows(url: str) -> None:
    _prepare_0006(url)
    database = Database(url)
    database.prepare()

    counts = {(one.kind, one.name): (one.n, one.amount) for one in SqlMeasures(database).counted()}
    database.dispose()

    assert counts == {
        (Count.COMPLETED, "deleted"): (1, 100),
        (Count.SCANNED, "object"): (7, 0),
        (Count.PLANNED, ""): (3, 0),
        (Count.PUBLISHED, ""): (3, 0),
        (Count.DEAD, "permission"): (1, 0),
        (Count.DIED, "permission"): (1, 0),
        (Count.REDRIVEN, ""): (1, 0),
    }


def test_dead_letters_of_an_older_ledger_are_counted_by_their_cause(url: str) -> None:
    _prepare_0006(url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for n, key in enumerate(("exports/d", "exports/e")):
            connection.execute(
                sa.text(
                    "INSERT INTO operations (operation_id, run_id, policy_id, state, key, etag, "
                    "last_modified, size, seen_at, deliveries, failure_class, error, "
                    "first_failed_at, last_failed_at) VALUES (:id, 1, 1, 'dead', :key, 'e', 1, 1, "
                    "1, 0, 'permission', :error, :at, :at)"
                ),
                {"id": bytes([n]) * 32, "key": key, "error": f"s3://b/{key}: denied", "at": n + 1},
            )
        connection.exec_driver_sql("UPDATE runs SET planned = 5, dead = 3")
    engine.dispose()
    database = Database(url)
    database.prepare()

    ledger = RowLedger(all_sides(database))
    incident, other = ledger.records.incidents(None, None, 10)
    assert (other.n, other.error) == (1, "no")
    assert (incident.n, incident.error) == (2, "s3://b/…: denied")
    assert incident.first_at < incident.last_at
    letters = ledger.dead_letters.dead(DeadFilter(incident=incident.incident))
    assert [letter.key for letter in letters] == ["exports/d", "exports/e"]
    ledger.dead_letters.discard([letter.row for letter in letters], "over", "boss", SLOT)
    assert ledger.records.incidents(None, None, 10) == [other]
    database.dispose()


def _prepare_0016(url: str, policy: Policy) -> None:
    """A ledger of 0.1, with a run over two batches: one is gone, and one waits."""
    with _at_version(url, "0016") as insert:
        at = micros(SLOT)
        insert(
            "policies", name=policy.name, version=policy.version, owner="", connection="shipments",
            bucket=policy.container, action="delete", fingerprint=policy.fingerprint(),
            decides=json.dumps(policy.decides()), current=True, planned_at=at, about_rows=True,
        )  # fmt: skip
        insert(
            "runs", run_id="0123456789ab", policy_id=1, slot=at, first_slot=at,
            cutoff=micros(policy.older_than.before(SLOT)), state="open", trigger="plan",
            approved=False, early=True, complete=True, released_at=at, target="memory",
            created_at=at, planned=2, waiting=1, completed=1, scanned=200, rows=200,
        )  # fmt: skip
        for kind, name, n in (("outcome", "deleted", 1), ("rows", "deleted", 100),
                              ("dependents", "notes", 3)):  # fmt: skip
            insert("run_tallies", run_id=1, kind=kind, name=name, n=n)
        for number, (span, more, effect) in enumerate((
            ("0-99", {"state": "completed", "outcome": "deleted", "completed_at": at},
             {"deleted": 100, "archived": 0, "blocked": 0, "dependents": '{"notes": 3}',
              "replayed": False, "seconds": 0.5}),
            ("100-199", {"state": "waiting"}, {}),
        ), 1):  # fmt: skip
            described = batch(span)
            insert(
                "operations", operation_id=operation_of(span, policy), run_id=1, policy_id=1,
                key=described.label, etag=described.shape, size=described.rows, seen_at=at,
                last_modified=micros(described.oldest), deliveries=0, **more,
            )  # fmt: skip
            insert(
                "row_batches", operation=number, policy_id=1, first=described.first,
                last=described.last, rows=described.rows, oldest=micros(described.oldest),
                walk=described.walk, shape=described.shape, **effect,
            )  # fmt: skip


@contextmanager
def _at_version(url: str, version: str) -> Iterator[Callable[..., None]]:
    """An empty ledger of that version of the schema; what is given inserts into a table of it."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        settings = config.Config()
        settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        settings.attributes["connection"] = connection
        command.upgrade(settings, version)
        tables = sa.MetaData()
        tables.reflect(connection)

        def insert(table: str, **values: object) -> None:
            connection.execute(sa.insert(tables.tables[table]).values(**values))

        yield insert
    engine.dispose()


def _prepare_0006(url: str) -> None:
    """A ledger of that version, with a run over three objects: one is gone and one is dead."""
    with _at_version(url, "0006") as insert:
        at = micros(SLOT)
        insert(
            "policies", name="exports", version="v1", owner="growth-team", connection="s",
            bucket="bucket", action="delete", fingerprint=POLICY.fingerprint(),
            decides=json.dumps(POLICY.decides()), current=True, planned_at=at,
        )  # fmt: skip
        insert(
            "runs", run_id="0123456789ab", policy_id=1, slot=at, first_slot=at, cutoff=at,
            state="open", trigger="plan", approved=False, early=True, complete=True,
            released_at=at, target="memory", created_at=at, planned=3, pending=1, completed=1,
            dead=1, scanned=7,
        )  # fmt: skip
        insert("run_tallies", run_id=1, kind="outcome", name="deleted", n=1, bytes=100)
        common = {"run_id": 1, "policy_id": 1, "etag": "e", "last_modified": at, "size": 100,
                  "seen_at": at, "deliveries": 0}  # fmt: skip
        insert(
            "operations", operation_id=b"1" * 32, state="completed", key="exports/a",
            outcome="deleted", completed_at=at, completed_by="me", **common,
        )  # fmt: skip
        insert(
            "operations", operation_id=b"2" * 32, state="pending", key="exports/b", due_at=at,
            **common,
        )  # fmt: skip
        insert(
            "operations", operation_id=b"3" * 32, state="dead", key="exports/c", redriven=2,
            failure_class="permission", error="no", first_failed_at=at, last_failed_at=at, **common,
        )  # fmt: skip


def test_there_is_one_head() -> None:
    assert len(script.ScriptDirectory(str(MIGRATIONS)).get_heads()) == 1


def _described_by_server(engine: sa.Engine) -> dict[str, set[object]]:
    """Everything PostgreSQL has to say about each table; a set, as columns may be in any order."""
    statements = (
        """SELECT c.relname, c.reloptions FROM pg_class c
           WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'""",
        """SELECT tablename, replace(indexdef, schemaname || '.', '') FROM pg_indexes
           WHERE schemaname = current_schema()""",
        """SELECT conrelid::regclass::text, conname || ' ' || pg_get_constraintdef(oid)
           FROM pg_constraint WHERE connamespace = current_schema()::regnamespace""",
        """SELECT table_name, column_name || ' ' || is_nullable || ' ' || data_type || ' '
           || coalesce(replace(column_default, current_schema() || '.', ''), '')
           FROM information_schema.columns WHERE table_schema = current_schema()""",
    )
    found: dict[str, set[object]] = {}
    with engine.connect() as connection:
        for statement in statements:
            for table, what in connection.exec_driver_sql(statement):
                found.setdefault(table, set()).add(str(what))
    found.pop("alembic_version", None)
    return found


def _described(engine: sa.Engine) -> dict[str, object]:
    inspector = sa.inspect(engine)
    with engine.connect() as connection:
        sql = dict(connection.exec_driver_sql("SELECT name, sql FROM sqlite_master").fetchall())

    def columns(table: str) -> list[object]:
        names = ("name", "nullable", "default", "primary_key")
        return [
            (str(column["type"]), *(column[name] for name in names))  # type: ignore[literal-required]
            for column in inspector.get_columns(table)
        ]

    def indexes(table: str) -> list[object]:
        return sorted(
            (
                index["name"],
                index["column_names"],
                index["unique"],
                sql[index["name"]].split("WHERE")[1:],
            )
            for index in inspector.get_indexes(table)
        )

    def keys(table: str) -> list[object]:
        found = inspector.get_foreign_keys(table)
        return sorted((key["constrained_columns"], key["referred_table"]) for key in found)

    return {
        table: (
            columns(table),
            indexes(table),
            keys(table),
            sorted(unique["column_names"] for unique in inspector.get_unique_constraints(table)),
            "WITHOUT ROWID" in sql[table],
        )
        for table in inspector.get_table_names()
        if table != "alembic_version"
    }
