"""The mark on a partition that is being removed: who removes it, and what it was a part of.

It stands at the end of the partition's comment before the partition is detached, and so tells one
that we have detached from one that a person detached to keep it. PostgreSQL only.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import DropTableComment, SetTableComment

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import RowSource

# Bounds become part of a statement, so they hold nothing but what a time or a number is written
# with. Marks of 0.1 had the operation alone.
_MARK = re.compile(
    r"(?:^| )bestbefore (?P<id>[0-9a-f]{64})(?: of (?P<parent>[0-9]+)"
    r" from '(?P<since>[-+:. 0-9A-Za-z]+)' to '(?P<until>[-+:. 0-9A-Za-z]+)')?$"
)

_LEFT_OVER = sa.text("""
    SELECT c.oid, n.nspname, c.relname, d.description,
        ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1)
        = ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = p.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1), p.oid
    FROM pg_catalog.pg_class p
    JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
        AND pn.nspname = :schema AND p.relname = :table,
    pg_catalog.pg_description d
    JOIN pg_catalog.pg_class c ON c.oid = d.objoid AND c.relkind IN ('r', 'p')
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
    WHERE d.classoid = 'pg_catalog.pg_class'::regclass AND d.objsubid = 0
        AND d.description ~ '(^| )bestbefore [0-9a-f]{64}( of .*)?$'
        AND (i.inhrelid IS NULL OR (i.inhparent = p.oid
            AND coalesce(to_jsonb(i) ->> 'inhdetachpending', 'false') = 'true'))
    ORDER BY c.oid
""")


class Mark(NamedTuple):
    """The mark of an operation. ``parent`` is the OID of the table that the partition was detached
    from, ``since`` and ``until`` are the texts of its bounds there; None in marks of 0.1."""

    operation_id: bytes
    parent: int | None = None
    since: str | None = None
    until: str | None = None

    @property
    def text(self) -> str:
        """How it is written."""
        said = f"bestbefore {self.operation_id.hex()}"
        if self.parent is None:
            return said
        return f"{said} of {self.parent} from '{self.since}' to '{self.until}'"


class LeftOver(NamedTuple):
    """A marked partition that is no part of its table any more."""

    oid: int
    schema: str
    name: str
    mark: Mark


def mark_in(comment: str) -> Mark | None:
    """The mark at the end of a comment."""
    found = _MARK.search(comment)
    if found is None:
        return None
    parent = found["parent"]
    return Mark(
        bytes.fromhex(found["id"]), int(parent) if parent else None, found["since"], found["until"]
    )


def with_mark(comment: str, mark: Mark) -> str:
    """*comment* with *mark* behind it, in place of one that is there."""
    return f"{without_mark(comment)} {mark.text}".strip()


def without_mark(comment: str) -> str:
    """*comment* as it was before it was marked."""
    return _MARK.sub("", comment).strip()


def say(connection: sa.Connection, partition: sa.Table, comment: str) -> None:
    """Give *partition* its *comment*; none where that is empty."""
    said = sa.Table(partition.name, sa.MetaData(), schema=partition.schema, comment=comment)
    connection.execute(SetTableComment(said) if comment else DropTableComment(said))


def left_over(connection: sa.Connection, source: RowSource, target: Target) -> Iterator[LeftOver]:
    """Marked partitions that were taken out of the table of *target* to be removed, and are still
    there.

    One with a mark of 0.1 is taken for such where it has the columns of the table, and no
    completion record says that it was only to be detached.
    """
    where = {"schema": str(target.table.schema), "table": target.table.name}
    older = []
    for oid, schema, name, comment, alike, parent in connection.execute(_LEFT_OVER, where):
        mark = mark_in(comment)
        if mark is None:
            continue
        if mark.parent == parent:
            yield LeftOver(oid, schema, name, mark)
        elif mark.parent is None and alike and not source.ledger_only:
            older.append(LeftOver(oid, schema, name, mark))
    if older:
        records = completion.records_in(target.table.schema)
        done = completion.known(connection, records, [one.mark.operation_id for one in older])
        yield from (one for one in older if one.mark.operation_id not in done)
