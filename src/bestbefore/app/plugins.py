"""Adapters of other packages, found by their entry points.

A package says under which ``kind`` a configuration names its adapter, and what makes one::

    [project.entry-points."bestbefore.stores"]
    http = "bestbefore_http:connect"

``connect`` is given the table ``options`` that stands beside ``kind``, and returns what the port
asks for. It raises ValueError, saying what to write instead, where it cannot use the options. A
kind that is built in stays ours, whatever is installed.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from bestbefore.ports.ledger import LedgerError

STORES = "bestbefore.stores"
QUEUES = "bestbefore.queues"
SCHEDULERS = "bestbefore.schedulers"

T = TypeVar("T")


def installed(group: str) -> list[str]:
    """The kinds that packages of this environment bring along for *group*, in order."""
    return sorted({entry.name for entry in entry_points(group=group)})


def connect(group: str, kind: str, options: Mapping[str, Any], place: str, sort: type[T]) -> T:
    """What the adapter *kind* of *group* makes of *options*, which stand at *place* in the file.

    Raises LedgerError, naming *place* and the package, where it makes no *sort* of them.
    """
    entry = _entry(group, kind, place)
    who = f"{place}: the adapter {kind} ({_origin(entry)})"
    try:
        factory = entry.load()
    except Exception as error:
        raise LedgerError(
            f"{who} cannot be imported: {type(error).__name__}: {error}; repair or remove the "
            "package"
        ) from error
    try:
        made = factory(options)
    except ValueError as error:
        raise LedgerError(f"{place}.options: {error}") from error
    except ImportError as error:
        raise LedgerError(f"{who} needs {error.name or error}: install it") from error
    if not isinstance(made, sort):
        raise LedgerError(
            f"{who} returned {type(made).__name__} where {sort.__name__} was expected; tell its "
            "authors"
        )
    return made


def _entry(group: str, kind: str, place: str) -> EntryPoint:
    found = list(_distinct(group, kind))
    if len(found) == 1:
        return found[0]
    if found:
        raise LedgerError(
            f"{place}: several packages bring an adapter {kind}: "
            f"{', '.join(map(_origin, found))}; uninstall all but one"
        )
    raise LedgerError(
        f"{place}: no installed package brings an adapter {kind}; {group} has "
        f"{', '.join(installed(group)) or 'none'}"
    )


def _distinct(group: str, kind: str) -> Iterator[EntryPoint]:
    """The entry points of that name, once each: a package can be on the path twice."""
    seen = set()
    for entry in entry_points(group=group, name=kind):
        if (key := (_origin(entry), entry.value)) not in seen:
            seen.add(key)
            yield entry


def _origin(entry: EntryPoint) -> str:
    """The package that *entry* belongs to, and its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module
