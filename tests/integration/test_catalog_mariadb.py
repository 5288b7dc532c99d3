"""What MariaDB's catalog shows of foreign keys and triggers to users with few rights."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import ForeignKey
from bestbefore.adapters.rows.engine import Database
from support.row_databases import RowDatabase

CHILD = "CREATE TABLE {} (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES {} (id) {})"


@pytest.fixture(params=["mysql"])
def row_database(row_database: RowDatabase) -> RowDatabase:
    return row_database


@dataclass
class Cleaner:
    """A user who may only do what is granted. ``schema`` is the database of the tables."""

    database: RowDatabase
    name: str
    schema: str
    roles: list[str] = field(default_factory=list)

    @property
    def account(self) -> str:
        return f"'{self.name}'@'%'"

    def grant(self, rights: str, on: str) -> None:
        self.database.run(f"GRANT {rights} ON {on} TO {self.account}")

    def grant_by_role(self, rights: str, on: str, *, active: bool) -> None:
        role = f"{self.name}_role"
        self.roles.append(role)
        self.database.run(
            f"CREATE ROLE {role}",
            f"GRANT {rights} ON {on} TO {role}",
            f"GRANT {role} TO {self.account}",
        )
        if active:
            self.database.run(f"SET DEFAULT ROLE {role} FOR {self.account}")

    @contextmanager
    def _asking(self) -> Iterator[tuple[Database, sa.Connection]]:
        url = sa.make_url(self.database.url).set(username=self.name, password="geheim")
        opened = Database(url.render_as_string(hide_password=False))
        try:
            with opened.reading() as connection:
                yield opened, connection
        finally:
            opened.dispose()

    def sees(self, table: str = "orders") -> Sequence[ForeignKey]:
        with self._asking() as (opened, connection):
            return opened.dialect.foreign_keys(connection, self.schema, table)

    def is_told(self, table: str = "orders") -> str | None:
        """What is hidden of foreign keys."""
        with self._asking() as (opened, connection):
            return opened.dialect.hidden_foreign_keys(connection, self.schema, table)

    def is_told_of_triggers(self, table: str = "orders") -> str | None:
        with self._asking() as (opened, connection):
            return opened.dialect.hidden_triggers(connection, self.schema, table)

    def does_as_told(self, said: str) -> None:
        """Run the GRANT statements of a sentence."""
        self.database.run(*(part for part in said.split("; ") if part.startswith("GRANT ")))


@pytest.fixture
def cleaner(row_database: RowDatabase) -> Iterator[Cleaner]:
    name = f"bb_{secrets.token_hex(4)}"
    schema = str(sa.make_url(row_database.url).database)
    row_database.run(
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'geheim'",
        "CREATE TABLE orders (id INT PRIMARY KEY)",
        f"GRANT SELECT, DELETE ON orders TO '{name}'@'%'",
    )
    made = Cleaner(row_database, name, schema)
    yield made
    row_database.run(f"DROP USER '{name}'@'%'", *(f"DROP ROLE {role}" for role in made.roles))
    if row_database.schema:
        # Its tables refer to ours, which keeps ours from being dropped.
        for (child,) in row_database.ask(
            "SELECT TABLE_NAME FROM information_schema.TABLES"  # noqa: S608
            f" WHERE TABLE_SCHEMA = '{row_database.schema}'"
        ):
            row_database.run(f'DROP TABLE {row_database.schema}."{child}"')


def test_a_user_with_the_rights_on_one_table_is_told_that_foreign_keys_may_be_hidden(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    """S-REACH-05."""
    row_database.run(
        CHILD.format("items", "orders", "ON DELETE CASCADE"),
        CHILD.format("notes", "orders", "ON DELETE SET NULL"),
    )
    assert not cleaner.sees()
    said = cleaner.is_told()
    assert said is not None
    assert f"GRANT PROCESS ON *.* TO {cleaner.account}" in said


def test_a_table_without_any_foreign_key_is_not_known_to_have_none(cleaner: Cleaner) -> None:
    """S-REACH-05: nothing seen proves nothing, until PROCESS shows that nothing is there."""
    assert cleaner.is_told() is not None
    cleaner.grant("PROCESS", "*.*")
    assert cleaner.is_told() is None


def test_who_may_look_at_processes_is_told_which_tables_hide_their_foreign_keys(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    """S-REACH-05: in this schema and in another one, until the grants are made."""
    row_database.run(
        CHILD.format("items", "orders", "ON DELETE CASCADE"),
        CHILD.format("notes", "orders", "ON DELETE SET NULL"),
        CHILD.format(f"{row_database.schema}.parcels", f"{cleaner.schema}.orders", ""),
        "CREATE TABLE more (id INT PRIMARY KEY)",
        CHILD.format("of_more", "more", "ON DELETE CASCADE"),
    )
    cleaner.grant("PROCESS", "*.*")
    cleaner.grant("SELECT", "notes")
    said = cleaner.is_told()
    assert said is not None
    assert f"GRANT SELECT ON `{cleaner.schema}`.`items` TO {cleaner.account}" in said
    assert f"`{row_database.schema}`.`parcels`" in said
    assert "notes" not in said
    assert "of_more" not in said

    cleaner.does_as_told(said)

    assert cleaner.is_told() is None
    assert {key.table: key.on_delete for key in cleaner.sees()} == {
        "items": "CASCADE", "notes": "SET NULL", "parcels": "RESTRICT",
    }  # fmt: skip


@pytest.mark.parametrize(
    "child", ["c-2 é", "日本 :a%b", "A@B#c", "ü" * 40, "日" * 45, 'x`y"z', "#1", "select"]
)
def test_tables_are_told_apart_whatever_their_names(
    row_database: RowDatabase, cleaner: Cleaner, child: str
) -> None:
    """S-REACH-05: InnoDB's lists have names as files do, and cut them off."""
    quoted = "`" + child.replace("`", "``") + "`"
    parent = "`Bestellungen-ü/" + child[:20].replace("`", "``") + "`"
    name = parent[1:-1].replace("``", "`")
    row_database.run(
        f"CREATE TABLE {parent} (id INT PRIMARY KEY)",
        f"CREATE TABLE {quoted} (id INT PRIMARY KEY, o INT, CONSTRAINT `k/ü):%` FOREIGN KEY (o)"
        f" REFERENCES {parent} (id) ON DELETE SET NULL ON UPDATE CASCADE)",
    )
    cleaner.grant("PROCESS", "*.*")
    assert cleaner.is_told(name) is not None
    cleaner.grant("SELECT", quoted)
    assert cleaner.is_told(name) is None
    (key,) = cleaner.sees(name)
    assert (key.table, key.name, key.on_delete) == (child, "k/ü):%", "SET NULL")


