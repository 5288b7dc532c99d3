"""What a run would remove, as text: for `plan`, `run --dry-run` and `runs show`."""

from collections.abc import Iterator, Sequence
from typing import Any

from bestbefore.cli.text import moment, printable, size
from bestbefore.domain.printable import number_of
from bestbefore.read.documents import Document

_WIDTH = 12


def would_text(would: Document) -> list[str]:
    """Lines, each of which stays one whatever is in a key."""
    about_rows = would["bytes"] is None
    things = "rows" if about_rows else "objects"
    if not would["n"]:
        return ["would remove nothing", *_stays(would["stays"], things)]
    amount = "" if about_rows else f", {size(would['bytes'])}"
    lines = [
        f"would remove {would['n']:,} {things}{amount}",
        f"  oldest {moment(would['oldest'])}, newest {moment(would['newest'])}",
    ]
    if would["prefixes"]:
        lines += ["by prefix", *_prefixes(would["prefixes"])]
    lines += _stays(would["stays"], things)
    lines += ["sample", *(f"  {target_text(one)}  {one['why']}" for one in would["sample"])]
    lines += _first_batch(would)
    return lines


def target_text(target: Document) -> str:
    """One line about one target: its time, its size, and what it is called."""
    if target["kind"] == "rows":
        rows = f"{number_of(target['rows'], 'row'):>{_WIDTH + 5}}"
        text = f"{moment(target['oldest'])}  {rows}  {_ends(target)}"
        return text + "".join(_dependents(target["dependents"]))
    what = [printable(target["key"])]
    what += [f"version {printable(target['version_id'])}"] if target["version_id"] else []
    what += ["unfinished upload"] if target["upload_id"] else []
    return f"{moment(target['last_modified'])}  {size(target['size']):>{_WIDTH}}  {'  '.join(what)}"


def _prefixes(prefixes: Sequence[Document]) -> Iterator[str]:
    for one in prefixes:
        yield f"  {one['n']:>{_WIDTH},}  {size(one['bytes']):>{_WIDTH}}  {_prefix(one['prefix'])}"


def _stays(stays: Sequence[Document], things: str) -> list[str]:
    if not stays:
        return []
    return [f"{things} that stay", *(f"  {one['n']:>{_WIDTH},}  {_reason(one)}" for one in stays)]


def _reason(stay: Document) -> str:
    reason = str(stay["reason"]).replace("_", " ")
    most = [f"{_prefix(one['prefix'])} {one['n']:,}" for one in stay["prefixes"]]
    most += [f"by {printable(one['table'])} {one['n']:,}" for one in stay["tables"]]
    return f"{reason}: {', '.join(most)}" if most else reason


def _first_batch(would: Document) -> list[str]:
    if not would["first_batch"]:
        return []
    first, last = would["first_batch"]
    lines = ["first batch", f"  {_ends({'first': first, 'last': last})}"]
    if would["statement"] is not None:
        lines += ["  it executes", *(f"    {printable(s)}" for s in would["statement"].split("\n"))]
    else:
        lines.append("  its statement is not known: the database did not answer")
    if would["triggers"]:
        lines.append("  and the database runs, with effects that cannot be counted")
        lines += [f"    {printable(trigger)}" for trigger in would["triggers"]]
    return lines


def _ends(batch: Document) -> str:
    return f"{_end(batch['first'])} to {_end(batch['last'])}"


def _end(texts: Sequence[Any]) -> str:
    return printable(", ".join("null" if text is None else str(text) for text in texts))


def _dependents(dependents: Sequence[Document]) -> Iterator[str]:
    for one in dependents:
        for what in ("removed", "changed"):
            if one[what]:
                yield f", {number_of(one[what], 'row')} of {printable(one['table'])} {what}"


def _prefix(prefix: str | None) -> str:
    if prefix is None:
        return "(all others)"
    return printable(prefix) or "(in no folder)"
