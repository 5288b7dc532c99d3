"""Databases, and policies about their rows: what arrives, and what is refused by name."""

from collections.abc import Mapping
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.settings import ConfigError, DatabaseSettings, ThrottleSettings
from bestbefore.app.settings.problems import Problem
from bestbefore.domain.policy import Policy
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import (
    FileArchive,
    Governed,
    Partitions,
    RowSource,
    TableArchive,
    TimestampKind,
)
from support.settings import Read

GOOD = """
[databases.shop]
url = "postgresql+psycopg://cleaner@db.example.com/shop"
[policies.stale]
version = "v1"
older_than = "30d"
[policies.stale.rows]
database = "shop"
table = "updates"
timestamp = "delivered_at"
"""
STORE = """
[stores.cold]
kind = "s3"
"""


def refused(read: Read, text: str, environ: Mapping[str, str] | None = None) -> list[Problem]:
    """The problems of a file that must be refused."""
    with pytest.raises(ConfigError) as caught:
        read(text, environ)
    return list(caught.value.problems)


def with_line(section: str, line: str, text: str = GOOD) -> str:
    """*text* with *line* in *section*, in place of the line with the same key."""
    key = line.partition(" =")[0]
    head, header, tail = text.partition(f"[{section}]\n")
    body, bracket, rest = tail.partition("\n[")
    kept = [old for old in body.splitlines() if old.partition(" =")[0] != key]
    return "".join((head, header, line, "\n", "\n".join(kept), bracket or "\n", rest))


def archiving(archive: str, line: str = 'action = "archive"') -> str:
    text = with_line("policies.stale", line)
    return f"{STORE}{text}[policies.stale.archive]\n{archive}\n"


def test_a_small_policy_about_rows_gets_the_defaults(read: Read) -> None:
    settings = read(GOOD)

    url = "postgresql+psycopg://cleaner@db.example.com/shop"
    assert settings.databases == {"shop": DatabaseSettings("shop", url, max_concurrency=4)}
    assert settings.policies == {
        "stale": Policy(
            name="stale",
            version="v1",
            owner="",
            older_than=Age(0, 30 * 86_400),
            source=RowSource("shop", "updates", "delivered_at"),
        )
    }
    assert settings.warnings == ()


def test_sqlite_which_has_one_writer_gets_one_batch_at_a_time_unless_it_is_told(read: Read) -> None:
    sqlite = with_line("databases.shop", 'url = "sqlite:///shop.db"')
    told = with_line("databases.shop", "max_concurrency = 3", sqlite)

    found = [read(text).databases["shop"].max_concurrency for text in (sqlite, told)]

    assert found == [1, 3]


def test_every_key_about_rows_arrives(read: Read) -> None:
    settings = read(
        """
        [databases.shop]
        url_env = "SHOP"
        max_concurrency = 2
        rows_per_second = 5_000
        pause = "20ms"
        window = "22:30-05:00"
        [databases.shop.throttle]
        replica_lag = "10s"
        lock_wait = "500 ms"
        sql = "select 0"
        http = "http://127.0.0.1:8111/check?app=cleanup"
        [policies.stale]
        version = "v1"
        older_than = "30d"
        timezone = "Europe/Berlin"
        [policies.stale.rows]
        database = "shop"
        table = "shop.updates"
        key = ["tenant", "id"]
        timestamp = "delivered_at"
        timestamp_kind = "naive"
        timestamp_zone = "America/New_York"
        where = "status = 'it''s; done' and (a > 1 or b = ')')"
        batch_size = 5_000
        target_duration = "200ms"
        synchronous_below = 0
        synchronous_within = "2s"
        dependents = ["lines", "shop.notes"]
        foreign_keys_seen = "trust"
        row_security = "accept"
        partitions = "rows"
        completion = "ledger"
        allow_full_scan = true
        """,
        {"SHOP": "mysql+pymysql://me:geheim@db/shop"},
    )

    assert settings.databases["shop"] == DatabaseSettings(
        "shop",
        "mysql+pymysql://me:geheim@db/shop",
        max_concurrency=2,
        rows_per_second=5_000,
        pause=timedelta(milliseconds=20),
        window=(time(22, 30), time(5)),
        throttle=ThrottleSettings(
            timedelta(seconds=10),
            timedelta(milliseconds=500),
            "select 0",
            "http://127.0.0.1:8111/check?app=cleanup",
        ),
    )
    assert settings.policies["stale"].rows == RowSource(
        database="shop",
        table="shop.updates",
        timestamp="delivered_at",
        key=("tenant", "id"),
        timestamp_kind=TimestampKind.NAIVE,
        timestamp_zone="America/New_York",
        where="status = 'it''s; done' and (a > 1 or b = ')')",
        batch_size=5_000,
        target_duration=timedelta(milliseconds=200),
        synchronous_below=0,
        synchronous_within=timedelta(seconds=2),
        dependents=("lines", "shop.notes"),
        trusts_foreign_keys=True,
        accepts_row_security=True,
        partitions=Partitions.ROWS,
        ledger_only=True,
        allow_full_scan=True,
    )
    assert "geheim" not in repr(settings)


