"""Counts for good and proofs, on both state databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.measures import SqlMeasures
from bestbefore.adapters.state.proofs import SqlProofs
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.measures import MeasuresContract
from bestbefore.contracts.proofs import ProofsContract
from support.ledgers import all_sides, new_ledger


@pytest.fixture
def database(state: str | None, tmp_path: Path) -> Iterator[Database]:
    database = Database(state or new_ledger(tmp_path / "state.db"))
    yield database
    database.dispose()


@pytest.fixture
def sides(database: Database) -> Sides:
    return all_sides(database)


class TestMeasures(MeasuresContract):
    @pytest.fixture
    def measuring(self, database: Database) -> SqlMeasures:
        return SqlMeasures(database)


class TestProofs(ProofsContract):
    @pytest.fixture
    def proofs(self, database: Database) -> SqlProofs:
        return SqlProofs(database)
