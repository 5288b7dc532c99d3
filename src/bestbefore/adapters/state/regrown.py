"""Partitions that had more rows than planned: a redrive accepts as many as the dead letter shows.

Functions on an open transaction.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from bestbefore.adapters.state.schema import operations, row_batches
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.rows import Walk, found_in


def accept(connection: sa.Connection, rows: Collection[int]) -> Mapping[int, int]:
    """Of the operations *rows*, which were dead and are redriven, give those on partitions the
    number of rows that their error shows. Returns how many more these are, by run."""
    letters = connection.execute(
        sa.select(operations.c.id, operations.c.run_id, operations.c.error, row_batches.c.rows)
        .join(row_batches, row_batches.c.operation == operations.c.id)
        .where(
            operations.c.id.in_(rows),
            operations.c.failure_class == FailureClass.MALFORMED,
            row_batches.c.walk == Walk.PARTITION,
        )
    ).fetchall()
    more: Counter[int] = Counter()
    for letter in letters:
        found = found_in(letter.error or "")
        if found is None or found <= letter.rows:
            continue
        connection.execute(
            sa.update(row_batches).where(row_batches.c.operation == letter.id).values(rows=found)
        )
        connection.execute(
            sa.update(operations).where(operations.c.id == letter.id).values(size=found)
        )
        more[letter.run_id] += found - letter.rows
    return more