def test_a_relative_sqlite_database_is_relative_to_the_file(read: Read, tmp_path: Path) -> None:
    settings = read(with_line("databases.shop", 'url = "sqlite:///data/shop.db"'))

    assert settings.databases["shop"].url == f"sqlite:///{tmp_path}/data/shop.db"


def test_the_address_of_a_throttle_may_come_from_elsewhere_and_is_not_shown(read: Read) -> None:
    text = GOOD.replace(
        "[policies.stale]", '[databases.shop.throttle]\nhttp_env = "T"\n[policies.stale]'
    )

    settings = read(text, {"T": "https://gate.example.com/check?token=geheim"})

    assert settings.databases["shop"].throttle.http == "https://gate.example.com/check?token=geheim"
    assert "geheim" not in repr(settings)
    [problem] = refused(read, text, {"T": "ftp://geheim"})
    assert ".".join(problem.place) == "databases.shop.throttle.http_env"
    assert "geheim" not in str(problem)


def test_a_password_in_the_file_earns_a_warning(read: Read) -> None:
    url = "postgresql+psycopg://me:geheim@db/shop"

    [finding] = read(with_line("databases.shop", f'url = "{url}"')).warnings

    assert finding.code == "secret-in-file"
    assert "databases.shop.url" in finding.message
    assert "geheim" not in str(finding)


@pytest.mark.parametrize(
    ("written", "expected"), [('"auto"', None), ('"none"', ()), ('["b", "a"]', ("b", "a"))]
)
def test_dependents_are_all_none_or_some(
    read: Read, written: str, expected: tuple[str, ...] | None
) -> None:
    text = with_line("policies.stale.rows", f"dependents = {written}")

    assert read(text).policies["stale"].rows.dependents == expected


def test_without_a_word_no_other_table_is_touched_and_nothing_is_trusted(read: Read) -> None:
    """S-REACH-01, S-REACH-05."""
    plain = read(GOOD).policies["stale"]
    said = read(
        with_line(
            ROWS, 'dependents = "none"\nforeign_keys_seen = "proven"\nrow_security = "refuse"'
        )
    ).policies["stale"]

    assert plain.rows.dependents == ()
    assert not plain.allows_dependents
    assert (plain.rows.trusts_foreign_keys, plain.rows.accepts_row_security) == (False, False)
    assert plain.fingerprint() == said.fingerprint()


@pytest.mark.parametrize("zoned", ["naive", "date", "auto"])
def test_a_zone_goes_with_the_kinds_that_depend_on_one(read: Read, zoned: str) -> None:
    lines = f'timestamp_kind = "{zoned}"\ntimestamp_zone = "Asia/Tokyo"'

    source = read(with_line("policies.stale.rows", lines)).policies["stale"].rows

    assert (source.timestamp_kind, source.timestamp_zone) == (zoned, "Asia/Tokyo")


