"""Names of tables and columns, as people write them."""

import pytest

from bestbefore.domain.names import parts, texts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("orders", ("orders",)),
        ("Orders", ("Orders",)),
        ("order", ("order",)),
        ("shop.orders", ("shop", "orders")),
        ('"CaseSchema"."Order"', ("CaseSchema", "Order")),
        ('shop."Order"', ("shop", "Order")),
        ('"we""ird"', ('we"ird',)),
        ('"a.b"', ("a.b",)),
        ('" a "', (" a ",)),
        ("größe", ("größe",)),
        ("two words", ("two words",)),
    ],
)
def test_a_name_stands_for_itself_character_by_character(
    written: str, expected: tuple[str, ...]
) -> None:
    """O-SCHEMA-01"""
    assert texts(written) == expected


@pytest.mark.parametrize(
    "written",
    ["", ".", "a.", ".a", "a..b", '"a', 'a"', '"a"b', '""', " a", "a ", "a .b", "a\0b", "a" * 65],
)
def test_what_is_no_name_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="name"):
        parts(written)


def test_what_stands_in_quotes_is_meant_exactly_as_it_is() -> None:
    assert parts('shop."Order"') == (("shop", False), ("Order", True))
