"""What is wrong with a configuration file: one line per problem, all of them at once."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

Place = tuple[str, ...]
"""Where in the file: the keys from the outermost section inwards."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 80


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One thing to correct. ``remedy`` says how."""

    place: Place
    message: str
    remedy: str

    def line(self, file: str) -> str:
        """The problem as one line that names file, key, what is wrong, and the remedy."""
        where = f"{file}: {dotted(self.place)}" if self.place else file
        return f"{where}: {self.message}; {self.remedy}"


class ConfigError(Exception):
    """A configuration nothing may be planned with. Its text has one line per problem."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(problem.line(file) for problem in self.problems))


class Unfit(ValueError):
    """A value that a key cannot take; becomes a `Problem` once the place is known."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def dotted(place: Place) -> str:
    """*place* as TOML writes it: ``policies.weekly.objects.prefix``."""
    return ".".join(
        key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in place
    )


def section(place: Place) -> str:
    """*place* as a section's header, ``[policies.weekly]``."""
    return f"[{dotted(place)}]" if place else "the top of the file"


def shown(value: object) -> str:
    """*value* as it stands in the file, shortened."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = json.dumps(value, ensure_ascii=False)
            return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]}…"
        case dict() | list():
            return kind(value)
        case int() if abs(value) > 10**18:
            return "a very large number"
        case _:
            return str(value)


def kind(value: object) -> str:
    """What sort of thing *value* is, for values that may be secret."""
    match value:
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case dict():
            return "a section"
        case list():
            return "a list"
        case _:
            return "a date or time"
