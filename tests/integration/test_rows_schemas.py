"""Rows of any tables that refer to each other in any way: what is gone or changed is what the plan
counted, and what the policy keeps stays."""

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from support.forks import Forks
from support.row_databases import RowDatabase
from support.row_schema_history import Broken, History, Product
from support.row_schema_tables import SchemaTables
from support.row_schemas import Case, drawn, shrunk

EXAMPLES = int(os.environ.get("BESTBEFORE_EXAMPLES", "60"))
FIRST = int(os.environ.get("BESTBEFORE_FIRST", "0"))

Told = tuple[str, list[str]]
"""What is broken, and the statements of the other session."""

_serial = count()


def told(product: Product, case: Case) -> Told | None:
    """How *case* breaks, None where it does not."""
    with closing(SchemaTables(product.database, case, str(next(_serial)))) as tables:
        try:
            History(product, tables).run()
        except Broken as broken:
            return str(broken), tables.said
    return None


@pytest.fixture
def product(row_database: RowDatabase, forks: Forks, tmp_path: Path) -> Iterator[Product]:
    with closing(Product(row_database, forks, tmp_path)) as made:
        yield made


@pytest.mark.timeout(3600)
def test_nothing_is_gone_or_changed_that_the_plan_did_not_count(product: Product) -> None:
    for seed in range(FIRST, FIRST + EXAMPLES):
        case = drawn(product.database.kind, seed)
        if told(product, case) is not None:
            case = shrunk(case, partial(told, product))
            broken, said = told(product, case) or ("not again", [])
            pytest.fail("\n".join([f"seed {seed}: {broken}", repr(case), *said]))
