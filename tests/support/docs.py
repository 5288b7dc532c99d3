"""The pages in ``docs/`` as a reader uses them: what they say to type is what a test types."""

import re
import shlex
from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs"
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The arguments of each ``$ bestbefore …`` line in the console blocks of ``docs/``*page*."""
    return [words for block in blocks(page) for words in block]


def blocks(page: str) -> list[list[list[str]]]:
    """`commands`, by the console block that they stand in."""
    return [_commands(block) for block in _CONSOLE.findall(_text(page))]


def configurations(page: str) -> list[str]:
    """The TOML blocks of ``docs/``*page*, in order."""
    return TOML.findall(_text(page))


def _commands(block: str) -> list[list[str]]:
    return [
        shlex.split(line.removeprefix("$ bestbefore "), comments=True)
        for line in block.splitlines()
        if line.startswith("$ bestbefore ")
    ]


def _text(page: str) -> str:
    return (_PAGES / page).read_text(encoding="utf-8")
