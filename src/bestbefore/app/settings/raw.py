"""The file as it was written, for rules that also speak where something else is wrong."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from bestbefore.app.settings.problems import Place, Problem, shown

Raw = Mapping[str, Any]


def part(raw: Raw, key: str) -> Raw:
    """The section *key*; empty where it is missing or something else."""
    found = raw.get(key)
    return found if isinstance(found, dict) else {}


def named(place: Place, section: Raw, key: str, known: Iterable[str]) -> Iterator[Problem]:
    """What is wrong where *key* should name one of the *known* stores or databases."""
    name, there = section.get(key), list(known)
    if not isinstance(name, str) or name in there or not name.strip():
        return
    if close := get_close_matches(name, there, n=1):
        remedy = f'did you mean "{close[0]}"?'
    else:
        remedy = f"add [{key}s.{name}]" + (f" or use {', '.join(there)}" if there else "")
    yield Problem((*place, key), f"there is no {key} {shown(name)}", remedy)
