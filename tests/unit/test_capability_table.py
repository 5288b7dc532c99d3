"""``docs/queue-capabilities.md`` is what the adapters' own records say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from bestbefore.ports.transport import Capabilities

TOOL = Path(__file__).parents[2] / "tools" / "capability_table.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capability_table", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_records_say(tool: ModuleType) -> None:
    written = tool.PAGE.read_text(encoding="utf-8")
    assert written == tool.page(written), "run `python tools/capability_table.py`"


def test_every_adapter_carries_a_record(tool: ModuleType) -> None:
    for kind in tool.kinds():
        found = tool.record(kind)
        records = [found] if isinstance(found, Capabilities) else list(found.values())
        assert all(isinstance(one, Capabilities) for one in records), kind


def test_versions_of_a_broker_have_rows_of_their_own(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "made_up_queues" / "rabbit"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "server.py").write_text(
        "from datetime import timedelta\n"
        "from bestbefore.ports.transport import Capabilities\n"
        "def of(size, days):\n"
        "    return Capabilities(size, timedelta(days=days), False, True, True, False, True,\n"
        "        timedelta(minutes=30))\n"
        "CAPABILITIES = {'3.x': of(128 * 1024 ** 2, 4), '4.x': of(256_000, 14)}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tool, "QUEUES", "made_up_queues")

    rows = [line for line in tool.page("").splitlines() if line.startswith("| `")]

    assert [row.split(" | ")[:4] for row in rows[-2:]] == [
        ['| `"rabbit"`, 3.x', "128 MiB", "4 days", "with its consumer's end, or after 30 min"],
        ['| `"rabbit"`, 4.x', "250 KiB", "14 days", "with its consumer's end, or after 30 min"],
    ]
