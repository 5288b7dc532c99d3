"""Rules about several keys of ``[schedule]`` together."""

from collections.abc import Iterator

from bestbefore.app.settings.problems import Place, Problem, shown
from bestbefore.app.settings.raw import Raw
from bestbefore.app.settings.sources import sources_of

_PLACE: Place = ("schedule",)

_OF_EVENTBRIDGE = (
    "group", "role_arn", "region", "target", "trigger_queue_url", "http_target_arn",
    "dead_letter_arn", *sources_of("endpoint_url"), *sources_of("access_key_id"),
    *sources_of("secret_access_key"),
)  # fmt: skip
_OF_INFRAI = ("group",)
_BUILT_IN = ("embedded", "none", "eventbridge", "infrai")
_CALLED_BY = {"sqs": "trigger_queue_url", "http": "http_target_arn"}


def check(schedule: Raw) -> Iterator[Problem]:
    """Everything that several keys get wrong together."""
    kind = schedule.get("kind", "embedded")
    if not isinstance(kind, str):
        return
    yield from _others(kind, schedule)
    if kind == "eventbridge":
        yield from _eventbridge(schedule)


def _others(kind: str, schedule: Raw) -> Iterator[Problem]:
    """What one kind takes means nothing to the others."""
    own = {"eventbridge": _OF_EVENTBRIDGE, "infrai": _OF_INFRAI}.get(kind, ())
    for key in sorted(schedule.keys() & set(_OF_EVENTBRIDGE) - set(own)):
        yield Problem(
            (*_PLACE, key),
            f"[schedule] kind = {shown(kind)} has none",
            'remove it, or write kind = "eventbridge"',
        )
    if "options" in schedule and kind in _BUILT_IN:
        yield Problem(
            (*_PLACE, "options"),
            f"[schedule] kind = {shown(kind)} has none",
            "remove it, or name the kind of an outside package",
        )


def _eventbridge(schedule: Raw) -> Iterator[Problem]:
    if "role_arn" not in schedule:
        yield Problem(
            (*_PLACE, "role_arn"),
            "expected the role that EventBridge delivers as, found none",
            'add role_arn = "arn:aws:iam::123456789012:role/bestbefore-triggers"',
        )
    target = schedule.get("target", "sqs")
    for sort, key in _CALLED_BY.items():
        if sort == target and key not in schedule:
            yield Problem(
                (*_PLACE, key),
                f"expected it beside target = {shown(sort)}, found none",
                f"add {key}",
            )
        elif sort != target and target in _CALLED_BY and key in schedule:
            yield Problem(
                (*_PLACE, key),
                f"target = {shown(target)} has none",
                f"remove it, or write target = {shown(sort)}",
            )
