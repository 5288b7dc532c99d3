"""Which column takes every value of which other one."""

import pytest

from bestbefore.adapters.rows.widths import affinity, same_affinity, wide_enough

TAKES = [
    ("bigint", "integer"),
    ("text", "character varying(10)"),
    ("text", "character(3)"),
    ("character varying(20)", "character varying(10)"),
    ("character varying", "character varying(10)"),
    ("character varying(5)", "character"),
    ("numeric", "numeric(10,2)"),
    ("numeric(12,2)", "numeric(10,2)"),
    ("timestamp with time zone", "timestamp(3) with time zone"),
    ("double precision", "real"),
    ("uuid", "uuid"),
    ("int(11)", "int(10)"),
    ("bigint(20) unsigned", "int(10) unsigned"),
    ("varchar(20)", "varchar(10)"),
    ("varchar(10)", "char(10)"),
    ("longtext", "varchar(10)"),
    ("longtext", "text"),
    ("datetime(6)", "datetime"),
    ("decimal(12,2)", "decimal(10,2)"),
    ("varbinary(20)", "varbinary(10)"),
    ("longblob", "varbinary(10)"),
    ("double", "float"),
    ("enum('a','b')", "enum('a','b')"),
]
DOES_NOT_TAKE = [
    *((narrow, wide) for wide, narrow in TAKES if wide.split("(")[0] != narrow.split("(")[0]
      and wide != "uuid"),
    ("character varying(5)", "character varying(10)"),
    ("character varying(10)", "character varying"),
    ("numeric(10,2)", "numeric"),
    ("numeric(10,4)", "numeric(10,2)"),
    ("numeric(12,1)", "numeric(10,2)"),
    ("timestamp(3) with time zone", "timestamp with time zone"),
    ("timestamp without time zone", "timestamp with time zone"),
    ("bigint(20)", "int(10) unsigned"),
    ("int(10) unsigned", "int(10)"),
    ("varchar(5)", "char(10)"),
    ("datetime", "datetime(3)"),
    ("binary(4)", "binary(2)"),
    ("enum('a')", "enum('a','b')"),
    ("jsonb", "json"),
    ("integer[]", "integer"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "here"), TAKES)
def test_a_column_takes_what_is_not_wider(there: str, here: str) -> None:
    assert wide_enough(there, here)
    assert wide_enough(there.upper(), here)


@pytest.mark.parametrize(("there", "here"), DOES_NOT_TAKE)
def test_what_might_not_fit_is_not_taken(there: str, here: str) -> None:
    assert not wide_enough(there, here)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("INTEGER PRIMARY KEY", "INTEGER"),
        ("unsigned big int", "INTEGER"),
        ("varchar(10)", "TEXT"),
        ("charint", "INTEGER"),  # the first rule wins
        ("", "BLOB"),
        ("blob", "BLOB"),
        ("double", "REAL"),
        ("decimal(10,2)", "NUMERIC"),
        ("datetime", "NUMERIC"),
    ],
)
def test_sqlite_makes_of_a_type_what_it_documents(declared: str, found: str) -> None:
    assert affinity(declared) == found


def test_a_column_without_affinity_keeps_any_value() -> None:
    assert same_affinity("", "INTEGER")
    assert same_affinity("int", "bigint")
    assert not same_affinity("text", "int")
    assert not same_affinity("int", "")
