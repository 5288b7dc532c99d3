"""The published schema of messages, and a check that knows just the keywords it uses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "command.schema.json").read_text(encoding="utf-8")
)


def fits(value: object, rules: dict[str, Any]) -> Iterator[str]:
    """What *value* has against *rules*: all keywords they use, and they may use no others."""
    if "$ref" in rules:
        rules = SCHEMA["$defs"][rules["$ref"].removeprefix("#/$defs/")] | rules
    for keyword, wanted in rules.items():
        match keyword:
            case "const":
                good = value == wanted and type(value) is type(wanted)
            case "enum":
                good = value in wanted
            case "type":
                good = type(value) is {"string": str, "integer": int, "array": list}[wanted]
            case "pattern":
                good = isinstance(value, str) and re.search(wanted, value) is not None
            case "minLength":
                good = isinstance(value, str) and len(value) >= wanted
            case "maxLength":
                good = isinstance(value, str) and len(value) <= wanted
            case "minimum":
                good = isinstance(value, int) and value >= wanted
            case "minItems":
                good = isinstance(value, list) and len(value) >= wanted
            case "items":
                good = isinstance(value, list) and not any(
                    fault for item in value for fault in fits(item, wanted)
                )
            case "description" | "$ref":
                good = True
            case _:
                raise AssertionError(f"teach this check the keyword {keyword}")
        if not good:
            yield f"{keyword} {wanted}"


def faults(message: dict[str, Any], kind: str = "object") -> list[str]:
    """What *message* has against the schema of that kind."""
    schema = SCHEMA["$defs"][kind]
    found = [f"{key} is missing" for key in schema["required"] if key not in message]
    found += [f"{key} is unknown" for key in message if key not in schema["properties"]]
    for key, rules in schema["properties"].items():
        if key in message or key in schema["required"]:
            found += [f"{key} is not {fault}" for fault in fits(message.get(key), rules)]
    return found
