"""What ``kind`` may say where adapters of other packages are welcome."""

from collections.abc import Sequence
from difflib import get_close_matches

from bestbefore.app import plugins
from bestbefore.app.settings.problems import Unfit, shown

STORES = ("s3", "directory")


def adapter(value: str, built_in: Sequence[str], group: str) -> str:
    """*value* if it is *built_in*, or brought along for *group* by a package that is installed.

    Looks for packages only where it has to: that reads the names of everything there is.
    """
    if value in built_in or value in (installed := plugins.installed(group)):
        return value
    choices = " or ".join(map(shown, built_in))
    there = f"installed adapters: {', '.join(map(shown, installed)) or 'none'}"
    if close := get_close_matches(value, [*built_in, *installed], n=1):
        remedy = f"did you mean {shown(close[0])}?"
    else:
        remedy = f"write one of them, or install the package that brings {shown(value)} along"
    raise Unfit(f"expected {choices}, found {shown(value)} ({there})", remedy)


def brought_along(value: object, built_in: Sequence[str], group: str) -> bool:
    """Whether *value* is the kind of an adapter of another package."""
    return isinstance(value, str) and value not in built_in and value in plugins.installed(group)


def store(value: str) -> str:
    """``[stores.NAME] kind``"""
    return adapter(value, STORES, plugins.STORES)
