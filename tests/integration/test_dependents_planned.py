"""What a plan counted of other tables: in its run, in documents, in evidence, and for a person.

The counts are made up by a reader; those of real databases are tested with the adapters.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bestbefore.adapters.files.evidence import EvidenceParquet
from bestbefore.app import questions
from bestbefore.app.connecting import Tables, connect_tables
from bestbefore.app.settings import DatabaseSettings
from bestbefore.domain.rows import DependentRows
from bestbefore.domain.run import Run, Trigger
from bestbefore.ports.rows import RowReader, Slice
from bestbefore.read.documents import plan_document
from bestbefore.read.evidence import About, columns, evidence
from bestbefore.read.runs import shown_run_document
from support.shops import TABLE, Shop

LINES = DependentRows("main.lines", removed=3, younger=2)
NOTES = DependentRows("main.notes", changed=1)


class _Counting:
    """A reader that finds the same of other tables in every slice."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader

    def slice(self, *args: Any) -> Slice:
        found = self._reader.slice(*args)
        batches = [replace(batch, dependents=(LINES, NOTES)) for batch in found.batches]
        return found._replace(batches=batches, referenced={"main.lines": 4, "main.tags": 1})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def counting(settings: DatabaseSettings) -> Tables:
    made = connect_tables(settings)
    return replace(made, reader=_Counting(made.reader))  # type: ignore[arg-type]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    policy = {"dependents": ("lines", "notes"), "batch_size": 10}
    with Shop(tmp_path, policy=policy, tables=counting) as shop:
        for table in ("lines", "notes"):
            shop.ask(f"CREATE TABLE {table} (of INTEGER REFERENCES {TABLE} (id))")
            shop.ask(f"CREATE INDEX {table}_of ON {table} (of)")
        shop.fill(20)
        yield shop


def test_a_plan_counts_what_its_batches_may_do_to_other_tables(shop: Shop) -> None:
    """P8"""
    run = shop.plan()

    assert run.dependents == (DependentRows("main.lines", 6, 0, 4), NOTES._replace(changed=2))
    assert (run.rows, run.selected) == (20, 28)
    assert run.protected == {"referenced": 5}
    assert run.referenced == {"main.lines": 4, "main.tags": 1}
    assert run.table == "main.shipment_updates"
    assert shop.system.records.runs()[0] == run


def test_a_preview_counts_as_the_plan_does_and_writes_nothing(shop: Shop) -> None:
    planner = shop.system.planner(shop.policy)
    slot = shop.clock.now().replace(microsecond=0)

    with shop.system.scratch() as scratch:
        drawn = planner.preview(shop.policy, slot, scratch.plans, Trigger.RUN)

    assert shop.system.records.runs() == []
    planned = shop.plan()
    assert (drawn.dependents, drawn.referenced) == (planned.dependents, planned.referenced)


def documents(shop: Shop, run: Run) -> list[Mapping[str, Any]]:
    """The plan, and the run as it is shown."""
    return [plan_document(run), shown_run_document(shop.system.records, run, None)]


def test_documents_say_what_would_be_removed_and_changed_and_what_keeps_rows(shop: Shop) -> None:
    """S-REACH-01, S-REACH-02."""
    for document in documents(shop, shop.plan()):
        assert document["table"] == "main.shipment_updates"
        assert document["planned_dependents"] == [
            {"table": "main.lines", "removed": 6, "changed": 0, "younger": 4},
            {"table": "main.notes", "removed": 0, "changed": 2, "younger": None},
        ]
        assert document["referenced"] == {"main.lines": 4, "main.tags": 1}


def test_what_is_overdue_are_rows_of_the_policys_own_table(shop: Shop) -> None:
    shop.plan()
    shop.clock.step(timedelta(minutes=10))

    found = questions.verification(shop.system, shop.policy, lambda _: None, lambda: False)

    assert (found["unit"], found["overdue"]) == ("row", 20)


def test_evidence_has_what_was_planned_beside_what_was_done_in_both_formats(
    shop: Shop, tmp_path: Path
) -> None:
    shop.plan()
    shop.work()

    (run,) = evidence(About.RUNS, shop.system.records, None, None)
    first, _ = evidence(About.OPERATIONS, shop.system.records, None, None)

    assert [table["table"] for table in run["planned_dependents"]] == ["main.lines", "main.notes"]
    assert (run["dependents"], run["dependents_changed"]) == ({}, {})
    assert first["batch"]["dependents"] == [LINES._asdict(), NOTES._asdict()]
    assert first["effect"]["changed"] == {}
    for about, written in ((About.RUNS, [run]), (About.OPERATIONS, [first])):
        file = tmp_path / f"{about}.parquet"
        EvidenceParquet().write(file, columns(about), written)
        assert set(pq.read_table(file).column_names) == set(written[0])
