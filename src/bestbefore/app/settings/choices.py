"""Values of which there are few, and what they may be."""

from collections.abc import Sequence

from bestbefore.app import plugins
from bestbefore.app.settings.problems import Unfit, shown
from bestbefore.domain.versions import Versions


def schedule_kind(value: str) -> str:
    """``[schedule] kind``"""
    known = ["embedded", "eventbridge", "infrai", "none"]
    # What is installed is only looked through where it has to be.
    if value not in known and value in plugins.installed(plugins.SCHEDULERS):
        return value
    return choice(value, known)


def catch_up(value: str) -> str:
    """``[policies.NAME] catch_up``"""
    return choice(value, ["next", "now"])


def action(value: str) -> str:
    """``[policies.NAME] action``"""
    return choice(value, ["delete", "archive"])


def folder_markers(value: str) -> str:
    """``[policies.NAME.objects] folder_markers``"""
    return choice(value, ["keep", "delete"])


def versions(value: str) -> str:
    """``[policies.NAME.objects] versions``"""
    return choice(value, [*Versions])


def choice(value: str, available: Sequence[str]) -> str:
    """*value* if it is one of those *available*."""
    if value not in available:
        choices = " or ".join(map(shown, available))
        raise Unfit(f"expected {choices}, found {shown(value)}", f"write {choices}")
    return value
