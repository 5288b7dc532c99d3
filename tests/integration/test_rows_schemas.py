"""Rows of any tables that refer to each other in any way: what is gone or changed is what the plan
counted, and what the policy keeps stays."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from support.forks import Forks
from support.row_databases import RowDatabase
from support.row_schema_checks import Broken
from support.row_schema_faults import FAULTS, Fault
from support.row_schema_history import History, Product
from support.row_schema_tables import SchemaTables
from support.row_schemas import Case, drawn, shrunk

EXAMPLES = int(os.environ.get("BESTBEFORE_EXAMPLES", "80"))
FIRST = int(os.environ.get("BESTBEFORE_FIRST", "0"))
"""Both for more than CI tries: BESTBEFORE_EXAMPLES=5000 BESTBEFORE_FIRST=80."""

WITHIN = 40
"""Examples after which a fault has to be noticed."""

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
        except Exception as error:
            error.add_note(repr(case))
            raise
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


@pytest.mark.parametrize(
    ("row_database", "fault"),
    [pytest.param(fault.kind, fault, id=fault.name) for fault in FAULTS],
    indirect=["row_database"],
)
def test_a_fault_of_the_product_is_noticed(
    product: Product,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    fault.put_in(monkeypatch)
    for seed in range(fault.first, fault.first + WITHIN):
        if found := told(product, drawn(fault.kind, seed)):
            record_property("noticed", f"seed {seed}: {found[0]}")
            return
    pytest.fail(f"not within {WITHIN} examples")
