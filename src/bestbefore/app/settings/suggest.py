"""What somebody may have meant by a key nobody knows."""

from collections.abc import Mapping
from difflib import get_close_matches

from bestbefore.app.settings.problems import Place, Problem, section
from bestbefore.app.settings.schema import SECTIONS, general

_USUAL: Mapping[str, str] = {
    "age": "older_than",
    "days": "older_than",
    "expire_after": "older_than",
    "max_age": "older_than",
    "retention": "older_than",
    "ttl": "older_than",
    "cron": "schedule",
    "endpoint": "endpoint_url",
    "exclude": "regex",
    "glob": "match",
    "include": "match",
    "chunk_size": "batch_size",
    "condition": "where",
    "dsn": "url",
    "filter": "where",
    "limit": "max_deletes",
    "max_ratio": "max_fraction",
    "primary_key": "key",
    "timestamp_column": "timestamp",
    "tz": "timezone",
}
"""What other tools call some of our keys."""


def unknown(place: Place) -> Problem:
    """The problem with the unknown key at *place*, with the likeliest correction."""
    home, key = place[:-1], place[-1]
    what = "unknown section" if not home else "unknown key"
    here = SECTIONS[general(home)].model_fields
    normal = key.lower().replace("-", "_")
    if normal in here:
        return Problem(place, what, f'write "{normal}"')
    if homes := _homes(normal, home):
        return Problem(place, what, f'"{normal}" belongs in {homes}')
    if close := _closest(normal, [*here, *_USUAL]):
        meant = _USUAL.get(close, close)
        if meant in here:
            return Problem(place, what, f'did you mean "{meant}"?')
        return Problem(place, what, f'did you mean "{meant}" in {_homes(meant, home)}?')
    near = [model for other, model in SECTIONS.items() if other[:1] == home[:1]]
    elsewhere = {name for model in near for name in model.model_fields}
    if close := _closest(normal, sorted(elsewhere)):
        return Problem(place, what, f'did you mean "{close}" in {_homes(close, home)}?')
    return Problem(place, what, f"{section(home)} takes {', '.join(here)}")


def _closest(key: str, known: list[str]) -> str | None:
    return next(iter(get_close_matches(key, known, n=1, cutoff=0.7)), None)


def _homes(key: str, home: Place) -> str:
    """The sections that know *key*, by the author's names as far as *home* tells them."""
    found = [place for place, model in SECTIONS.items() if key in model.model_fields]
    return " or ".join(section(_named(place, home)) for place in found)


def _named(place: Place, home: Place) -> Place:
    if len(place) < 2:
        return place
    near = len(home) > 1 and home[0] == place[0]
    return (place[0], home[1] if near else "NAME", *place[2:])
