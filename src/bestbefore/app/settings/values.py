"""How single values are written: durations, sizes, patterns, names, URLs."""

import re
import warnings
from datetime import timedelta
from urllib.parse import urlsplit

from bestbefore.adapters.schedulers.cron import schedule_problem, timezone_problem
from bestbefore.app.settings.problems import Unfit, shown
from bestbefore.domain.retention import ACCEPTED, Age, parse_age
from bestbefore.domain.selection import impossible

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
NAME_RULE = "lower-case letters, digits, dots, underscores and hyphens, a letter or digit first"

SHORTEST_KEEP = timedelta(days=7)

_LONGEST_ARCHIVE_PREFIX = 500
_BUCKET = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,255}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE = re.compile(r"(\d{1,15}) ?([A-Za-z]+)", re.ASCII)
_UNITS: dict[str, int] = {"B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letters in enumerate(("kK", "M", "G", "T"), start=1)
    for letter in letters
    for suffix, base in (("B", 1000), ("iB", 1024))
}
_STORAGE_CLASS = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_STORAGE_CLASSES = {
    "STANDARD",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "GLACIER_IR",
    "DEEP_ARCHIVE",
    "REDUCED_REDUNDANCY",
    "EXPRESS_ONEZONE",
    "OUTPOSTS",
}
_MOST_TAGS, _LONGEST_TAG_NAME, _LONGEST_TAG_VALUE = 10, 128, 256  # S3's own limits
_SIZES = '"0B", "10KB", "1MB" (1,000s) or "1MiB" (1,024s)'


def age(value: object) -> Age:
    """``older_than``: a duration that cannot be misread."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Unfit(f"expected a duration, found {shown(value)}", f"write one of {ACCEPTED}")
    try:
        return parse_age(value)
    except ValueError as error:
        # The domain's own words already hold both what is wrong and what to write.
        message, _, remedy = str(error).partition("; ")
        raise Unfit(message, remedy or f"write one of {ACCEPTED}") from error


def keep(value: object) -> Age:
    """``[state] keep``: an `age` of at least `SHORTEST_KEEP`."""
    length = age(value)
    if not length.months and length.seconds < SHORTEST_KEEP.total_seconds():
        raise Unfit(
            f"expected 7d or more, found {shown(value)}",
            "keep more: a store that lists again what was deleted, as after a restore, is only "
            "noticed while the ledger remembers it",
        )
    return length


def size(value: object) -> int:
    """A size in bytes, from a number with a unit; a bare one says nothing about its unit."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS:
        raise Unfit(
            f"expected a size as a text with a unit, found {shown(value)}", f"write {_SIZES}"
        )
    number, unit = found.groups()
    return int(number) * _UNITS[unit]