@pytest.mark.parametrize(
    ("archive", "expected"),
    [
        ('table = "archive.updates"', TableArchive("archive.updates")),
        (
            'store = "cold"\nbucket = "archive"\nprefix = "rows/"\nformat = "parquet"',
            FileArchive("cold", "archive", "rows/", "parquet"),
        ),
        (
            'store = "cold"\nbucket = "archive"\nformat = "jsonl"',
            FileArchive("cold", "archive", "", "jsonl"),
        ),
    ],
)
def test_rows_are_archived_to_a_table_or_to_files(read: Read, archive: str, expected: Any) -> None:
    policy = read(archiving(archive)).policies["stale"]

    assert (policy.action, policy.rows.archive, policy.archive) == ("archive", expected, None)


DATABASE, THROTTLE = "databases.shop", "databases.shop.throttle"
POLICY, ROWS = "policies.stale", "policies.stale.rows"

WRONG = [
    # databases
    (DATABASE, 'url = "mysql://u:geheim@h/d"', "url", 'found "mysql"', "mysql+pymysql://"),
    (DATABASE, 'url = "mariadb://u:geheim@h/d"', "url", 'found "mariadb"', "mariadb+pymysql://"),
    (DATABASE, 'url = "postgres://u:geheim@h/d"', "url", 'found "postgres"', "+psycopg://"),
    (DATABASE, 'url = "oracle://u:geheim@h/d"', "url", 'found "oracle"', "DATABASE"),
    (DATABASE, 'url = "mysql+pymysql://u:geheim@h"', "url", "name of a database", "/DATABASE"),
    (DATABASE, 'url = "mysql+pymysql://u:ge/heim@h/d"', "url", "a port that is", "%2F for /"),
    (DATABASE, 'url = "sqlite:///:memory:"', "url", "several processes", "sqlite:///"),
    (DATABASE, "url = 3", "url", "a text in quotes, found a number", "write a text"),
    (DATABASE, "max_concurrency = 0", "max_concurrency", "at least 1", "at least 1"),
    (DATABASE, "max_concurrency = 65", "max_concurrency", "at most 64", "at most 64"),
    (DATABASE, "rows_per_second = 0", "rows_per_second", "at least 1", "at least 1"),
    (DATABASE, "pause = 20", "pause", "expected a duration, found 20", '"20ms"'),
    (DATABASE, 'pause = "0ms"', "pause", "1ms to 1h", '"20ms"'),
    (DATABASE, 'pause = "2h"', "pause", "1ms to 1h", '"20ms"'),
    (DATABASE, 'pause = "1mo"', "pause", "expected a duration", '"20ms"'),
    (DATABASE, 'window = "01:00"', "window", "two times of day", "01:00-05:00"),
    (DATABASE, 'window = "1-5"', "window", "two times of day", "01:00-05:00"),
    (DATABASE, 'window = "01:00-24:00"', "window", "two times of day", "01:00-05:00"),
    (DATABASE, 'window = "01:00-01:00"', "window", "never or always", "remove the key"),
    (DATABASE, "window = ['a']", "window", "two times of day", "01:00-05:00"),
    (DATABASE, "throttle = 3", "throttle", "expected a section", "[databases.shop.throttle]"),
    (DATABASE, "throttle = { lag = '1s' }", "throttle.lag", "unknown key", "replica_lag"),
    (DATABASE, "throttle = { http = 'db' }", "throttle.http", "an HTTP address", "http://"),
    (DATABASE, "throttle = { http = 'http://u:p@h' }", "throttle.http", "without user", "http"),
    (DATABASE, "throttle = { lock_wait = 1 }", "throttle.lock_wait", "a duration", '"20ms"'),
    (DATABASE, "throttle = { sql = '' }", "throttle.sql", "expected a text", "write a value"),
    (DATABASE, 'timestamp = "a"', "timestamp", "unknown key", "belongs in [policies.NAME.rows]"),
    (DATABASE, 'dsn = "a"', "dsn", "unknown key", 'did you mean "url"?'),
    # rows
    (ROWS, 'database = "shpo"', "database", 'no database "shpo"', 'did you mean "shop"?'),
    (ROWS, 'database = "zzz"', "database", 'no database "zzz"', "add [databases.zzz] or use shop"),
    (ROWS, 'table = ""', "table", "expected a text", "write a value"),
    (ROWS, 'table = "a.b.c"', "table", "at most 2", "schema.table"),
    (ROWS, "table = 'a\"b'", "table", "expected a name", "double quotes"),
    (ROWS, 'table = "${T}"', "table", "the value itself", "not filled in here"),
    (ROWS, f'table = "{"t" * 65}"', "table", "more than 64 characters", "schema.table"),
    (ROWS, 'timestamp = "a.b"', "timestamp", "at most 1", "its name"),
    (ROWS, 'key = "id"', "key", "a list of columns", '["id"]'),
    (ROWS, "key = []", "key", "a list of columns", '["id"]'),
    (ROWS, 'key = ["id", "id"]', "key", '"id" stands there twice', "keep one"),
    (ROWS, 'timestamp_kind = "unix"', "timestamp_kind", '"epoch_s"', "write"),
    (ROWS, 'timestamp_kind = "naive"', "timestamp_zone", "beside timestamp_kind", '"UTC"'),
    (
        ROWS,
        'timestamp_zone = "UTC"\ntimestamp_kind = "epoch_s"',
        "timestamp_zone",
        'kind "epoch_s" do not depend',
        "naive",
    ),
    (ROWS, 'timestamp_zone = "Berlin"', "timestamp_zone", "Berlin", "Europe/Berlin"),
    (ROWS, 'where = ""', "where", "expected a text", "remove the key"),
    (ROWS, 'where = "a = ${b}"', "where", "the value itself", "not filled in here"),
    (ROWS, "batch_size = 0", "batch_size", "at least 1", "at least 1"),
    (ROWS, "batch_size = 100_001", "batch_size", "at most 100000", "at most"),
    (ROWS, 'target_duration = "2min"', "target_duration", "1ms to 60s", '"200ms"'),
    (ROWS, 'synchronous_within = "200ms"', "synchronous_within", "a duration", '"10s"'),
    (ROWS, "synchronous_below = -1", "synchronous_below", "at least 0", "at least 0"),
    (ROWS, 'dependents = "all"', "dependents", "a list of tables", '"auto", "none"'),
    (ROWS, "dependents = []", "dependents", "a list of tables", '"auto", "none"'),
    (ROWS, 'dependents = ["updates"]', "dependents", "own table", "need no mention"),
    (ROWS, 'foreign_keys_seen = "yes"', "foreign_keys_seen", '"proven" or "trust"', "write"),
    (ROWS, "foreign_keys_seen = true", "foreign_keys_seen", "a text", "write a text"),
    (ROWS, 'row_security = "ignore"', "row_security", '"refuse" or "accept"', "write"),
    (ROWS, 'partitions = "keep"', "partitions", '"detach"', "write"),
    (ROWS, 'partitions = "drop"\nwhere = "a = 1"', "partitions", "go with where", '"rows"'),
    (ROWS, 'completion = "none"', "completion", '"target" or "ledger"', "write"),
    (ROWS, 'table = "bestbefore_completed_batches"', "table", "remembers what is done", "another"),
    (ROWS, 'table = "x.bestbefore_completed_batches"', "table", "remembers", "another"),
    # what only objects know, and the other way round
    (ROWS, "bypass_governance = true", "bypass_governance", "unknown key", "stale.objects]"),
    (ROWS, "keep_generations = 1", "keep_generations", "unknown key", "stale.objects]"),
    (ROWS, 'prefix = "a/"', "prefix", "unknown key", "[policies.stale.objects] or"),
    (ROWS, 'filter = "a"', "filter", "unknown key", 'did you mean "where"?'),
    (ROWS, 'primary_key = "a"', "primary_key", "unknown key", 'did you mean "key"?'),
    (POLICY, 'table = "a"', "table", "unknown key", "belongs in [policies.stale.rows]"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "line", "key", "message", "remedy"), WRONG)
