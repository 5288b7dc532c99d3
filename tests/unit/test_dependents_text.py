"""What a person reads of other tables in a plan or a run."""

import tomllib
from typing import Any

import pytest

from bestbefore.cli.dependents import dependents_lines
from bestbefore.cli.text import rows_text


def document(*planned: tuple[str, int, int, int | None], **referenced: int) -> dict[str, Any]:
    names = ("table", "removed", "changed", "younger")
    return {
        "table": "main.orders",
        "planned_dependents": [dict(zip(names, table, strict=True)) for table in planned],
        "referenced": {f"main.{name}": n for name, n in referenced.items()},
    }


def lines(of: dict[str, Any], *dependents: str) -> list[str]:
    return dependents_lines(of, {"rows.dependents": list(dependents)})


def test_a_line_says_how_many_rows_of_each_table_would_be_removed_or_changed() -> None:
    """S-REACH-01, S-REACH-02."""
    assert lines(
        document(
            ("main.invoices", 20_000, 0, 20_000),
            ("main.notes", 0, 7, 0),
            ("main.both", 5, 2, None),
            ("main.one", 1, 0, 0),
        )
    ) == [
        "  with them        20,000 rows of main.invoices would be removed "
        "(20,000 younger than the cutoff)",
        "  with them             7 rows of main.notes would be changed",
        "  with them             5 rows of main.both would be removed, and 2 changed "
        "(how many are younger than the cutoff is not known)",
        "  with them             1 row of main.one would be removed",
    ]


def test_a_line_says_which_table_keeps_how_many_rows_and_what_to_write_about_it() -> None:
    """S-REACH-01."""
    assert lines(document(lines=12)) == [
        "  referenced           12 rows stay because rows of main.lines refer to them",
        '             to remove those too: dependents = ["main.lines"]',
    ]


def test_tables_that_are_listed_already_are_kept_in_the_line_to_write() -> None:
    found = lines(document(lines=1, tags=3, notes=2), "notes")

    kept = [line.split("stay")[0].split() for line in found[:3]]
    counted = (("3", "rows"), ("2", "rows"), ("1", "row"))
    assert kept == [["referenced", n, word] for n, word in counted]
    assert found[3].endswith('dependents = ["notes", "main.tags", "main.lines"]')


@pytest.mark.parametrize("allowed", [["Lines"], ["main.lines"], ['"lines"']])
def test_where_the_policy_allows_it_already_there_is_nothing_to_write(allowed: list[str]) -> None:
    """The rows stay for another reason, such as a policy of their own."""
    assert len(lines(document(lines=12), *allowed)) == 1
    assert len(dependents_lines(document(lines=12), {"rows.dependents": None})) == 1


def test_rows_that_keep_rows_of_their_own_table_need_no_mention() -> None:
    assert lines(document(orders=2)) == [
        "  referenced            2 rows stay: other rows of main.orders refer to them and stay"
    ]


def test_an_odd_name_is_written_as_a_policy_has_to_write_it() -> None:
    found = lines(document(**{'Order "Lines"': 1}))

    written = found[-1].partition("too: ")[2]
    assert tomllib.loads(written) == {"dependents": ['main."Order ""Lines"""']}


def test_a_run_over_objects_has_no_such_lines() -> None:
    assert dependents_lines({"table": None}, {}) == []


def test_what_was_done_names_removed_and_changed_rows_apart() -> None:
    assert rows_text({"deleted": 990, "blocked": 10}, {"order_lines": 30}, {"notes": 5}) == (
        "990 rows deleted, 10 rows blocked; with them 30 of order_lines; 5 of notes changed"
    )
    assert rows_text({"deleted": 1}, {}, {"notes": 5}) == "1 rows deleted; 5 of notes changed"
    assert rows_text({}, {}, {}) == "no rows"
