"""``docs/adapters.md`` names suites, ports and fixtures as they are."""

import re
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text(encoding="utf-8")
SUITES = re.findall(r"^\| `(\w+)\.(\w+)` \| `(\w+): (\w+)` \|", PAGE, re.MULTILINE)
PORTS = sorted(set(re.findall(r"`(bestbefore\.ports\.\w+)`", PAGE)))


@pytest.mark.parametrize(("module", "suite", "fixture", "world"), SUITES)
def test_a_suite_takes_the_fixture_that_the_page_names(
    module: str, suite: str, fixture: str, world: str
) -> None:
    found = import_module(f"bestbefore.contracts.{module}")
    tests = [one for name, one in vars(getattr(found, suite)).items() if name.startswith("test_")]

    assert tests
    assert all(get_type_hints(one).get(fixture) is getattr(found, world) for one in tests)


@pytest.mark.parametrize("name", PORTS)
def test_a_port_that_the_page_names_is_there(name: str) -> None:
    assert import_module(name).__doc__
