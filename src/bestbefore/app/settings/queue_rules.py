"""Rules about several keys of ``[queue]`` together."""

from collections.abc import Iterator

from bestbefore.app.settings.problems import Place, Problem, section, shown
from bestbefore.app.settings.queue_values import KEYS, NEEDED
from bestbefore.app.settings.raw import Raw, part
from bestbefore.app.settings.schema import QueueSection

_PLACE: Place = ("queue",)
_COMMON = {"kind", "lease"}


def check(raw: Raw) -> Iterator[Problem]:
    """Everything that is wrong with the keys of the queue's kind."""
    queue = part(raw, "queue")
    kind = queue.get("kind", "state")
    if not isinstance(kind, str):
        return
    takes = {*KEYS.get(kind, ("options",)), *_COMMON}
    for key in sorted(queue.keys() & QueueSection.model_fields.keys()):
        if _base(key) in takes:
            continue
        if kind not in KEYS:
            remedy = f"write what that adapter takes into {section((*_PLACE, 'options'))}"
        elif key == "options":
            remedy = f"write its keys into {section(_PLACE)}"
        else:
            of = [shown(other) for other, keys in KEYS.items() if _base(key) in keys]
            remedy = f"remove it, or write kind = {' or '.join(of)}"
        yield Problem((*_PLACE, key), f"a queue of kind {shown(kind)} has none", remedy)
    needed = NEEDED.get(kind)
    if needed is not None and not any(_base(key) == _base(needed.split()[0]) for key in queue):
        key = _base(needed.split()[0])
        yield Problem(
            (*_PLACE, key), "expected this key, found none", f"add {needed} to {section(_PLACE)}"
        )
    if kind == "sqs":
        yield from _keys(queue)
    if kind == "infrai" and not any(_base(key) == "api_key" for key in part(raw, "infrai")):
        yield Problem(
            ("infrai", "api_key"),
            "expected this key, found none",
            f'add api_key_env = "INFRAI_API_KEY" to {section(("infrai",))}',
        )


def _keys(queue: Raw) -> Iterator[Problem]:
    given = {_base(key) for key in queue}
    both = ("access_key_id", "secret_access_key")
    for name, other in (both, both[::-1]):
        if name in given and other not in given:
            yield Problem(
                (*_PLACE, other),
                f"expected this key beside {name}, found none",
                "add it, or remove both for boto3's own credential chain",
            )


def _base(key: str) -> str:
    return key.removesuffix("_env").removesuffix("_file")