def test_one_wrong_key_is_one_problem_at_its_place(
    read: Read, section: str, line: str, key: str, message: str, remedy: str
) -> None:
    [problem] = refused(read, with_line(section, line))

    assert ".".join(problem.place) == f"{section}.{key}"
    assert message in problem.message
    assert remedy in problem.remedy
    assert "geheim" not in str(problem)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('url = "postgresql+psycopg://cleaner@db.example.com/shop"', "databases.shop.url"),
        ('database = "shop"', "policies.stale.rows.database"),
        ('table = "updates"', "policies.stale.rows.table"),
        ('timestamp = "delivered_at"', "policies.stale.rows.timestamp"),
    ],
)
def test_a_required_key_that_is_absent_is_named(read: Read, line: str, place: str) -> None:
    [problem] = refused(read, GOOD.replace(line, ""))

    assert ".".join(problem.place) == place
    assert "found none" in problem.message
    assert place.rpartition(".")[2] in problem.remedy


def test_a_policy_is_about_objects_or_about_rows(read: Read) -> None:
    objects = '[policies.stale.objects]\nstore = "cold"\nbucket = "b"\nwhole_bucket = true\n'

    [both] = refused(read, STORE + GOOD + objects)
    [none] = refused(read, GOOD.partition("[policies.stale.rows]")[0])

    assert (both.place[-1], both.message) == ("rows", "expected objects or rows, found both")
    assert "[policies.stale.objects], or [policies.stale.rows]" in none.remedy


