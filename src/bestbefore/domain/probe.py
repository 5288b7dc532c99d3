"""A message that only shows that a queue carries messages. It executes nothing."""

import json


def probe(name: str) -> bytes:
    """The probe called *name*."""
    return json.dumps({"v": 1, "kind": "probe", "name": name}).encode("ascii")


def is_probe(body: bytes) -> bool:
    """Whether *body* is a probe, whoever sent it."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.keys() == {"v", "kind", "name"} and (
        fields["kind"] == "probe"
    )  # fmt: skip
