"""The forms of request that we know, as data, and the choice of the one a capability takes.

Their documents and their clients disagree about names, so each use of a capability has several
shapes, the likeliest first; which one is sent is decided by the discovered schema alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bestbefore.adapters.infrai.capability import Capability, Unfit
from bestbefore.adapters.infrai.errors import Drift

_REMEDY = (
    "look for a bestbefore that knows this form (docs/infrai.md says what this one knows), or use "
    "another kind until then"
)

Value = str | int | bool | dict[str, object] | list[object]


@dataclass(frozen=True, slots=True)
class Shape:
    """Fields by name, and which of a caller's values each of them gets. Those of ``needs`` have to
    be in the schema; ``also`` are left out where they are not, or have no value. ``fixed`` are
    needed too, and always the same."""

    needs: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        return "{" + ", ".join([*self.needs, *self.fixed]) + "}"


@dataclass(frozen=True, slots=True)
class Use:
    """What we ask of one capability: the method that it has to have, the path that is known of it,
    which values may stand in the path, by the names of the places, and the shapes."""

    name: str
    method: str
    path: str
    shapes: Sequence[Shape] = (Shape(),)
    places: Mapping[str, str] = field(default_factory=dict)


class Request(NamedTuple):
    """One request, ready to be sent. ``fields`` are its body, or its query where it reads."""

    method: str
    path: str
    fields: Mapping[str, Value]


class Chosen(NamedTuple):
    """What fits a capability: its shape, the values for its places, and the fields to fill."""

    capability: Capability
    places: Mapping[str, str]
    fields: Mapping[str, str]
    fixed: Mapping[str, Value]

    def request(self, values: Mapping[str, Value | None]) -> Request:
        """The request with *values*; raises Drift where it does not fit after all."""
        capability = self.capability
        path = {place: str(values[name]) for place, name in self.places.items()}
        fields = dict(self.fixed)
        for name, value_name in self.fields.items():
            if (value := values.get(value_name)) is not None:
                fields[name] = value
        # A schema may name what stands in the path as well.
        whole = fields | {k: v for k, v in path.items() if k in capability.properties}
        try:
            capability.check(whole)
        except Unfit as error:
            raise Drift(capability.name, "that our request fits", str(error), _REMEDY) from None
        return Request(capability.method, capability.filled(path), fields)


def choose(use: Use, capability: Capability, values: Mapping[str, Value | None]) -> Chosen:
    """How to put *values* into a request of *capability*. Raises Drift."""
    if capability.method != use.method:
        raise Drift(use.name, f"the method {use.method}", capability.method, _REMEDY)
    if not capability.available:
        raise Drift(
            use.name,
            "a capability that is available",
            "available: false in its discovery document",
            "ask the vendor, or use another kind until then",
        )
    places = {place: use.places.get(place, "") for place in capability.places}
    if unknown := [place for place, name in places.items() if values.get(name) is None]:
        raise Drift(
            use.name, f"a path like {use.path}", f"{{{unknown[0]}}} in {capability.path}", _REMEDY
        )
    for shape in use.shapes:
        fields = _fitting(shape, capability, values)
        if fields is not None and capability.required <= {*fields, *shape.fixed, *places}:
            return Chosen(capability, places, fields, shape.fixed)
    known = " or ".join(map(str, use.shapes))
    wanted = ", ".join(sorted(capability.properties)) or "no field"
    required = ", ".join(sorted(capability.required)) or "none"
    raise Drift(use.name, f"a request such as {known}", f"{wanted} (required: {required})", _REMEDY)


def _fitting(
    shape: Shape, capability: Capability, values: Mapping[str, Value | None]
) -> dict[str, str] | None:
    """The fields of *shape* that *capability* takes; None where it lacks one that is needed."""
    if not all(capability.takes(name, value) for name, value in shape.fixed.items()):
        return None
    found: dict[str, str] = {}
    for name, value_name in [*shape.needs.items(), *shape.also.items()]:
        value = values.get(value_name)
        if value is not None and capability.takes(name, value):
            found[name] = value_name
    return found if found.keys() >= shape.needs.keys() else None
