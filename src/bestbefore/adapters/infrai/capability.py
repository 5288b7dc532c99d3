"""A capability as `GET /v1/discovery/<id>` describes it, and whether a request fits it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from jsonschema import Draft202012Validator, exceptions, validators
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from bestbefore.adapters.infrai.errors import shortened

_PATH = re.compile(r"/[A-Za-z0-9/_.{}~-]*")
_PLACE = re.compile(r"\{([A-Za-z0-9_]+)\}")
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
_TYPES: Mapping[type, set[str]] = {
    str: {"string"},
    bool: {"boolean"},
    int: {"integer", "number"},
    dict: {"object"},
    list: {"array"},
}


class Unfit(ValueError):
    """A document that describes no capability, or a request that does not fit one. The text says
    where, and what is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Capability:
    """``path`` is what comes after the host, with places in braces. ``properties`` are the fields
    that a request may have, by name, and ``required`` those it has to have, as far as its schema
    says so without conditions."""

    name: str
    method: str
    path: str
    available: bool
    idempotent: bool
    properties: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    validator: Validator

    @property
    def places(self) -> list[str]:
        """The names in the braces of the path."""
        return _PLACE.findall(self.path)

    def takes(self, field: str, value: object) -> bool:
        """Whether there is such a *field*, and for values of this type."""
        schema = self.properties.get(field)
        if schema is None:
            return False
        types = _types(schema)
        return types is None or bool(types & _TYPES[type(value)])

    def most(self, field: str) -> int | None:
        """The largest number that *field* takes, where its schema says so."""
        found = self.properties.get(field, {}).get("maximum")
        return int(found) if isinstance(found, int | float) else None

    def filled(self, values: Mapping[str, str]) -> str:
        """The path with *values*, by place, in it."""
        return _PLACE.sub(lambda place: quote(values[place[1]], safe=""), self.path)

    def check(self, request: Mapping[str, object]) -> None:
        """Raise Unfit where *request* does not fit the schema."""
        try:
            error = exceptions.best_match(self.validator.iter_errors(request))
        except Unresolvable as unresolved:
            raise Unfit(f"a reference that leads out of its schema: {unresolved.ref}") from None
        if error is not None:
            where = "/".join(map(str, error.absolute_path)) or "the request"
            # Not the validator's own words: those repeat the value, and that may be a secret.
            limit = shortened(repr(error.validator_value))
            raise Unfit(f"that its {error.validator} ({limit}) is not met by {where}")


def parse(name: str, document: object) -> Capability:
    """The capability *name* in its document. Raises Unfit."""
    if not isinstance(document, Mapping):
        raise Unfit("no JSON object")
    said = document.get("id", name)
    if said != name:
        raise Unfit(f"the document of {shortened(str(said))}")
    method, path = document.get("method"), document.get("path")
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise Unfit(f"the method {shortened(repr(method))}")
    # A path that is an address of its own would carry the key to another host.
    if not isinstance(path, str) or not _PATH.fullmatch(path) or "//" in path or ".." in path:
        raise Unfit(f"the path {shortened(repr(path))}")
    params = document.get("params") or {}
    if not isinstance(params, Mapping):
        raise Unfit("params that are no JSON Schema")
    kind = validators.validator_for(cast("Any", params), default=Draft202012Validator)
    try:
        kind.check_schema(cast("Any", params))
    except exceptions.SchemaError as error:
        raise Unfit(f"params that are no JSON Schema: {shortened(error.message)}") from None
    properties: dict[str, Mapping[str, Any]] = {}
    required: set[str] = set()
    for part in _parts(params, params):
        properties |= {
            field: _resolved(schema, params) for field, schema in part.get("properties", {}).items()
        }
        required |= set(part.get("required", ()))
    return Capability(
        name,
        method.upper(),
        path,
        document.get("available", True) is not False,
        document.get("idempotent") is True,
        properties,
        frozenset(required),
        # An empty registry: what a reference names is never fetched.
        kind(cast("Any", params), registry=Registry()),
    )


def _parts(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """*schema* and what always applies beside it."""
    schema = _resolved(schema, root)
    yield schema
    for part in schema.get("allOf", ()):
        if isinstance(part, Mapping):
            yield from _parts(part, root)
    for group in ("anyOf", "oneOf"):
        for part in schema.get(group, ()):
            if isinstance(part, Mapping):
                # One of them applies, so what it requires is not required of every request.
                for inner in _parts(part, root):
                    yield {"properties": inner.get("properties", {})}


def _resolved(schema: Any, root: Mapping[str, Any], depth: int = 8) -> Mapping[str, Any]:
    """What a reference inside the same document leads to; {} where that is nothing."""
    while isinstance(schema, Mapping) and "$ref" in schema and depth:
        there: Any = root
        for step in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
            there = there.get(step) if isinstance(there, Mapping) else None
        schema, depth = there, depth - 1
    return schema if isinstance(schema, Mapping) else {}


def _types(schema: Mapping[str, Any]) -> set[str] | None:
    """The JSON types that *schema* allows; None where it does not say."""
    said = schema.get("type")
    if isinstance(said, str):
        return {said}
    if isinstance(said, list):
        return set(said)
    for group in ("anyOf", "oneOf"):
        parts = [_types(part) for part in schema.get(group, ()) if isinstance(part, Mapping)]
        if parts:
            return None if None in parts else set().union(*(part or set() for part in parts))
    return None
