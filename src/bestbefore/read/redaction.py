"""Documents without keys: what `[serve] redact_keys` shows instead of them.

By the names of fields, at any depth, so that a new document needs nothing but the same names.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bestbefore.domain.veil import veil_within, veiled

_KEY = "key"
_KEYS = ("first", "last", "sample")
"""Lists of keys, or of the texts that a row's key consists of."""
_ENDS = "first_batch"
"""A list of such lists."""
_PREFIXES = "prefixes"
"""A list of documents with a ``prefix``, which is the beginning of keys."""
_BODIES = ("command", "body_base64", "statement")
"""As texts these are messages that could not be read, or SQL with keys in it as the database writes
them, so that it cannot be told what in them is a key."""


def redacted(document: Any) -> Any:
    """*document* with every key as a hash, and with none in the texts that stand beside it.

    ``operation_id`` stays: it leads whoever may read the ledger to the key.
    """
    return _redacted(document, ())


def _redacted(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        keys = (*keys, *_keys_of(value))
        return {name: _field(name, field, keys) for name, field in value.items()}
    if type(value) in (list, tuple):  # a named one is no part of a document
        return [_redacted(item, keys) for item in value]
    return veil_within(value, keys) if isinstance(value, str) else value


def _field(name: str, value: Any, keys: tuple[str, ...]) -> Any:
    if name == _KEY and isinstance(value, str):
        return veiled(value)
    if name in _BODIES and isinstance(value, str):
        return veiled(value)
    if name == _ENDS and isinstance(value, list | tuple):
        return [_field(_KEYS[0], end, keys) for end in value]
    if name == _PREFIXES and isinstance(value, list | tuple):
        return [_without_prefix(one) for one in value]
    if name in _KEYS and isinstance(value, list | tuple):
        return [veiled(key) if isinstance(key, str) else _redacted(key, keys) for key in value]
    return _redacted(value, keys)


def _without_prefix(one: Mapping[str, Any]) -> dict[str, Any]:
    prefix = one["prefix"]
    return dict(one) | {"prefix": None if prefix is None else veiled(prefix)}


def _keys_of(document: Mapping[str, Any]) -> Iterator[str]:
    """The keys that *document* is about: its own, and those of what it holds one of."""
    for name, value in document.items():
        if name == _KEY and isinstance(value, str):
            yield value
        elif name in _KEYS and isinstance(value, list | tuple):
            yield from (key for key in value if isinstance(key, str))
        elif isinstance(value, Mapping):
            yield from _keys_of(value)
