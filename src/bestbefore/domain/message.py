"""Reading a message: the other direction of `bestbefore.domain.command`."""

import json
import re
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from typing import Any

from bestbefore.domain.command import MAX_BYTES, VERSION, ObjectCommand, RowCommand
from bestbefore.domain.rows import RowBatch, Walk

Command = ObjectCommand | RowCommand

_COMMON = {"v", "kind", "operation_id", "policy", "policy_version", "slot", "action"}
_OBJECT = _COMMON | {"bucket", "key", "etag", "last_modified"}
_OBJECT_TOO = {"upload_id", "version_id"}
_ROWS = _COMMON | {"table", "cutoff", "first", "last", "rows", "walk", "shape"}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_EXACT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_MAY_BE_EMPTY = "etag"


class Unreadable(ValueError):
    """Bytes that are no message of ours. The text says what was expected."""


def read(data: bytes) -> Command:
    """The command in *data*, whose fields hash to the id it names. Raises Unreadable."""
    return identified(data)[1]


def identified(data: bytes) -> tuple[bytes, Command]:
    """The same, after its id, which takes a while to compute."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"a message has at most {MAX_BYTES:,} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("expected a message as JSON") from None
    if not isinstance(fields, dict):
        raise Unreadable("expected a message, a JSON object")
    try:
        command = _command(fields)
        given, computed = _text(fields, "operation_id"), command.operation_id
    except UnicodeEncodeError:
        raise Unreadable("a text in it is no Unicode") from None
    if given != computed:
        raise Unreadable("operation_id: the fields of this message do not hash to it")
    return bytes.fromhex(computed), command


def _command(fields: Mapping[str, Any]) -> Command:
    version, kind = fields.get("v"), fields.get("kind")
    if type(version) is not int:
        raise Unreadable(f"v: expected the version of the message, {VERSION}")
    if version != VERSION:
        raise Unreadable(f"v: unsupported version {version}, expected {VERSION}")
    match kind:
        case "object":
            _only(fields, _OBJECT, _OBJECT_TOO)
            return _object(fields)
        case "rows":
            _only(fields, _ROWS)
            return _rows(fields)
        case _:
            raise Unreadable('kind: expected "object" or "rows"')


def _object(fields: Mapping[str, Any]) -> ObjectCommand:
    return ObjectCommand(
        _text(fields, "policy"),
        _text(fields, "policy_version"),
        _moment(fields, "slot", _INSTANT),
        _one_of(fields, "action", {"delete", "archive"}),
        _text(fields, "bucket"),
        _text(fields, "key"),
        _text(fields, "etag"),
        _moment(fields, "last_modified", _INSTANT),
        _text(fields, "upload_id") if "upload_id" in fields else None,
        _text(fields, "version_id") if "version_id" in fields else None,
    )


def _rows(fields: Mapping[str, Any]) -> RowCommand:
    cutoff = _moment(fields, "cutoff", _EXACT)
    rows = fields["rows"]
    if type(rows) is not int or rows < 0:
        raise Unreadable("rows: expected a number")
    batch = RowBatch(
        _end(fields, "first"),
        _end(fields, "last"),
        rows,
        cutoff,  # the message does not carry the oldest row's time, which is for people
        Walk(_one_of(fields, "walk", {*Walk})),
        _text(fields, "shape"),
    )
    return RowCommand(
        _text(fields, "policy"),
        _text(fields, "policy_version"),
        _moment(fields, "slot", _INSTANT),
        _one_of(fields, "action", {"delete", "archive"}),
        _text(fields, "table"),
        cutoff,
        batch,
    )


def _only(fields: Mapping[str, Any], needed: Set[str], also: Set[str] = frozenset()) -> None:
    if missing := sorted(needed - fields.keys()):
        raise Unreadable(f"{missing[0]}: expected this field, found none")
    if unknown := sorted(fields.keys() - needed - also):
        raise Unreadable(f"{unknown[0]!r}: no such field in a message of this kind")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not (value or name == _MAY_BE_EMPTY):
        raise Unreadable(f"{name}: expected a text")
    return value


def _one_of(fields: Mapping[str, Any], name: str, choices: Set[str]) -> str:
    value = _text(fields, name)
    if value not in choices:
        raise Unreadable(f"{name}: expected {' or '.join(sorted(choices))}")
    return value


def _moment(fields: Mapping[str, Any], name: str, form: re.Pattern[str]) -> datetime:
    value = _text(fields, name)
    try:
        if form.fullmatch(value):
            return datetime.fromisoformat(value).astimezone(UTC)
    except ValueError:
        pass
    raise Unreadable(f"{name}: expected an instant in UTC, such as 2026-07-01T02:00:00Z")


def _end(fields: Mapping[str, Any], name: str) -> str:
    """One end of a batch, as it is stored and hashed."""
    value = fields[name]
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise Unreadable(f"{name}: expected a list of texts")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
