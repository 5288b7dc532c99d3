"""What the reference describes and this version does not do: refused, never ignored."""

from collections.abc import Mapping, Sequence

from bestbefore.app.settings.problems import Place, Unfit, shown
from bestbefore.domain.versions import Versions

KEYS: Mapping[Place, Mapping[str, str]] = {
    (): {
        "infrai": "remove it until then",
    },
    ("serve",): {
        "redact_keys": "remove it until then",
    },
}
"""Keys by place, with what to do meanwhile."""


class NotYet(Unfit):
    """A value that only a later version takes; what goes with it need not be looked at."""

    def __init__(self, value: str, remedy: str) -> None:
        super().__init__(f"{shown(value)} is not available yet", remedy)


def queue_kind(value: str) -> str:
    """``[queue] kind``"""
    return choice(value, ["state"], later=["sqs", "rabbitmq", "bullmq", "infrai"])


def schedule_kind(value: str) -> str:
    """``[schedule] kind``"""
    return choice(value, ["embedded", "none"], later=["eventbridge", "infrai"])


def catch_up(value: str) -> str:
    """``[policies.NAME] catch_up``"""
    return choice(value, ["next", "now"])


def store_kind(value: str) -> str:
    """``[stores.NAME] kind``"""
    return choice(value, ["s3", "directory"])


def action(value: str) -> str:
    """``[policies.NAME] action``"""
    return choice(value, ["delete", "archive"])


def folder_markers(value: str) -> str:
    """``[policies.NAME.objects] folder_markers``"""
    return choice(value, ["keep", "delete"])


def versions(value: str) -> str:
    """``[policies.NAME.objects] versions``"""
    return choice(value, [*Versions])


def choice(value: str, available: Sequence[str], later: Sequence[str] = ()) -> str:
    """*value* if it is one of those *available*; one of *later* is so far refused by name."""
    choices = " or ".join(map(shown, available))
    if value in later:
        raise NotYet(value, f"write {choices}")
    if value not in available:
        raise Unfit(f"expected {choices}, found {shown(value)}", f"write {choices}")
    return value
