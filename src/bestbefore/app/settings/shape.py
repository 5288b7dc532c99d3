"""The first look at a file: do its keys and the types of its values fit the schema?"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bestbefore.app.settings.problems import Place, Problem, Unfit, kind, section, shown
from bestbefore.app.settings.schema import NAMED, File
from bestbefore.app.settings.sources import SECRETS
from bestbefore.app.settings.suggest import unknown

_EXAMPLES: Mapping[str, str] = {
    "version": 'version = "retain-30d-v1"',
    "older_than": 'older_than = "30d"',
    "kind": 'kind = "s3"',
    "store": 'store = "exports", the name of a [stores.NAME] section',
    "database": 'database = "shop", the name of a [databases.NAME] section',
    "table": 'table = "orders"',
    "timestamp": 'timestamp = "created_at"',
    "bucket": 'bucket = "weekly-digests"',
}

_EXPECTED: Mapping[str, str] = {
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "model_type": "a section",
    "dict_type": "a section",
}

_BOUNDS: Mapping[str, str] = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}


def check(raw: Mapping[str, Any]) -> tuple[File | None, list[Problem]]:
    """The file if it fits, else the problems."""
    try:
        return File.model_validate(raw), []
    except ValidationError as error:
        return None, [_problem(detail) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails) -> Problem:
    place = tuple(str(part) for part in detail["loc"])
    sort = detail["type"]
    context = detail.get("ctx", {})
    value = detail["input"]
    if sort == "extra_forbidden":
        return unknown(place)
    if sort == "missing":
        return _missing(place)
    if isinstance(fault := context.get("error"), Unfit):
        return Problem(place, fault.message, fault.remedy)
    found = kind(value) if place[-1].startswith(SECRETS) else shown(value)
    if sort in _BOUNDS:
        expected = "a number of " + _BOUNDS[sort].format_map(context)
    else:
        expected = _EXPECTED.get(sort) or str(detail["msg"])
    remedy = f"write {expected}"
    if expected == "a section":
        named = len(place) == 1 and place[0] in NAMED
        remedy = f"write {section((*place, 'NAME') if named else place)} on a line of its own"
    return Problem(place, f"expected {expected}, found {found}", remedy)


def _missing(place: Place) -> Problem:
    home, key = place[:-1], place[-1]
    return Problem(
        place, "expected this key, found none", f"add {_EXAMPLES[key]} to {section(home)}"
    )
