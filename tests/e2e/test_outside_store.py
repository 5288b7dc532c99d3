"""A store of another package, installed beside bestbefore: `examples/http-store`, as its README
has it."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "http-store"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
OLD, YOUNG = datetime.now(UTC) - timedelta(days=400), datetime.now(UTC)


def module() -> ModuleType:
    """The server that the example is tested with."""
    spec = importlib.util.spec_from_file_location("reference", EXAMPLE / "tests" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # where dataclasses look for it
    spec.loader.exec_module(made)
    return made


REFERENCE = module()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the example as pip installs it, and nothing else."""
    return pip_install(EXAMPLE, tmp_path_factory.mktemp("installed"))


def pip_install(sources: Path, folder: Path) -> Path:
    quietly = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    pip = (sys.executable, "-m", "pip", "install")
    subprocess.run([*pip, *quietly, "--target", folder, sources], check=True, timeout=120)
    return folder


@pytest.fixture
def server() -> Iterator[Any]:
    with REFERENCE.serving(REFERENCE.Reference(containers={"builds": {}})) as server:
        for number in range(25):
            server.put("builds", f"nightly/{number:02} ü+%41.tar", b"x" * number, OLD)
        server.put("builds", "nightly/young.tar", b"x", YOUNG)
        server.put("builds", "release/1.0.tar", b"x", OLD)
        yield server


class Setup:
    """A folder with the README's configuration, and bestbefore beside what is *installed*."""

    def __init__(self, folder: Path, installed: Path | None, url: str) -> None:
        (configuration,) = re.findall(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
        self.file = folder / "bestbefore.toml"
        self.file.write_text(configuration.replace("http://127.0.0.1:8321", url))
        paths = [*([str(installed)] if installed else []), os.environ.get("PYTHONPATH", "")]
        self._environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def __call__(self, *arguments: str, code: int = 0, **environ: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "bestbefore", *arguments, "--json"],
            cwd=self.file.parent,
            env=self._environ | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout) if code < 2 else done.stderr


@pytest.fixture
def setup(tmp_path: Path, installed: Path, server: Any) -> Setup:
    return Setup(tmp_path, installed, server.url)


def test_the_readme_of_the_example_does_what_it_says(setup: Setup, server: Any) -> None:
    typed = re.findall(r"^\$ bestbefore (.*)$", README, re.MULTILINE)

    check, plan, run = (setup(*shlex.split(line)) for line in typed)

    assert check["ok"], check
    assert {finding["code"] for finding in check["findings"]} >= {
        "store-listed",
        "conditions-honoured",
    }
    assert (plan["scanned"], plan["eligible"]) == (26, 25)
    assert run["work"]["outcomes"] == {"deleted": 25}
    assert run["state"] == "drained"
    assert server.keys("builds") == {"nightly/young.tar", "release/1.0.tar"}


def test_what_was_overwritten_after_the_plan_stays_and_what_is_gone_is_absent(
    setup: Setup, server: Any
) -> None:
    setup("plan", "nightly-builds")
    server.put("builds", "nightly/03 ü+%41.tar", b"overwritten", OLD)
    del server.containers["builds"]["nightly/04 ü+%41.tar"]

    work = setup("work", "--drain")

    assert work["outcomes"] == {"deleted": 23, "changed": 1, "absent": 1}
    assert server.containers["builds"]["nightly/03 ü+%41.tar"].body == b"overwritten"


def test_a_server_that_ignores_conditions_is_looked_at_before_each_delete(
    setup: Setup, server: Any
) -> None:
    server.ignores_conditions = True
    setup("plan", "nightly-builds")
    server.put("builds", "nightly/03 ü+%41.tar", b"overwritten", OLD)

    assert setup("work", "--drain")["outcomes"] == {"deleted": 24, "changed": 1}
    codes = {finding["code"] for finding in setup("check")["findings"]}

    assert "conditions-unproven" in codes
    assert "nightly/03 ü+%41.tar" in server.keys("builds")


def test_a_clock_that_is_an_hour_off_plans_nothing(setup: Setup, server: Any) -> None:
    server.clock_is_off_by = timedelta(hours=1)

    assert "clock" in setup("plan", "nightly-builds", code=2)


def test_a_token_comes_from_the_environment_and_a_wrong_one_is_named_but_not_shown(
    setup: Setup, server: Any
) -> None:
    server.token = "s3cret"
    setup.edit("# token_env", "token_env")

    unset = setup("check", code=2)
    wrong = setup("check", code=1, ARTIFACTS_TOKEN="guessed")
    right = setup("check", ARTIFACTS_TOKEN="s3cret")

    assert "stores.artifacts.options.token_env: the environment variable ARTIFACTS_TOKEN" in unset
    assert [finding["code"] for finding in wrong["findings"] if finding["level"] == "error"] == [
        "store-credentials"
    ]
    assert "guessed" not in json.dumps(wrong)
    assert right["ok"]


def test_options_that_the_adapter_does_not_take_are_its_own_words(setup: Setup) -> None:
    setup.edit("# timeout", "tiemout")

    said = setup("check", code=2)

    assert "stores.artifacts.options: unknown key tiemout; there are url, token" in said


def test_without_the_package_the_kind_is_unknown(tmp_path: Path, server: Any) -> None:
    said = Setup(tmp_path, None, server.url)("check", code=2)

    assert 'stores.artifacts.kind: expected "s3" or "directory", found "http"' in said
    assert "install the package" in said


def test_the_example_passes_its_own_tests_beside_an_installed_bestbefore(
    installed: Path, tmp_path: Path
) -> None:
    """The suite is in the wheel, and needs nothing of this repository's tests."""
    site = pip_install(ROOT, tmp_path / "site")
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    shutil.copy(EXAMPLE / "pyproject.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{installed}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
