"""Our five cron fields as theirs: plain cron, without extensions."""

import re

from bestbefore.ports.scheduler import Inexpressible, Wanted

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NUMBERS = {name: str(n) for n, name in enumerate(_MONTHS, 1)} | {
    name: str(n) for n, name in enumerate(_DAYS)
}
_NAME = re.compile("|".join(_NUMBERS), re.IGNORECASE)
_PLAIN = re.compile(r"[0-9*,/-]+")


def expression(wanted: Wanted) -> str:
    """The five fields, names of months and days as numbers. Raises Inexpressible."""
    fields = wanted.schedule.split()
    fields[3:] = [_NAME.sub(lambda name: _NUMBERS[name[0].lower()], part) for part in fields[3:]]
    if not all(map(_PLAIN.fullmatch, fields)):
        raise _refused(
            wanted,
            "uses more than numbers, and their cron has no extensions",
            "name days by their number, such as 28 or 1 in place of L",
        )
    if fields[2] != "*" and fields[4] != "*":
        raise _refused(
            wanted,
            "restricts both the day of the month and the weekday, of which nothing says how they "
            "read it",
            'make it two policies that write one of the two fields as "*" each',
        )
    return " ".join(fields)


def _refused(wanted: Wanted, problem: str, remedy: str) -> Inexpressible:
    return Inexpressible(
        f'policies.{wanted.policy}: schedule "{wanted.schedule}" {problem}; {remedy}'
    )