def pattern(value: str) -> str:
    """A regular expression that compiles, today and in the next Python."""
    filled(value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "possible nested set": its meaning may change
            re.compile(value)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise Unfit(
            f"expected a regular expression, found {shown(value)} ({error})",
            "correct it (Python's re syntax; single quotes keep backslashes as they are)",
        ) from error
    return value


def generation_pattern(value: str) -> str:
    """A `pattern` with a group named ``generation``."""
    if "generation" not in re.compile(pattern(value)).groupindex:
        raise Unfit(
            f"expected a group named generation, found {shown(value)}",
            r"write for example 'exports/(?P<generation>\d{4}-\d{2})/'",
        )
    return value


def filled(value: str) -> str:
    """A text that says something."""
    if not value.strip():
        raise Unfit(f"expected a text, found {shown(value)}", "write a value or remove the key")
    return value


def resolved(value: str) -> str:
    """A `filled` text without ``${VARIABLE}``, which nothing here would ever fill in."""
    filled(value)
    if "${" in value:
        raise Unfit(
            f"expected the value itself, found {shown(value)}",
            "variables are not filled in here: write what it stands for",
        )
    return value


def label(value: str) -> str:
    """A short text on one line, for messages and screens."""
    resolved(value)
    if value != value.strip() or not value.isprintable() or len(value) > 100:
        raise Unfit(
            f"expected one line of at most 100 printable characters, found {shown(value)}",
            "shorten it to one line",
        )
    return value


def bucket(value: str) -> str:
    """A bucket's bare name."""
    resolved(value)
    if not _BUCKET.fullmatch(value):
        name = value.removeprefix("s3://").split("/")[0]
        remedy = (
            f'write bucket = "{name}" and put the rest into prefix'
            if _BUCKET.fullmatch(name)
            else "write the name alone: letters, digits, dots, underscores and hyphens"
        )
        raise Unfit(f"expected the name of a bucket, found {shown(value)}", remedy)
    return value


def storage_classes(value: object) -> tuple[str, ...]:
    """One storage class or several, as listings spell them."""
    found = _texts(value, 'write "STANDARD_IA" or ["STANDARD_IA", "GLACIER"]')
    for name in found:
        known = name.upper().replace("-", "_")
        if not _STORAGE_CLASS.fullmatch(name) or (known in _STORAGE_CLASSES and known != name):
            meant = known if known in _STORAGE_CLASSES else "STANDARD_IA"
            raise Unfit(
                f"expected a storage class as listings spell it, found {shown(name)}",
                f'write for example "{meant}"',
            )
    return found


def tags(value: object) -> tuple[tuple[str, str], ...]:
    """Tags by name, each with the value it must have."""
    remedy = 'write for example { team = "growth" }'
    if not isinstance(value, dict) or not value:
        raise Unfit(f"expected tags with their values, found {shown(value)}", remedy)
    for name, content in value.items():
        _tag_name(name)
        if not isinstance(content, str) or len(content) > _LONGEST_TAG_VALUE:
            raise Unfit(
                f"expected a text of at most {_LONGEST_TAG_VALUE} characters as the value of the "
                f"tag {shown(name)}, found {shown(content)}",
                remedy,
            )
    if len(value) > _MOST_TAGS:
        raise Unfit(
            f"no object has more than {_MOST_TAGS} tags, so none has these {len(value)}",
            "ask for fewer",
        )
    return tuple(sorted(value.items()))


def tag_names(value: object) -> tuple[str, ...]:
    """Names of tags, whatever their values."""
    found = _texts(value, 'write for example ["legal-hold", "keep"]')
    for name in found:
        _tag_name(name)
    return found


def object_key(value: str) -> str:
    """The key of one object, whole."""
    resolved(value)
    if (problem := impossible(value)) is not None:
        raise Unfit(f"no store can hold {shown(value)}: {problem}", "write the object's key")
    if value.startswith("s3://"):
        raise Unfit(
            f"expected a key in the policy's bucket, found {shown(value)}",
            'write for example "exports/current.json"',
        )
    return value


def folder(value: str) -> str:
    """The path of a folder, taken as it stands."""
    resolved(value)
    if value.startswith("~") or not value.isprintable():
        raise Unfit(
            f"expected the plain path of a folder, found {shown(value)}",
            'write it in full, as in "/srv/data"',
        )
    return value


def archive_prefix(value: str) -> str:
    """What the keys of copies begin with: nothing, or something that ends in ``/``."""
    if not value:
        return value
    resolved(value)
    if not value.endswith("/"):
        raise Unfit(
            f'expected a prefix that ends in "/", found {shown(value)}',
            f"write {shown(value + '/')}",
        )
    if len(value.encode()) > _LONGEST_ARCHIVE_PREFIX:
        raise Unfit(
            f"expected at most {_LONGEST_ARCHIVE_PREFIX} bytes, as it lengthens every key",
            "shorten it",
        )
    return value


def _texts(value: object, remedy: str) -> tuple[str, ...]:
    """One text or a list of some, without repetitions, in order of the alphabet."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
        raise Unfit(f"expected a text or a list of texts, found {shown(value)}", remedy)
    return tuple(sorted({filled(text) for text in found}))


def _tag_name(name: str) -> None:
    if not name or len(name) > _LONGEST_TAG_NAME:
        raise Unfit(
            f"expected the name of a tag, found {shown(name)}",
            f"a name has 1 to {_LONGEST_TAG_NAME} characters",
        )


def variable(value: str) -> str:
    """The name of an environment variable. Not shown, in case the secret itself stands here."""
    if not _VARIABLE.fullmatch(value):
        raise Unfit(
            "expected the name of an environment variable, found something else",
            "write its name, without $ and without its value",
        )
    return value


def schedule(value: str) -> str:
    """A cron expression with five fields that names a date at all."""
    if not value.strip():
        raise Unfit(
            f"expected a cron expression, found {shown(value)}",
            "remove the key if the policy is only run by hand",
        )
    if problem := schedule_problem(value):
        raise Unfit(f"{shown(value)} {problem}", 'write for example "0 2 * * *"')
    return value


def timezone(value: str) -> str:
    """A key of the time zone database."""
    if problem := timezone_problem(value):
        raise Unfit(f"{shown(value)} {problem}", 'write for example "UTC" or "Europe/Berlin"')
    return value


def endpoint(value: str) -> str:
    """An HTTP address without credentials, as messages and logs show it."""
    resolved(value)
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
        parts = urlsplit("")
    if not good or parts.query or parts.fragment or "@" in value:
        raise Unfit(
            "expected the address of an object store, without user, password or query",
            'write for example "http://127.0.0.1:8333", or remove the key for AWS',
        )
    return value.rstrip("/")