def test_a_store_and_a_database_have_different_names(read: Read) -> None:
    """Both are connections: a breaker, or a hold, is known by that name alone."""
    [problem] = refused(read, STORE.replace("cold", "shop") + GOOD)

    assert problem.place == ("databases", "shop")
    assert problem.remedy == "rename one of them"


@pytest.mark.parametrize("name", ["Shop", "a b"])
def test_names_of_databases_are_plain(read: Read, name: str) -> None:
    text = GOOD.replace("databases.shop", f'databases."{name}"')

    [problem] = refused(read, text.replace('database = "shop"', f'database = "{name}"'))

    assert problem.place == ("databases", name)


@pytest.mark.parametrize(
    ("archive", "action", "key", "message"),
    [
        ('table = "b"', 'action = "delete"', "", "of no use without"),
        ("", 'action = "archive"', ".table", "expected where the rows go"),
        ('bucket = "b"', 'action = "archive"', ".table", "expected where the rows go"),
        ('table = "b"\nbucket = "c"', 'action = "archive"', ".bucket", "found both"),
        ('table = "updates"', 'action = "archive"', ".table", "the policy's own table"),
        ("table = '\"updates\"'", 'action = "archive"', ".table", "the policy's own table"),
        ('table = "bestbefore_completed_batches"', 'action = "archive"', ".table", "remembers"),
        ('store = "cold"\nformat = "jsonl"', 'action = "archive"', ".bucket", "beside store"),
        ('store = "cold"\nbucket = "b"', 'action = "archive"', ".format", "beside store"),
        ('store = "clod"\nbucket = "b"\nformat = "jsonl"', 'action = "archive"', ".store", "clod"),
        ('store = "cold"\nbucket = "b"\nformat = "csv"', 'action = "archive"', ".format", "jsonl"),
    ],
)  # fmt: skip
def test_what_rows_cannot_be_archived_to_is_refused(
    read: Read, archive: str, action: str, key: str, message: str
) -> None:
    [problem] = refused(read, archiving(archive, action))

    assert ".".join(problem.place) == f"policies.stale.archive{key}"
    assert message in problem.message


def test_archiving_needs_to_know_where_to(read: Read) -> None:
    [problem] = refused(read, with_line(POLICY, 'action = "archive"'))

    assert problem.remedy == "add [policies.stale.archive] with table, or store, bucket and format"


@pytest.mark.parametrize(
    ("line", "key"),
    [('partitions = "detach"', "partitions"), ("synchronous_below = 5", "synchronous_below")],
)
def test_what_only_a_delete_does_is_refused_where_rows_are_archived(
    read: Read, line: str, key: str
) -> None:
    [problem] = refused(read, with_line(ROWS, line, archiving('table = "b"')))

    assert ".".join(problem.place) == f"{ROWS}.{key}"


def test_rows_go_to_files_only_with_a_record_beside_the_data(read: Read) -> None:
    files = 'store = "cold"\nbucket = "b"\nformat = "jsonl"'
    to_files, to_table = (
        with_line(ROWS, 'completion = "ledger"', archiving(archive))
        for archive in (files, 'table = "gone"')
    )

    [problem] = refused(read, to_files)

    assert ".".join(problem.place) == "policies.stale.rows.completion"
    assert 'write completion = "target"' in problem.remedy
    assert read(to_table).policies["stale"].rows.ledger_only


