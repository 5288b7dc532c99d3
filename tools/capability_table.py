"""``docs/queue-capabilities.md``, from the records of the adapters.

    python tools/capability_table.py

A package under ``adapters/queues`` has one ``CAPABILITIES`` in one of its modules: a `Capabilities`
with the broker's defaults, or several by the version of the server, as a mapping.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

from bestbefore.adapters.state.capabilities import CAPABILITIES as EMBEDDED
from bestbefore.ports.transport import Capabilities

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "queue-capabilities.md"
QUEUES = "bestbefore.adapters.queues"

_START = "<!-- capabilities: tools/capability_table.py -->\n"
_END = "\n<!-- end of capabilities -->"
_HEAD = (
    "`[queue] kind`",
    "message",
    "kept for",
    "comes back",
    "can be prolonged",
    "late ack is fenced",
    "published twice is one",
    "takes others' bytes",
)


def records() -> Iterator[tuple[str, Capabilities]]:
    """Each kind, with the version where that matters, and what it promises."""
    yield '`"state"`', EMBEDDED
    for kind in kinds():
        match record(kind):
            case Capabilities() as one:
                yield f'`"{kind}"`', one
            case several:
                for version, one in several.items():
                    yield f'`"{kind}"`, {version}', one


def kinds() -> list[str]:
    """The kinds there are adapters of, in order."""
    try:
        return sorted(module.name for module in iter_modules(import_module(QUEUES).__path__))
    except ModuleNotFoundError:
        return []


def record(kind: str) -> Capabilities | Mapping[str, Capabilities]:
    """The one record of the adapter *kind*; raises LookupError without one."""
    for module in _modules(f"{QUEUES}.{kind}"):
        found = getattr(module, "CAPABILITIES", None)
        if isinstance(found, Capabilities) or (isinstance(found, Mapping) and found):
            return found
    raise LookupError(f"{QUEUES}.{kind} has no CAPABILITIES: see tools/capability_table.py")


def page(text: str) -> str:
    """*text* with the table of today in its place."""
    rows = [(name, *_cells(one)) for name, one in records()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ["---"] * len(_HEAD), *rows))
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}{table}{_END}{after}"


def _modules(name: str) -> Iterator[ModuleType]:
    package = import_module(name)
    yield package
    for module in walk_packages(getattr(package, "__path__", ()), f"{name}."):
        yield import_module(module.name)


def _cells(one: Capabilities) -> Iterator[str]:
    yield _size(one.max_body)
    yield "as long as it takes" if one.retention is None else _span(one.retention)
    longest = one.longest_lease and _span(one.longest_lease)
    if one.leases:
        yield "after its lease" + (f", at most {longest}" if longest else "")
    else:
        yield "with its consumer's end" + (f", or after {longest}" if longest else "")
    for fact in (one.extends, one.fences, one.deduplicates, one.carries_any_bytes):
        yield "yes" if fact else "no"


def _size(number: int) -> str:
    for unit, size in (("MiB", 1024**2), ("KiB", 1024), ("KB", 1000)):
        if number % size == 0:
            return f"{number // size:,} {unit}"
    return f"{number:,} bytes"


def _span(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds % size == 0 and seconds // size > 1:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
