"""What `deploy/` and `docs/metrics.md` say is true of the program."""

import configparser
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from bestbefore.cli import main
from bestbefore.read.families import FAMILIES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMES = {family.name for family in FAMILIES}
EXPOSED = NAMES | {
    f"{family.name}_{part}"
    for family in FAMILIES
    if family.kind == "histogram"
    for part in ("bucket", "sum", "count")
}
_NAME = re.compile(r"\bbestbefore_[a-z_]+")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def promtool() -> str:
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is not there; .ci/run brings it")
        pytest.skip("no promtool here; set PROMTOOL to where it is")
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["query"] for variable in dashboard["templating"]["list"])
    yield (DEPLOY / "prometheus-rules-test.yml").read_text()


def test_the_page_lists_every_name_with_its_kind_and_labels_and_no_other() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(bestbefore_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", page, re.MULTILINE)

    assert {name: (kind, set(re.findall(r"`(\w+)`", labels)), said) for name, kind, labels, said
            in table} == {f.name: (f.kind, set(f.labels), f.help) for f in FAMILIES}  # fmt: skip
    assert set(_NAME.findall(page)) <= EXPOSED


def test_rules_and_dashboard_name_nothing_that_does_not_exist() -> None:
    assert {name for text in expressions() for name in _NAME.findall(text)} <= EXPOSED


def test_the_dashboard_shows_every_name() -> None:
    shown = (DEPLOY / "grafana-dashboard.json").read_text()
    for name in NAMES:
        assert name in shown, name


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_a_blocked_cleanup_is_an_alert() -> None:
    """O-GUARD-02"""
    (parked,) = [rule for rule in rules() if "bestbefore_parked_runs" in rule["expr"]]
    assert parked["expr"] == "bestbefore_parked_runs > 0"


@pytest.mark.parametrize("what", [("check", "rules", "prometheus-rules.yml"),
                                  ("test", "rules", "prometheus-rules-test.yml")])  # fmt: skip
def test_promtool_agrees(what: tuple[str, ...]) -> None:
    *verb, file = what
    done = subprocess.run([promtool(), *verb, DEPLOY / file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def commands() -> Iterator[list[str]]:
    """Every command line of ours, without the program's name."""
    unit = configparser.RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / "bestbefore.service").read_text())
    yield unit["Service"]["ExecStart"].split()[1:]
    for line in (DEPLOY / "crontab").read_text().splitlines():
        if re.match(r"[\d*]", line):
            yield line.split()[7:]
    for document in yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text()):
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
        elif document["kind"] == "CronJob":
            pod = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        else:
            continue
        yield pod["containers"][0]["args"]


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: words[0])
def test_every_example_calls_a_verb_with_options_that_it_has(words: list[str]) -> None:
    verb = main.get_command(click.Context(main), words[0])
    if verb is None:
        pytest.skip(f"{words[0]} is not here yet")
    given = {word for word in words if word.startswith("--")}
    options = {name for p in verb.params if isinstance(p, click.Option) for name in p.opts}
    assert given <= options
