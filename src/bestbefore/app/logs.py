"""Logs: one event is one line, in words for people or in JSON for machines; never a secret.

All of ours, and those of libraries, go through the standard library's `logging`; structlog makes
the lines. ``extra=`` of a call, and what is bound with `structlog.contextvars`, become fields:
``run_id``, ``operation_id``, ``policy``, and ``key`` or ``keys`` for what `[serve] redact_keys`
veils, there and in the text of the same event.
"""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import Any

from bestbefore.domain.printable import printable
from bestbefore.domain.veil import veil_within, veiled

VARIABLE = "BESTBEFORE_LOG"
"""The environment variable that chooses between ``text`` and ``json``."""

_Event = MutableMapping[str, Any]
_LEVELS = {"text": logging.WARNING, "json": logging.INFO}
_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s:/@]*):\S*@", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?P<name>(?:password|secret|token|signature|x-amz-[a-z-]+)=)[^\s&'\"]+", re.IGNORECASE
)
_SHOWN_FIRST = ("policy", "run_id", "operation_id", "key", "keys")


class _Ours(logging.StreamHandler[Any]):
    """The one handler of this process that is ours to replace."""


def set_up(environ: Mapping[str, str], default: str = "text", *, redact: bool = False) -> None:
    """Have this process log on stderr, as *environ* or else *default* says: ``text`` shows what a
    person has to know, ``json`` also what happened. With *redact* keys are hashes."""
    style = environ.get(VARIABLE, default)
    style = style if style in _LEVELS else default
    handler = _Ours(sys.stderr)
    handler.setFormatter(_Lines(style, redact=redact))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Ours)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("bestbefore").setLevel(_LEVELS[style])


class _Lines(logging.Formatter):
    """Has structlog make the lines once there is one: most commands end before."""

    def __init__(self, style: str, *, redact: bool) -> None:
        super().__init__()
        self._written, self._redact = style, redact

    @cached_property
    def _made(self) -> logging.Formatter:
        return _formatter(self._written, redact=self._redact)

    def format(self, record: logging.LogRecord) -> str:
        return self._made.format(record)


def _formatter(style: str, *, redact: bool) -> logging.Formatter:
    import structlog
    from structlog.stdlib import ProcessorFormatter

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        _without_echo,
        structlog.processors.format_exc_info,
        *([_without_keys] if redact else []),
        _without_secrets,
    ]
    if style == "json":
        shared += [
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ]
        renderer: Any = structlog.processors.JSONRenderer(sort_keys=True)
    else:
        shared.append(structlog.stdlib.add_log_level)
        renderer = _line
    return ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[ProcessorFormatter.remove_processors_meta, renderer],
    )


def _without_echo(_logger: Any, _method: str, event: _Event) -> _Event:
    """Without what another handler has left in the record: the event once more."""
    for name in ("message", "asctime"):
        event.pop(name, None)
    return event


def _without_keys(_logger: Any, _method: str, event: _Event) -> _Event:
    keys = [str(key) for key in [event.get("key"), *event.get("keys", ())] if key is not None]
    for name, value in event.items():
        if name == "key":
            event[name] = veiled(str(value))
        elif name == "keys":
            event[name] = [veiled(str(key)) for key in value]
        elif isinstance(value, str):
            event[name] = veil_within(value, keys)
    return event


def _without_secrets(_logger: Any, _method: str, event: _Event) -> _Event:
    for name, value in event.items():
        if isinstance(value, str):
            text = _PASSWORD.sub(r"\g<before>:***@", value)
            event[name] = _PARAMETER.sub(r"\g<name>***", text)
    return event


def _line(_logger: Any, _method: str, event: _Event) -> str:
    """``LEVEL: what happened  run_id=… key=…``; a traceback follows, indented."""
    level = str(event.pop("level", "info")).upper()
    message, traceback = str(event.pop("event", "")), event.pop("exception", None)
    fields = [f"{name}={_value(event[name])}" for name in _in_order(event)]
    lines = [f"{level}: {printable(message)}" + "".join(f"  {field}" for field in fields)]
    if traceback is not None:
        # Indented, so that nothing in it passes for an event of its own.
        lines += [f"    {printable(line)}" for line in str(traceback).split("\n")]
    return "\n".join(lines)


def _in_order(event: _Event) -> Sequence[str]:
    first = [name for name in _SHOWN_FIRST if name in event]
    return first + sorted(event.keys() - set(first))


def _value(value: Any) -> str:
    return printable(value if isinstance(value, str) else repr(value))
