"""Which column takes every value of which other one."""

import pytest

from bestbefore.adapters.rows.widths import (
    affinity,
    same_affinity,
    text_bytes,
    text_for,
    utf8_bytes,
    wide_enough,
    widened,
)

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
    ("double", "double(10,2)"),
    ("enum('a','B')", "enum('a','B')"),
    ('"Mood"', '"Mood"'),
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
    ("enum('A','B')", "enum('a','b')"),
    ("set('A')", "set('a')"),
    ('"Mood"', '"mood"'),
    ("double(10,2)", "double"),
    ("double(10,2)", "float"),
    ("float(7,2)", "float"),
    ("tinytext", "text"),
    ("text", "mediumtext"),
    ("jsonb", "json"),
    ("integer[]", "integer"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "here"), TAKES)
def test_a_column_takes_what_is_not_wider(there: str, here: str) -> None:
    assert wide_enough(there, here)
    if "'" not in there and '"' not in there:
        assert wide_enough(there.upper(), here)


@pytest.mark.parametrize(("there", "here"), DOES_NOT_TAKE)
def test_what_might_not_fit_is_not_taken(there: str, here: str) -> None:
    assert not wide_enough(there, here)


@pytest.mark.parametrize(
    ("here", "charset", "size"),
    [
        ("tinytext", "latin1", 765),
        ("text", "latin1", 196_605),
        ("text", "utf8mb3", 65_535),
        ("text", "ucs2", 98_302),
        ("text", "gb18030", 98_302),
        ("text", "sjis", 196_605),
        ("longtext", "latin1", 3 * 2**30),  # as no value is longer than a packet
        ("varchar(21845)", "latin1", 65_535),
        ("varchar(21846)", "latin1", 65_538),
        ("varchar(100)", "ascii", 100),
        ("varchar(100)", "utf16", 400),
        ("text /*M!100301 COMPRESSED*/", "latin1", 196_605),
    ],
)
def test_texts_of_other_character_sets_are_measured_in_bytes(
    here: str, charset: str, size: int
) -> None:
    """S-STORE-08."""
    assert utf8_bytes(here, charset) == size


@pytest.mark.parametrize(
    ("there", "here", "both"),
    [
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(10,4)", "decimal(10,2)", "decimal(12,4)"),
        ("decimal(5,0) unsigned", "decimal(3,2) unsigned", "decimal(7,2) unsigned"),
        ("numeric(10,2)", "numeric", "numeric"),
        ("numeric(3)", "numeric(10,2)", "numeric(10,2)"),
        ("int", "decimal(10,2)", "decimal(10,2)"),
        ("varchar(5)", "varchar(9)", "varchar(9)"),
    ],
)
def test_a_column_that_is_changed_keeps_what_it_has(there: str, here: str, both: str) -> None:
    assert widened(there, here) == both


def test_the_smallest_text_that_takes_so_many_bytes_is_found() -> None:
    sizes = {255: "tinytext", 256: "text", 65_536: "mediumtext", 3 * 2**30: "longtext"}
    for size, type_ in sizes.items():
        assert text_for(size) == type_
        limit = text_bytes(type_.upper())
        assert limit is not None
        assert limit >= size
    assert text_bytes("varchar(10)") is None


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
