"""Doing something about as many rows as possible, within one transaction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import sqlalchemy as sa

from bestbefore.adapters.rows.archiving.alteration import Altered
from bestbefore.adapters.rows.errors import refusal_of

T = TypeVar("T")


class Tried(NamedTuple):
    """How many were done, how many could not be, and what was said about one of these."""

    done: int
    left: int
    why: str | None


def tried(
    connection: sa.Connection, table: str, items: Sequence[T], act: Callable[[Sequence[T]], None]
) -> Tried:
    """Do *act* about *items* at once; about halves of them where *table* refuses a row or alters
    it, down to each alone. Raises what the database raises for other reasons."""
    if not items:
        return Tried(0, 0, None)
    try:
        with connection.begin_nested():
            act(items)
    except Altered as altered:
        if len(items) == 1:
            return Tried(0, 1, f"{table}: {altered}")
    except sa.exc.DBAPIError as error:
        if (refusal := refusal_of(error, table)) is None:
            raise
        if len(items) == 1:
            return Tried(0, 1, refusal.error)
    else:
        return Tried(len(items), 0, None)
    middle = len(items) // 2
    one, two = (tried(connection, table, half, act) for half in (items[:middle], items[middle:]))
    return Tried(one.done + two.done, one.left + two.left, one.why or two.why)
