"""What a role that may not do everything gets to hear, and what row security keeps."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from bestbefore.contracts.row_world import NEW, OLD, RowWorld, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import RowSource
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase

SOURCE = table("events")
EVENTS = "CREATE TABLE events (id INT PRIMARY KEY, at BIGINT, hold INT)"
ONE_OLD = f"INSERT INTO events VALUES (1, {OLD}, 0)"  # noqa: S608
NOTES = (
    "CREATE TABLE notes (id INT PRIMARY KEY, event INT, FOREIGN KEY (event) REFERENCES events (id))"
)
SERVERS = pytest.mark.parametrize("row_database", ["postgresql", "mysql"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("row_database", ["postgresql"], indirect=True)


@dataclass(frozen=True)
class Role:
    """Somebody who may do nothing but connect, unless it is granted."""

    database: RowDatabase
    name: str

    def grant(self, rights: str, on: str) -> None:
        to = self.name if self.database.kind == "postgresql" else f"'{self.name}'@'%'"
        self.database.run(f"GRANT {rights} ON {on} TO {to}")

    def see_foreign_keys(self) -> None:
        """Where some are hidden without it."""
        if self.database.kind == "mysql":
            self.grant("PROCESS", "*.*")

    @contextmanager
    def world(self) -> Iterator[RowWorld]:
        url = sa.make_url(self.database.url).set(username=self.name, password="geheim")
        with self.database.world(url.render_as_string(hide_password=False)) as world:
            yield world


@pytest.fixture
def role(row_database: RowDatabase) -> Iterator[Role]:
    name = f"bb_{secrets.token_hex(4)}"
    if row_database.kind == "postgresql":
        row_database.run(f"CREATE ROLE {name} LOGIN PASSWORD 'geheim'")
        ((schema,),) = row_database.ask("SELECT current_schema()")
        row_database.run(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    else:
        row_database.run(f"CREATE USER '{name}'@'%' IDENTIFIED BY 'geheim'")
    yield Role(row_database, name)
    if row_database.kind == "postgresql":
        row_database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
    else:
        row_database.run(f"DROP USER '{name}'@'%'")


def by_code(world: RowWorld, source: RowSource = SOURCE) -> dict[str, Finding]:
    return {finding.code: finding for finding in world.deleter.check(source)}


@SERVERS
def test_who_may_not_create_the_table_of_records_is_told_what_its_owner_has_to_run(
    row_database: RowDatabase, role: Role
) -> None:
    row_database.run(EVENTS, ONE_OLD)
    role.see_foreign_keys()
    role.grant("SELECT, DELETE", "events")
    with role.world() as world:
        what = world.task(SOURCE)

        failure = world.fails(SOURCE, what)

        assert failure.failure_class is FailureClass.PERMISSION
        assert 'completion = "ledger"' in failure.error
        assert "geheim" not in failure.error
        assert world.ids("events") == [1]
        missing = by_code(world)["completion-table-denied"]
        assert missing.level is Level.ERROR
        ddl = missing.remedy.partition(": ")[2]
        assert ddl in failure.error
        row_database.run(ddl.replace("`", '"'))
        role.grant("SELECT, INSERT, UPDATE", "bestbefore_completed_batches")
        assert by_code(world)["completion-table"].level is Level.INFO
        assert world.delete(SOURCE, what).rows == 1


@SERVERS
def test_who_may_not_forget_records_is_told_so_before_and_when_it_tries(
    row_database: RowDatabase, role: Role
) -> None:
    row_database.run(EVENTS, ONE_OLD)
    role.see_foreign_keys()
    role.grant("SELECT, DELETE", "events")
    with row_database.world() as world:
        what = world.task(SOURCE)
        world.delete(SOURCE, what)
    role.grant("SELECT, INSERT, UPDATE", "bestbefore_completed_batches")
    with role.world() as world:
        assert by_code(world)["completion-table-kept"].level is Level.WARNING
        failure = world.deleter.forget(SOURCE, [what.operation_id])
        assert failure is not None
        assert failure.failure_class is FailureClass.PERMISSION
        assert not world.reader.lacking(SOURCE, [what.operation_id])

        role.grant("DELETE", "bestbefore_completed_batches")

        assert "completion-table-kept" not in by_code(world)
        assert world.deleter.forget(SOURCE, [what.operation_id]) is None
        assert world.reader.lacking(SOURCE, [what.operation_id])


@SERVERS
def test_who_may_not_delete_is_told_so_before_and_when_it_tries(
    row_database: RowDatabase, role: Role
) -> None:
    row_database.run(EVENTS, ONE_OLD)
    role.see_foreign_keys()
    role.grant("SELECT", "events")
    source = table("events", ledger_only=True)
    with role.world() as world:
        denied = by_code(world, source)["delete-denied"]
        failure = world.fails(source, world.task(source))
    assert denied.level is Level.ERROR
    assert "events" in denied.message
    assert failure.failure_class is FailureClass.PERMISSION
    assert row_database.ask("SELECT id FROM events") == [(1,)]


@POSTGRESQL
def test_rows_that_are_locked_first_need_one_more_right(
    row_database: RowDatabase, role: Role
) -> None:
    row_database.run(EVENTS, NOTES, ONE_OLD, "INSERT INTO notes VALUES (1, 1)")
    role.grant("SELECT, DELETE", "events, notes")
    source = table("events", ledger_only=True, dependents=None)
    with role.world() as world:
        assert "UPDATE" in by_code(world, source)["delete-denied"].message
        failure = world.fails(source, world.task(source))
        assert failure.failure_class is FailureClass.PERMISSION
        role.grant("UPDATE (id)", "events")
        assert "delete-denied" not in by_code(world, source)
        assert world.delete(source, world.task(source)).rows == 1


@POSTGRESQL
def test_rows_that_row_security_keeps_are_counted_as_blocked(
    row_database: RowDatabase, role: Role
) -> None:
    row_database.run(
        EVENTS,
        ONE_OLD,
        f"INSERT INTO events VALUES (2, {OLD}, 1), (3, {OLD}, 0), (4, {NEW}, 0)",  # noqa: S608
        "ALTER TABLE events ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY look ON events FOR SELECT USING (true)",
        "CREATE POLICY go ON events FOR DELETE USING (hold = 0)",
    )
    role.grant("SELECT, DELETE", "events")
    source = table("events", ledger_only=True, accepts_row_security=True)
    with role.world() as world:
        effect = world.delete(source, world.task(source))
        assert (effect.rows, effect.blocked) == (2, 1)
        kept = world.delete(source, world.task(source))
        assert (kept.outcome, kept.blocked) == (Outcome.PROTECTED, 1)
    assert row_database.ask("SELECT id FROM events ORDER BY id") == [(2,), (4,)]


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
def test_a_table_without_transactions_is_refused(row_database: RowDatabase) -> None:
    row_database.run(EVENTS + " ENGINE = MyISAM")
    with row_database.world() as world:
        refused = by_code(world)["table-refused"]
    assert "engine MyISAM" in refused.message


def test_a_login_that_is_refused_is_a_matter_of_credentials(row_database: RowDatabase) -> None:
    if row_database.kind == "sqlite":
        pytest.skip("files have no logins")
    row_database.run(EVENTS, ONE_OLD)
    with row_database.world() as world:
        what = world.task(SOURCE)
    url = sa.make_url(row_database.url).set(username="nobody_of_ours", password="geheim")
    with row_database.world(url.render_as_string(hide_password=False)) as world:
        failure = world.fails(SOURCE, what)
    assert failure.failure_class is FailureClass.CREDENTIALS
    assert "geheim" not in failure.error


# -- foreign keys that the catalog hides

HIDDEN = (
    "CREATE TABLE scans (id INT PRIMARY KEY, event INT, FOREIGN KEY (event) "
    "REFERENCES events (id) ON DELETE CASCADE)",
    "CREATE TABLE claims (id INT PRIMARY KEY, event INT, FOREIGN KEY (event) "
    "REFERENCES events (id) ON DELETE SET NULL)",
    "INSERT INTO scans VALUES (1, 1)",
    "INSERT INTO claims VALUES (1, 1)",
)
MARIADB = pytest.mark.parametrize("row_database", ["mysql"], indirect=True)


@MARIADB
@pytest.mark.parametrize("dependents", [(), None, ("scans",)])
def test_foreign_keys_that_a_user_may_not_see_stop_the_policy_and_name_the_grant(
    row_database: RowDatabase, role: Role, dependents: tuple[str, ...] | None
) -> None:
    """S-REACH-05: with exactly the rights that the table itself needs."""
    row_database.run(EVENTS, ONE_OLD, *HIDDEN)
    role.grant("SELECT, DELETE", "events")
    source = table("events", ledger_only=True, dependents=dependents)
    with row_database.world() as owner:
        what = owner.plan(table("events", ledger_only=True, dependents=None))[0]
    with role.world() as world:
        if dependents != ("scans",):  # which this user cannot even find
            with pytest.raises(TableRefused, match=r"GRANT PROCESS ON .*foreign_keys_seen"):
                world.reader.describe(source)
        failure = world.fails(source, what)
        assert failure.failure_class in (FailureClass.MALFORMED, FailureClass.PERMISSION)
    assert row_database.ask("SELECT event FROM scans") == [(1,)]
    assert row_database.ask("SELECT event FROM claims") == [(1,)]


@MARIADB
def test_what_is_granted_as_told_makes_the_plan_possible_and_its_rows_safe(
    row_database: RowDatabase, role: Role
) -> None:
    """S-REACH-05."""
    row_database.run(
        EVENTS, ONE_OLD, f"INSERT INTO events VALUES (2, {OLD}, 0)", *HIDDEN  # noqa: S608
    )  # fmt: skip
    role.grant("SELECT, DELETE", "events")
    role.see_foreign_keys()
    source = table("events", ledger_only=True)
    with role.world() as world:
        with pytest.raises(TableRefused, match=r"GRANT SELECT ON .*(claims|scans)"):
            world.reader.describe(source)
        role.grant("SELECT", "scans")
        role.grant("SELECT", "claims")
    with role.world() as world:
        assert [end.rows for end in world.drain(source)] == [1]
    assert row_database.ask("SELECT id FROM events") == [(1,)]
    assert row_database.ask("SELECT event FROM scans") == [(1,)]


@MARIADB
def test_a_policy_that_trusts_goes_ahead_and_says_so(row_database: RowDatabase, role: Role) -> None:
    row_database.run(EVENTS, ONE_OLD)
    role.grant("SELECT, DELETE", "events")
    source = table("events", ledger_only=True, trusts_foreign_keys=True)
    with role.world() as world:
        (note,) = (
            note
            for note in world.reader.describe(source).notes
            if note.code == "foreign-keys-trusted"
        )
        assert (note.level, "GRANT" in note.message) == (Level.WARNING, True)
        assert [end.rows for end in world.drain(source)] == [1]
    with row_database.world() as owner:
        codes = {note.code for note in owner.reader.describe(source).notes}
        assert "foreign-keys-trusted" not in codes, "who sees all of them trusts nothing"
