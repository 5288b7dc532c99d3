"""What a command imports is what it needs: starting is most of what a run without work costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEVER = (
    "alembic",
    "bestbefore.adapters.rows",
    "bestbefore.app.demo",
    "bestbefore.web",
    "boto3",
    "botocore",
    "fastapi",
    "matplotlib",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "rich",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "structlog",
)
"""What nothing needs that works on files in folders, with a ledger that is there."""

SYSTEM = ("bestbefore.app.system", "pydantic", "sqlalchemy")

CONFIGURATION = """
[stores.files]
kind = "directory"
root = "data"
[policies.exports]
version = "v1"
older_than = "30d"
[policies.exports.objects]
store = "files"
bucket = "reports"
prefix = "exports/"
"""


def imported(folder: Path, *arguments: str) -> set[str]:
    """The modules that a command has imported by its end."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bestbefore", *arguments],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with a ledger."""
    (tmp_path / "bestbefore.toml").write_text(CONFIGURATION)
    (tmp_path / "data" / "reports").mkdir(parents=True)
    imported(tmp_path, "status")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [("status",), ("plan", "exports", "--dry-run"), ("run", "exports"), ("work", "--drain")],
    ids=lambda arguments: arguments[0],
)
def test_a_command_without_work_imports_nothing_that_it_does_not_need(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    found = imported(folder, *arguments)

    assert {*SYSTEM} <= found
    assert found.isdisjoint(NEVER), found & {*NEVER}


@pytest.mark.parametrize("arguments", [("--version",), ("status", "--config", "x", "--help")])
def test_what_is_asked_of_the_command_itself_imports_little(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    found = imported(tmp_path, *arguments)

    assert found.isdisjoint(NEVER)
    if "--version" in arguments:
        assert found.isdisjoint(SYSTEM)
