"""What double quotes in a policy's `where` mean, on every database."""

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.engine import Database
from bestbefore.contracts.row_world import OLD, RowWorld, table
from bestbefore.contracts.rows import batches
from bestbefore.domain.finding import Level
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase

EVENTS = (
    'CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, archived_at INT, note VARCHAR(40), '
    '"a""b" INT, "Order" INT)'
)  # fmt: skip
ANSI, PLAIN = "ANSI_QUOTES", ""


@pytest.fixture
def events(world: RowWorld) -> RowWorld:
    world.run(EVENTS)
    world.insert(
        "events", (1, OLD, None, 'say "hi"', 7, 1), (2, OLD, 5, "it's", 8, 2), (3, OLD, 5, "", 8, 3)
    )
    return world


def chosen(world: RowWorld, where: str) -> int:
    """How many rows a plan with *where* selects."""
    return sum(batch.rows for batch in batches(world, table(where=where)))


def with_mode(database: RowDatabase, mode: str) -> str:
    """The URL of a server whose sessions have this sql_mode."""
    there = sa.make_url(database.url)
    there = there.update_query_dict({"init_command": f"SET sql_mode = '{mode}'"})
    return there.render_as_string(hide_password=False)


def test_a_misspelt_column_in_double_quotes_is_refused(events: RowWorld) -> None:
    """S-TEXT-01."""
    for where in (
        '"archivd_at" is not null',
        'id > 0 AND ("archivd_at" IS NOT NULL OR 1 = 0)',
        "id IN (SELECT id FROM events WHERE \"archivd_at\" > '')",
    ):
        with pytest.raises(TableRefused) as caught:
            events.reader.describe(table(where=where))
        assert "archivd_at" in str(caught.value)
        (found,) = [f for f in events.deleter.check(table(where=where)) if f.level is Level.ERROR]
        assert found.code == "table-refused"


def test_double_quotes_inside_of_texts_and_names_are_no_quotes(events: RowWorld) -> None:
    """S-TEXT-01: what has one meaning is not refused."""
    name = '`a"b`' if events.kind == "mysql" else '"a""b"'
    assert chosen(events, "note = 'say \"hi\"'") == 1
    assert chosen(events, "note LIKE '%\"%' OR note = 'it''s'") == 2
    assert chosen(events, f"{name} = 8 AND note <> '\"archivd_at\"'") == 2


def test_a_column_in_the_quotes_of_its_database_is_that_column(events: RowWorld) -> None:
    quote = "`" if events.kind == "mysql" else '"'
    assert chosen(events, f"{quote}archived_at{quote} IS NOT NULL") == 2
    assert chosen(events, f"{quote}Order{quote} = 3") == 1


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
@pytest.mark.parametrize("mode", [PLAIN, ANSI, "ANSI", "ORACLE"])
class TestMariadb:
    """Where double quotes are a text or a name, as the server's sql_mode has it."""

    @pytest.mark.parametrize(
        ("where", "remedy"),
        [
            ('"archivd_at" is not null', "write 'archivd_at' for a text and `archivd_at` for a"),
            ('"archived_at" is not null', "write `archived_at` for the column"),
            ('"ARCHIVED_AT" is not null', "write `ARCHIVED_AT` for the column"),
            ('note = "done"', "write 'done' for a text"),
            ("note IN ('a', \"it's\")", "write 'it''s' for a text"),
            ('note = concat("a""c", \'c\')', "write 'a\"c' for a text"),
            ('note = _latin1"x"', "write 'x' for a text"),
            ('at > DATE "2026-01-01"', "write '2026-01-01' for a text"),
            ('"`x`" = 1', "```x```"),
        ],
    )
    def test_they_are_refused_with_both_ways_to_say_it(
        self, row_database: RowDatabase, events: RowWorld, mode: str, where: str, remedy: str
    ) -> None:
        """S-TEXT-01: under any mode, as that may change after a plan."""
        with row_database.world(with_mode(row_database, mode)) as world:
            with pytest.raises(TableRefused) as caught:
                world.reader.describe(table(where=where))
            assert remedy in str(caught.value)
            assert world.fails(table(where=where), events.task(table())).whole_source
        assert events.ids("events") == [1, 2, 3]

    def test_backquotes_are_names_and_single_quotes_texts_under_any_mode(
        self, row_database: RowDatabase, events: RowWorld, mode: str
    ) -> None:
        """S-TEXT-01: the remedy means the same everywhere."""
        with row_database.world(with_mode(row_database, mode)) as world:
            assert chosen(world, "`archived_at` IS NOT NULL AND note = 'it''s'") == 1
            assert chosen(world, "'archived_at' IS NOT NULL") == 3
            with pytest.raises(TableRefused, match="archivd_at"):
                world.reader.describe(table(where="`archivd_at` IS NOT NULL"))

    def test_names_of_ours_stay_names_when_the_mode_of_the_server_changes(
        self, row_database: RowDatabase, events: RowWorld, mode: str
    ) -> None:
        """S-TEXT-01, in our own statements: a quoted column must never become a text."""
        other = ANSI if mode == PLAIN else PLAIN
        database = Database(with_mode(row_database, mode))
        order = sa.table("events", sa.column("Order"))
        rows = sa.select(sa.func.count()).select_from(order).where(order.c.Order >= 2)
        with database.reading() as connection:
            assert connection.execute(rows).scalar_one() == 2

        @sa.event.listens_for(database._reader, "do_connect")
        def _changed(_dialect: object, _record: object, _args: object, how: dict[str, str]) -> None:
            how["init_command"] = f"SET sql_mode = '{other}'"

        with database.reading() as held, database.reading() as later:
            for connection in (held, later):
                assert connection.execute(rows).scalar_one() == 2
        database.dispose()


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
class TestConversions:
    """MariaDB compares a text with a number as numbers, and a text that is none is 0."""

    @pytest.mark.parametrize(
        "where",
        ["note = 0", "note IN (0, 1)", "NOT note", "note > 1.5", "note < now()", "note + 0 = 0"],
    )
    def test_a_text_compared_with_something_else_is_warned_of(
        self, events: RowWorld, where: str
    ) -> None:
        """A cousin of S-TEXT-01: it holds for rows that nobody meant."""
        facts = events.reader.describe(table(where=where))
        (note,) = [note for note in facts.notes if note.code == "where-converts"]
        assert note.level is Level.WARNING
        assert "count as 0 (" in note.message
        assert "say" not in note.message

    @pytest.mark.parametrize(
        "where",
        ["note = '0'", "id = 0", "id = '1'", "archived_at IS NULL", "note REGEXP '^[0-9]+$'"],
    )
    def test_what_is_compared_as_it_is_is_not(self, events: RowWorld, where: str) -> None:
        facts = events.reader.describe(table(where=where))
        assert [note for note in facts.notes if note.code == "where-converts"] == []


def test_elsewhere_a_text_and_a_number_are_never_the_same_by_chance(events: RowWorld) -> None:
    if events.kind == "mysql":
        pytest.skip("MariaDB converts them, see TestConversions")
    if events.kind == "postgresql":
        with pytest.raises(TableRefused, match="operator does not exist"):
            events.reader.describe(table(where="note = 0"))
    else:
        assert chosen(events, "note = 0") == 0
