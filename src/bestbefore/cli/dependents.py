"""What a run over a table may do to other tables, and which of these keep rows, for a person."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bestbefore.cli.text import printable
from bestbefore.domain.names import texts
from bestbefore.read.documents import Document

_PLAIN = re.compile("[a-z_][a-z0-9_]*")


def dependents_lines(document: Document, rule: Mapping[str, Any]) -> list[str]:
    """The lines for a plan or a run; none of a run over objects. *rule* is what decides about its
    policy, see `Policy.decides`."""
    planned, referenced = document.get("planned_dependents"), document.get("referenced")
    lines = [f"  with them  {_would(table)}" for table in planned or ()]
    if referenced:
        kept = sorted(referenced.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  referenced {_stay(table, n, document['table'])}" for table, n in kept]
        lines += _remedy([table for table, _ in kept], document["table"], rule["rows.dependents"])
    return lines


def _would(table: Mapping[str, Any]) -> str:
    """What would become of the rows of one table."""
    removed, changed, younger = table["removed"], table["changed"], table["younger"]
    text = f"{_number(removed or changed)} of {printable(table['table'])} would be "
    text += "removed" if removed else "changed"
    if removed and changed:
        text += f", and {changed:,} changed"
    if younger is None:
        return f"{text} (how many are younger than the cutoff is not known)"
    return f"{text} ({younger:,} younger than the cutoff)" if younger else text


def _stay(table: str, n: int, own: str | None) -> str:
    stays = "stays" if n == 1 else "stay"
    if table == own:
        return f"{_number(n)} {stays}: other rows of {printable(table)} refer to them and stay"
    return f"{_number(n)} {stays} because rows of {printable(table)} refer to them"


def _number(n: int) -> str:
    """So many rows, the number below those of the other lines."""
    return f"{n:>12,} {'row' if n == 1 else 'rows'}"


def _remedy(tables: Sequence[str], own: str | None, allowed: Sequence[str] | None) -> Iterator[str]:
    """The line to write if what refers to the rows shall be removed as well; none where the policy
    allows that already, so that something else keeps them."""
    if allowed is None:
        return
    missing = [table for table in tables if table != own and not _among(table, allowed)]
    if missing:
        names = json.dumps([*allowed, *map(_written, missing)], ensure_ascii=False)
        yield f"             to remove those too: dependents = {printable(names)}"


def _among(table: str, allowed: Sequence[str]) -> bool:
    """Whether *table*, a full name, is one of those in a policy's list."""
    parts = table.lower().split(".")
    return any(
        parts[-len(name) :] == [part.lower() for part in name] for name in map(texts, allowed)
    )


def _written(table: str) -> str:
    """*table*, a full name, as a policy names it."""
    parts = table.split(".", 1)
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
