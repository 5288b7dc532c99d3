"""`python -m bench.keyset_loop URL CUTOFF N [range]`: the cleanup that a good engineer writes."""

import sys
from datetime import datetime

import psycopg

from bench.shipments import TABLE

_BY_KEY = f"""
WITH gone AS (
  DELETE FROM {TABLE} WHERE id = ANY (ARRAY (
    SELECT id FROM {TABLE} WHERE delivered_at >= %s AND delivered_at < %s
    ORDER BY delivered_at LIMIT %s
  )) RETURNING delivered_at
)
SELECT max(delivered_at) FROM gone
"""
_LAST = f"""
SELECT delivered_at FROM {TABLE} WHERE delivered_at > %s AND delivered_at < %s
ORDER BY delivered_at OFFSET %s LIMIT 1
"""
_UP_TO = f"DELETE FROM {TABLE} WHERE delivered_at > %s AND delivered_at <= %s"
_REST = f"DELETE FROM {TABLE} WHERE delivered_at > %s AND delivered_at < %s"

_BEGINNING = "-infinity"


def by_key(connection: psycopg.Connection, cutoff: datetime, size: int) -> None:
    """Delete *size* rows at a time, commit each, and go on from the time of the last.

    What has that time as well and is still there is seen again, hence ``>=``.
    """
    after: object = _BEGINNING
    while after is not None:
        row = connection.execute(_BY_KEY, [after, cutoff, size]).fetchone()
        (after,) = row or (None,)


def by_range(connection: psycopg.Connection, cutoff: datetime, size: int) -> None:
    """Delete up to the time of the *size*-th row, commit, and go on from there.

    Fewer index look-ups, but no bound: as many rows go as have the same time.
    """
    after: object = _BEGINNING
    while row := connection.execute(_LAST, [after, cutoff, size - 1]).fetchone():
        connection.execute(_UP_TO, [after, *row])
        (after,) = row
    connection.execute(_REST, [after, cutoff])


if __name__ == "__main__":
    url, before, number, *way = sys.argv[1:]
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as opened:
        opened.prepare_threshold = 0
        clean = by_range if way == ["range"] else by_key
        clean(opened, datetime.fromisoformat(before), int(number))
