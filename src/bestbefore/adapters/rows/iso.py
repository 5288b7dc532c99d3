"""ISO 8601 as a regular expression for PostgreSQL and for MySQL: only dates that there are."""

_YEAR = "[1-9][0-9]{3}"
_LEAP_YEAR = "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)"
_DAYS = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
_OFFSET = "(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)?"

DAY = f"({_YEAR}-{_DAYS}|{_LEAP_YEAR}-02-29)"
"""A date of the years 1000 to 9999."""

INSTANT = f"{DAY}[T ]{_TIME}{_OFFSET}"
"""A date and a time, with an offset or without one."""