def test_a_child_of_which_only_columns_may_be_read_is_hidden(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    """S-REACH-05."""
    row_database.run(CHILD.format("items", "orders", "ON DELETE CASCADE"))
    cleaner.grant("PROCESS", "*.*")
    cleaner.grant("SELECT (id)", "items")
    said = cleaner.is_told()
    assert said is not None
    assert "`items`" in said


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("right", ["SELECT", "PROCESS"])
def test_only_roles_that_are_active_make_it_sure(
    cleaner: Cleaner, right: str, active: bool
) -> None:
    """S-REACH-05."""
    cleaner.grant_by_role(right, "*.*", active=active)
    assert (cleaner.is_told() is None) is active


@pytest.mark.parametrize(("rights", "on", "sure"), [
    ("SELECT", "*.*", True),
    ("ALL PRIVILEGES", "*.*", True),
    ("RELOAD, SHOW DATABASES", "*.*", False),
    ("SELECT", "{schema}.*", False),
    ("ALL PRIVILEGES", "{schema}.*", False),
])  # fmt: skip
def test_only_a_right_on_every_table_makes_it_sure(
    row_database: RowDatabase, cleaner: Cleaner, rights: str, on: str, sure: bool
) -> None:
    """S-REACH-05: the hidden one is in another database."""
    other = CHILD.format(f"{row_database.schema}.parcels", f"{cleaner.schema}.orders", "")
    row_database.run(other)
    cleaner.grant(rights, on.format(schema=cleaner.schema))
    assert (cleaner.is_told() is None) is sure
    assert [key.table for key in cleaner.sees()] == ["parcels"] * sure


def test_what_happens_on_delete_is_read_by_those_who_may_only_select(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    """S-REACH-05: MariaDB hides the rules of a foreign key that it shows."""
    rules = ["CASCADE", "SET NULL", "RESTRICT", "NO ACTION"]
    for n, rule in enumerate(rules):
        row_database.run(CHILD.format(f"c{n}", "orders", f"ON DELETE {rule}"))
        cleaner.grant("SELECT", f"c{n}")
    assert [key.on_delete for key in cleaner.sees()] == rules


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", ""])
@pytest.mark.parametrize("quotes", [0, 1])
def test_rules_and_grants_are_read_however_the_server_quotes_names(
    row_database: RowDatabase, cleaner: Cleaner, mode: str, quotes: int
) -> None:
    row_database.run(CHILD.format("items", "orders", "ON DELETE CASCADE"))
    cleaner.grant("SELECT", "items")
    cleaner.grant("TRIGGER", "orders")
    url = sa.make_url(cleaner.database.url).set(username=cleaner.name, password="geheim")
    opened = Database(
        url.update_query_dict(
            {"init_command": f"SET sql_mode = '{mode}', sql_quote_show_create = {quotes}"}
        ).render_as_string(hide_password=False)
    )
    with opened.reading() as connection:
        (key,) = opened.dialect.foreign_keys(connection, cleaner.schema, "orders")
        assert key.on_delete == "CASCADE"
        assert opened.dialect.hidden_triggers(connection, cleaner.schema, "orders") is None
    opened.dispose()


@pytest.mark.parametrize(
    ("parent", "referred", "unique"),
    [
        ("PRIMARY KEY (a)", "a", True),
        ("UNIQUE (a)", "a", True),
        ("KEY (a)", "a", False),
        ("UNIQUE (a, b)", "a", False),
        ("UNIQUE (a, b)", "a, b", True),
        ("UNIQUE (B), KEY (a, b)", "A, b", True),
        ("KEY (a, b)", "a, b", False),
    ],
)
def test_a_foreign_key_to_columns_that_are_not_unique_is_told_apart(
    row_database: RowDatabase, cleaner: Cleaner, parent: str, referred: str, unique: bool
) -> None:
    """S-REACH-07: one row of the child may then have several parents."""
    columns = ", ".join(f"x{n}" for n, _ in enumerate(referred.split(",")))
    row_database.run(
        f"CREATE TABLE hdr (a INT NOT NULL, b INT NOT NULL, {parent})",
        f"CREATE TABLE line (x0 INT, x1 INT, FOREIGN KEY ({columns}) REFERENCES hdr ({referred}))",
    )
    cleaner.grant("SELECT", "hdr")
    cleaner.grant("SELECT", "line")
    (key,) = cleaner.sees("hdr")
    assert key.unique is unique


def test_triggers_that_a_user_may_not_see_are_told_of(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    """S-REACH-05: a user who sees no trigger is not sure that there is none."""
    said = cleaner.is_told_of_triggers()
    assert said is not None
    cleaner.does_as_told(said)
    assert cleaner.is_told_of_triggers() is None


def test_a_trigger_that_is_seen_leaves_nothing_hidden(
    row_database: RowDatabase, cleaner: Cleaner
) -> None:
    row_database.run("CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @seen = 1")
    shown = "SELECT count(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = 'orders'"
    with cleaner._asking() as (_, connection):
        seen = connection.exec_driver_sql(shown).scalar_one()
    assert (cleaner.is_told_of_triggers() is None) is bool(seen)


@pytest.mark.parametrize("on", ["{schema}.*", "{escaped}.*", "*.*", "{schema}.orders"])
def test_the_right_to_triggers_counts_wherever_it_is_granted(cleaner: Cleaner, on: str) -> None:
    escaped = f"`{cleaner.schema}`".replace("_", r"\_")
    cleaner.grant("TRIGGER", on.format(schema=cleaner.schema, escaped=escaped))
    assert cleaner.is_told_of_triggers() is None
    assert (cleaner.is_told_of_triggers("others") is None) is not on.endswith("orders")
