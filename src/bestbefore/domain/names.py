"""Names of tables and columns, as people write them in a policy."""

import re
from typing import NamedTuple

LONGEST = 64
"""Characters of one part: no server takes more, and every message has to carry it."""

_PART = re.compile(r'"((?:[^"\0]|"")+)"|([^".\0]+)')


class Part(NamedTuple):
    """One part of a name. What was written in double quotes is meant exactly as it is; of the rest
    the database may make something else, as PostgreSQL puts it into lower case."""

    text: str
    quoted: bool


def parts(written: str) -> tuple[Part, ...]:
    """What *written* names: ``orders``, or schema and table of ``shop.orders``.

    A part with dots, quotes or blanks around it goes in double quotes, in which a quote is written
    twice. Raises ValueError where it is no such name.
    """
    found: list[Part] = []
    rest = written
    while (part := _PART.match(rest)) is not None:
        quoted, plain = part.groups()
        name = (
            Part(plain, quoted=False) if quoted is None else Part(quoted.replace('""', '"'), True)
        )
        if not name.quoted and name.text != name.text.strip():
            raise ValueError("blanks around a name; a name that has them goes in double quotes")
        if len(name.text) > LONGEST:
            raise ValueError(f"a name of more than {LONGEST} characters")
        found.append(name)
        rest = rest[part.end() :]
        if not rest:
            return tuple(found)
        if not rest.startswith("."):
            break
        rest = rest[1:]
    raise ValueError('no name; write table, schema.table, or "Odd.Name" in double quotes')


def texts(written: str) -> tuple[str, ...]:
    """The parts of *written*, without quotes."""
    return tuple(part.text for part in parts(written))
