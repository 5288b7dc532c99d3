"""Where the gate keeps its own ledger, and what it refuses before anything is played."""

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.scratch import NAME, beside
from bestbefore.app.system import open_system
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.gate.run import Gate, GateRefused, chosen
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.scratch import ScratchState
from support.postgresql import Postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def scratch(request: pytest.FixtureRequest, tmp_path: Path) -> ScratchState:
    if request.param == "sqlite":
        return beside(f"sqlite:///{tmp_path / 'bestbefore.db'}")
    postgres: Postgres = request.getfixturevalue("postgres")
    return beside(postgres.database_url(postgres.database))


def test_of_two_gates_only_one_makes_the_scratch_ledger(scratch: ScratchState) -> None:
    scratch.create()
    try:
        with pytest.raises(LedgerError, match="gate"):
            scratch.create()
        scratch.renew()
        with pytest.raises(LedgerError, match="gate"):
            scratch.create()
    finally:
        scratch.remove()
    assert not scratch.exists()


def test_a_pooler_that_drops_the_schema_is_refused_before_the_real_ledger_is_touched(
    pooled_url: str,
) -> None:
    scratch = beside(pooled_url)
    with pytest.raises(LedgerError, match="a pooler in between that drops `options`"):
        scratch.create()
    assert not scratch.exists()
    engine = sa.create_engine(pooled_url)
    with closing(engine.connect()) as connection:
        assert NAME not in sa.inspect(connection).get_schema_names()
        assert sa.inspect(connection).get_table_names("public") == []
    engine.dispose()


CONFIG = """
[stores.s]
kind = "directory"
root = "data"
[policies.exports]
version = "v1"
older_than = "30d"
[policies.exports.objects]
store = "s"
bucket = "exports"
"""


def config(folder: Path, source: str) -> Path:
    (folder / "data" / "exports").mkdir(parents=True)
    path = folder / "bestbefore.toml"
    path.write_text(CONFIG + source)
    return path


def test_a_policy_that_would_count_the_gates_keys_among_what_it_keeps_is_refused(
    tmp_path: Path,
) -> None:
    path = config(tmp_path, "whole_bucket = true\nkeep_last = 1\n")
    with (
        closing(open_system(path, {})) as system,
        pytest.raises(GateRefused, match=r"policies\.exports covers bestbefore-gate/"),
    ):
        Gate(system)


def test_a_bucket_in_which_nothing_can_be_removed_is_refused_with_one_object_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(tmp_path, 'prefix = "exports/"\n')
    with closing(open_system(path, {})) as system:
        gate = Gate(system)

        def refused(*_: object) -> None:
            raise StoreError(Failure(FailureClass.HELD, "locked until 2036"))

        store = system.store("s")
        assert store.files is not None
        monkeypatch.setattr(type(store.files), "remove", refused)
        with pytest.raises(GateRefused, match="could not be removed again: locked until 2036"):
            gate.play(chosen(["dry-run"]), lambda: False)
    assert not list(tmp_path.glob("*gate*"))
    assert gate.not_removed is not None
    assert "locked until 2036" in str(gate.not_removed.reason)
