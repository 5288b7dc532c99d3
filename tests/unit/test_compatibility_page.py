"""``docs/compatibility.md`` is what its tool makes of a real run."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from contract import test_s3 as suite

ROOT = Path(__file__).parents[2]
RUN_IT = "run `python tools/compatibility.py --run`"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compatibility", ROOT / "tools/compatibility.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_run_that_is_kept(tool: ModuleType) -> None:
    text = tool.PAGE.read_text(encoding="utf-8")
    assert text == tool.page(text, json.loads(tool.KEPT.read_text(encoding="utf-8"))), RUN_IT


def test_the_run_that_is_kept_has_every_store_of_the_suite_and_no_failure(
    tool: ModuleType,
) -> None:
    kept = json.loads(tool.KEPT.read_text(encoding="utf-8"))["stores"]
    classes = {name: one for name, one in vars(suite).items() if name.startswith("Test")}
    assert kept.keys() == classes.keys(), RUN_IT
    for name, row in kept.items():
        assert row["failed"] == []
        assert not [test for test in row["passed"] if not hasattr(classes[name], test)], RUN_IT


def test_motos_multi_delete_is_found_to_ignore_conditions(tool: ModuleType) -> None:
    moto = json.loads(tool.KEPT.read_text(encoding="utf-8"))["stores"]["TestMoto"]["found"]
    assert moto["DeleteObjects"].startswith("ignored")
