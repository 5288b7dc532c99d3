"""A table of shipment updates, as the second article has it: the first half of it is old."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

from bench import servers

TABLE = "shipment_updates"
AGE = timedelta(days=30)
NOTHING = timedelta(days=365)
"""An age that none of its rows has."""

CHILDREN = ("shipment_notes", "shipment_photos", "shipment_scans")
"""Tables with one row for each of its rows, which refers to that."""

LEFT = f"SELECT count(*), min(id), max(id) FROM {TABLE}"

# Written as they came in, give or take an hour; nothing between 31 and 29 days before now.
_FILL = (
    # Whatever autovacuum did in one contestant's time and not in another's would count.
    f"CREATE TABLE {TABLE} (id bigint, delivered_at timestamptz NOT NULL, "
    "shipment_id bigint NOT NULL, carrier text NOT NULL, payload text NOT NULL) "
    "WITH (autovacuum_enabled = off)",
    f"""
    INSERT INTO {TABLE}
    SELECT n,
           CASE WHEN n <= %(old)s
                THEN now() - interval '90 days' + n * (interval '58 days' / %(old)s)
                ELSE now() - interval '29 days' + (n - %(old)s) * (interval '28 days' / %(young)s)
           END + hashint8(n) %% 3600 * interval '1 second',
           abs(hashint8(n)) %% 200000, 'carrier-' || n %% 50, repeat(md5(n::text), 6)
    FROM generate_series(1, %(old)s::bigint + %(young)s) n
    """,
    f"ALTER TABLE {TABLE} ADD PRIMARY KEY (id)",
    f"CREATE INDEX ON {TABLE} (delivered_at)",
    f"CREATE INDEX ON {TABLE} (shipment_id)",
    f"CREATE INDEX ON {TABLE} (carrier, shipment_id)",
    f"VACUUM (ANALYZE) {TABLE}",
)

_FILL_CHILD = (
    "CREATE TABLE {child} (id bigint, update_id bigint NOT NULL, delivered_at timestamptz NOT NULL)"
    " WITH (autovacuum_enabled = off)",
    f"INSERT INTO {{child}} SELECT id, id, delivered_at FROM {TABLE} "
    "WHERE id >= {since} ORDER BY id",
    "ALTER TABLE {child} ADD PRIMARY KEY (id)",
    "CREATE INDEX ON {child} (update_id)",
    f"ALTER TABLE {{child}} ADD FOREIGN KEY (update_id) REFERENCES {TABLE} (id) ON DELETE CASCADE",
    "VACUUM (ANALYZE) {child}",
)


def cutoff(age: timedelta = AGE) -> datetime:
    """What peers compare with, as a policy of this age would now."""
    return datetime.now(UTC) - age


def left(rows: int) -> tuple[int, int, int]:
    """What `LEFT` has to show when exactly the old half is gone."""
    old = rows // 2
    return rows - old, old + 1, rows


def configuration(
    url: str, size: int, database: str = "", age: timedelta = AGE, source: str = ""
) -> str:
    """A policy about the table at *url*, in batches of *size*; *database* and *source* are more
    lines of theirs."""
    return f"""
[databases.shipments]
url = {json.dumps(url)}
{database}
[policies.bench]
version = "v1"
older_than = "{age.days}d"
[policies.bench.rows]
database = "shipments"
table = "{TABLE}"
timestamp = "delivered_at"
batch_size = {size}
{source}
"""


@contextmanager
def on_postgresql(
    rows: int, children: Sequence[str] = (), since: int = 1
) -> Iterator["OnPostgresql"]:
    """The filled table, beside it *children* that refer to its rows from number *since* on, and
    copies of all that."""
    with servers.database() as url:
        with servers.connected(url) as connection:
            for statement in _FILL:
                old = {"old": rows // 2, "young": rows - rows // 2}
                connection.execute(statement, old if "%(" in statement else None)
            for child in children:
                for statement in _FILL_CHILD:
                    connection.execute(statement.format(child=child, since=since))
        with ExitStack() as copy:
            yield OnPostgresql(url, rows, copy)


class OnPostgresql:
    """One copy at a time, at ``url``: the same pages, statistics and empty cache for everybody."""

    url: str

    def __init__(self, original: str, rows: int, copy: ExitStack) -> None:
        self.rows = rows
        self._original = original
        self._copy = copy

    def renew(self) -> None:
        self._copy.close()
        self.url = self._copy.enter_context(servers.copy_of(self._original))

    def old(self) -> int:
        """How many old rows are still there."""
        with servers.connected(self.url) as connection:
            found = connection.execute(
                f"SELECT count(*) FROM {TABLE} WHERE id <= %s",
                [self.rows // 2],
            ).fetchone()
        return int(found[0]) if found else 0

    def expect_halved(self) -> None:
        """Fail unless exactly the old rows are gone."""
        with servers.connected(self.url) as connection:
            found = connection.execute(LEFT).fetchone()
        assert found == left(self.rows), (found, left(self.rows))
