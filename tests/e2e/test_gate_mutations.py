"""The gate on a product that is broken on purpose: each fault is caught, by name."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from support.gate_faults import FAULTS, planted
from support.gates import Gates, failures
from support.rabbitmq import Rabbit

CAUGHT = {
    "record before effect": "killed-before-effect",
    "record rows before effect": "killed-before-commit",
    "no predicate in the DELETE": "row-changed",
    "no conditional delete": "overwritten",
    "no completion record": "replayed-batches",
    "ack before record": "killed-between-record-and-ack",
    "slot from now()": "trigger-twice",
    "skip the ledger check": "duplicate-delivery",
    "foreign keys not seen": "dependents-beyond-cap",
    "dependents outside the caps": "dependents-beyond-cap",
    "more dependents than counted": "dependents-beyond-cap",
}
"""Which promise each fault breaks, at the least."""


def test_every_fault_has_a_promise_that_it_breaks() -> None:
    assert CAUGHT.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", CAUGHT)
def test_the_gate_catches_a_product_with_the_fault(
    gates: Gates, seaweed: Seaweed, bucket: str, rabbit: Rabbit, tmp_path: Path, fault: str
) -> None:
    gates.objects(seaweed.settings(), bucket)
    gates.rows(_file(tmp_path))
    if fault in ("ack before record", "skip the ledger check"):
        gates.rabbitmq(rabbit)
    assert failures(gates.play(CAUGHT[fault])) == {}
    with planted(fault):
        assert CAUGHT[fault] in failures(gates.play(CAUGHT[fault]))


def _file(folder: Path) -> str:
    file = folder / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return f"sqlite:///{file}"
