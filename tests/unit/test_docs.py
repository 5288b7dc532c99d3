"""The pages in ``docs/`` name everything there is, and the README's links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bestbefore.app.settings.schema import available_keys
from bestbefore.cli import main
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import NEXT, NEXT_RUN

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> set[str]:
    """What stands in the first column of every table."""
    return set(re.findall(r"^\| (.+?) \|", text, re.MULTILINE))


@pytest.mark.parametrize(
    "key", sorted(".".join(place) for place in available_keys() if place[-1] != "*")
)
def test_every_key_is_documented(key: str) -> None:
    if key in (
        "state", "queue", "infrai", "serve", "schedule", "stores", "databases", "policies",
    ):  # fmt: skip
        assert re.search(rf"^## `\[{key}[.\]]", page("configuration.md"), re.MULTILINE)
    else:
        assert any(f"`{key}`" in row for row in rows(page("configuration.md")))


def test_no_key_is_documented_that_does_not_exist() -> None:
    there_are = {".".join(place) for place in available_keys()}
    sections = "state|queue|infrai|serve|schedule|stores|databases|policies"
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.*]+)`", page("configuration.md")))
    assert named <= there_are


@pytest.mark.parametrize("member", [*FailureClass, *Outcome])
def test_every_failure_class_and_outcome_is_documented(member: str) -> None:
    assert f"`{member}`" in rows(page("failures.md"))


def verbs(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path}{name} ")


@pytest.mark.parametrize(("path", "verb"), list(verbs(main, "")), ids=lambda value: str(value))
def test_every_verb_is_documented_and_has_a_help(path: str, verb: click.Command) -> None:
    assert verb.help
    beginning = rf"^- `{path}" if " " in path else rf"^### `bestbefore {path}"
    assert re.search(beginning, page("cli.md"), re.MULTILINE)


def test_the_tables_of_states_are_those_of_the_code() -> None:
    written = re.findall(r"^\| (\w+) \| (\w+) \| (.+) \|$", page("architecture.md"), re.MULTILINE)
    steps = [
        (before.value, after.value, reason)
        for before, following in [*NEXT.items(), *NEXT_RUN.items()]
        for after, reason in following.items()
    ]
    assert [step for step in written if step[0] != "from"] == steps


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name}: {target}"