def test_objects_are_not_archived_to_a_table(read: Read) -> None:
    text = """
[stores.cold]
kind = "s3"
[policies.old]
version = "v1"
older_than = "30d"
action = "archive"
objects = { store = "cold", bucket = "b", prefix = "a/" }
archive = { store = "cold", bucket = "c", table = "d", format = "jsonl" }
"""
    problems = refused(read, text)

    assert [problem.place[-1] for problem in problems] == ["format", "table"]


@pytest.mark.parametrize("key", ["replica_lag", "lock_wait"])
def test_sqlite_is_not_asked_for_what_it_has_not(read: Read, key: str) -> None:
    text = with_line(DATABASE, f'throttle = {{ {key} = "1s" }}')

    [problem] = refused(read, with_line(DATABASE, 'url = "sqlite:///a.db"', text))

    assert ".".join(problem.place) == f"databases.shop.throttle.{key}"


IN_ONE = """
[state]
url = "postgresql+psycopg://ledger@db.example.com:5432/shop"
"""


@pytest.mark.parametrize("table", ["operations", "public.runs", "alembic_version"])
def test_no_policy_is_about_the_ledger(read: Read, table: str) -> None:
    text = IN_ONE + with_line(ROWS, f'table = "{table}"')

    [problem] = refused(read, text)

    assert ".".join(problem.place) == f"{ROWS}.table"
    assert "a table of the ledger" in problem.message
    assert read(text.replace(IN_ONE, ""))  # the ledger is elsewhere


def test_a_table_of_the_same_name_in_another_schema_is_not_the_ledgers(read: Read) -> None:
    assert read(IN_ONE + with_line(ROWS, 'table = "shop.operations"'))
    elsewhere = IN_ONE.replace("/shop", "/shop?options=-csearch_path%3Dledger")
    assert read(elsewhere + with_line(ROWS, 'table = "operations"'))
    [problem] = refused(read, elsewhere + with_line(ROWS, 'table = "ledger.operations"'))
    assert "a table of the ledger" in problem.message


def test_the_ledgers_own_sqlite_file_is_noticed_by_another_way_to_it(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    database = with_line(DATABASE, 'url = "sqlite:///linked/bestbefore.db"')

    [problem] = refused(read, with_line(ROWS, 'table = "events"', database))

    assert "a table of the ledger" in problem.message


OTHERS = """
[databases.same]
url = "postgresql+psycopg://other:secret@db.example.com:5432/shop"
[databases.elsewhere]
url = "sqlite:///else.db"
[policies.lines]
version = "v1"
older_than = "30d"
rows = { database = "same", table = "lines", timestamp = "at" }
[policies.others]
version = "v1"
older_than = "30d"
rows = { database = "elsewhere", table = "others", timestamp = "at" }
[policies.again]
version = "v1"
older_than = "300d"
rows = { database = "shop", table = "updates", timestamp = "at", where = "a = 1" }
"""


@pytest.mark.parametrize("dependents", ['"auto"', '["lines"]'])
def test_a_policy_that_may_touch_other_tables_knows_which_have_a_policy_of_their_own(
    read: Read, dependents: str
) -> None:
    text = with_line(ROWS, f"dependents = {dependents}")

    alone, among = read(text).policies["stale"], read(text + OTHERS).policies

    assert among["stale"].rows.governed == (Governed("lines"),)
    assert among["lines"].rows.governed == (), "it touches no other table"
    assert among["others"].rows.governed == ()
    assert alone.fingerprint() == among["stale"].fingerprint()


def test_a_policy_about_files_does_not_describe_a_database_that_is_cleaned_up(
    read: Read, tmp_path: Path
) -> None:
    files = f"""
[stores.files]
kind = "directory"
root = "{tmp_path}"
[policies.files]
version = "v1"
older_than = "30d"
objects = {{ store = "files", bucket = "data", prefix = "shop/" }}
"""
    text = with_line(DATABASE, 'url = "sqlite:///data/shop/a.db"')

    [problem] = refused(read, text + files)

    assert "databases.shop lies among the files" in problem.message
