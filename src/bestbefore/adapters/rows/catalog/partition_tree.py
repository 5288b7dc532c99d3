"""What keeps a partition of PostgreSQL from being removed as a whole.

Dropping it removes more than its rows, and says nothing to what watches their DELETE: triggers,
rules, row security and foreign keys of the partition and of everything below it. What else depends
on it would refuse the DROP after the partition was detached. All of that is read here, before.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

_NAMED = 3
"""Obstacles that a message names; the others are counted."""

_DROPPED = frozenset(
    {"view", "materialized view", "function", "procedure", "rule", "policy", "trigger"}
)
"""Types of objects that hold no data."""

_TREE = """
    WITH RECURSIVE tree (root, oid) AS (
        SELECT root, root FROM unnest(CAST(:roots AS oid[])) AS root
        UNION SELECT tree.root, i.inhrelid FROM tree
        JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid AND :below
    )
"""

# Of a partition, foreign keys and triggers that stand further up count there. They are in the
# catalog once more for each relation below.
_OF_RELATIONS = sa.text(f"""
    {_TREE}, named AS (
        SELECT tree.root, c.oid, c.relkind, c.relowner, c.relnamespace, c.relrowsecurity,
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS said
        FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT root, 'owner', said, quote_ident(pg_catalog.pg_get_userbyid(relowner)),
        quote_ident(current_user)
    FROM named WHERE oid = root AND NOT pg_catalog.pg_has_role(relowner, 'USAGE')
    UNION ALL
    SELECT root, 'schema', said, quote_ident(n.nspname), quote_ident(current_user)
    FROM named JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
    WHERE named.oid = root AND NOT has_schema_privilege(n.oid, 'USAGE')
    UNION ALL
    SELECT root, 'row security', said, '', '' FROM named WHERE relrowsecurity
    UNION ALL
    SELECT root, 'trigger', said, quote_ident(t.tgname), ''
    FROM named JOIN pg_catalog.pg_trigger t ON t.tgrelid = named.oid
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 8 <> 0
        AND (NOT :below OR coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0')
    UNION ALL
    SELECT root, 'rule', said, quote_ident(r.rulename), ''
    FROM named JOIN pg_catalog.pg_rewrite r ON r.ev_class = named.oid
    WHERE r.ev_type = '4' AND r.ev_enabled <> 'D'
    UNION ALL
    SELECT root, 'foreign key', said, quote_ident(f.conname),
        quote_ident(kn.nspname) || '.' || quote_ident(k.relname)
    FROM named JOIN pg_catalog.pg_constraint f ON f.confrelid = named.oid AND f.contype = 'f'
    JOIN pg_catalog.pg_class k ON k.oid = f.conrelid
    JOIN pg_catalog.pg_namespace kn ON kn.oid = k.relnamespace
    WHERE NOT (:below AND EXISTS (
            SELECT FROM tree WHERE tree.root = named.root AND tree.oid = f.conrelid))
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint above
            JOIN tree ON tree.oid = above.confrelid AND tree.root = named.root
            WHERE above.oid = f.conparentid)
    ORDER BY 1, 2, 3, 4, 5
""")  # noqa: S608  (these are our own texts)

# What goes along: what depends on it automatically or internally. Of the rest a view stands for its
# rule, so that what depends on the view is found as well.
_OF_OTHERS = sa.text(f"""
    {_TREE}, own (root, classid, objid) AS (
        SELECT root, 'pg_catalog.pg_class'::regclass::oid, oid FROM tree
        UNION SELECT own.root, d.classid, d.objid FROM own
        JOIN pg_catalog.pg_depend d ON d.refclassid = own.classid AND d.refobjid = own.objid
        WHERE d.deptype IN ('a', 'i', 'P', 'S')
    ), others (root, classid, objid) AS (
        SELECT own.root, d.classid, d.objid FROM own
        JOIN pg_catalog.pg_depend d ON d.refclassid = own.classid AND d.refobjid = own.objid
        WHERE d.deptype = 'n' AND NOT EXISTS (
            SELECT FROM own o WHERE (o.root, o.classid, o.objid) = (own.root, d.classid, d.objid))
        UNION SELECT others.root, next.classid, next.objid FROM others, LATERAL (
            SELECT d.classid, d.objid FROM pg_catalog.pg_depend d
            WHERE d.refclassid = others.classid AND d.refobjid = others.objid
            UNION ALL
            SELECT 'pg_catalog.pg_class'::regclass::oid, r.ev_class
            FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class v ON v.oid = r.ev_class
            WHERE others.classid = 'pg_catalog.pg_rewrite'::regclass AND r.oid = others.objid
                AND v.relkind IN ('v', 'm')
        ) next
    ), relations AS (
        SELECT tree.root, c.oid, c.relkind,
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS said
        FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT root, 'dependent', said.type, said.identity, ''
    FROM others, LATERAL pg_catalog.pg_identify_object(classid, objid, 0) said
    WHERE classid <> 'pg_catalog.pg_type'::regclass
        AND NOT (classid = 'pg_catalog.pg_class'::regclass AND EXISTS (
            SELECT FROM pg_catalog.pg_class c WHERE c.oid = objid AND c.relkind IN ('i', 'I', 't')))
        AND NOT (classid = 'pg_catalog.pg_rewrite'::regclass AND EXISTS (
            SELECT FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class v ON v.oid = r.ev_class
            WHERE r.oid = objid AND v.relkind IN ('v', 'm')))
        AND NOT (classid = 'pg_catalog.pg_constraint'::regclass AND EXISTS (
            SELECT FROM pg_catalog.pg_constraint f WHERE f.oid = objid AND f.contype = 'f'))
    UNION
    SELECT root, 'foreign table', said, '', '' FROM relations WHERE relkind = 'f'
    UNION
    SELECT root, 'publication', said, quote_ident(p.pubname), ''
    FROM relations JOIN pg_catalog.pg_publication_rel r ON r.prrelid = relations.oid
    JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
    UNION
    SELECT root, 'subscription', said, '', ''
    FROM relations JOIN pg_catalog.pg_subscription_rel r ON r.srrelid = relations.oid
    UNION
    SELECT root, 'extension', said, quote_ident(e.extname), ''
    FROM relations JOIN pg_catalog.pg_depend d ON d.objid = relations.oid
        AND d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'e'
    JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
    ORDER BY 1, 2, 3, 4
""")  # noqa: S608  (these are our own texts)

_REPLICATED = sa.text("""
    WITH RECURSIVE above (oid) AS (
        SELECT CAST(:parent AS oid)
        UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above ON i.inhrelid = above.oid
    ), tree (oid) AS (
        SELECT oid FROM above
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid
    )
    SELECT DISTINCT quote_ident(p.pubname) FROM pg_catalog.pg_publication p
    JOIN pg_catalog.pg_publication_tables t ON t.pubname = p.pubname
    JOIN pg_catalog.pg_class c ON c.relname = t.tablename
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
    WHERE p.pubdelete AND c.oid IN (SELECT oid FROM tree)
    ORDER BY 1
""")


class Obstacle(NamedTuple):
    """Why a partition, or every partition of a table, is not removed as a whole, and what a person
    can do about that."""

    why: str
    remedy: str


def of_table(connection: sa.Connection, table: int) -> Sequence[Obstacle]:
    """What is in the way of every partition of *table*, by its OID."""
    return _found(connection, _OF_RELATIONS, [table], below=False).get(table, ())


def of_partitions(
    connection: sa.Connection, partitions: Sequence[int], *, drops: bool
) -> Mapping[int, Sequence[Obstacle]]:
    """What is in the way of each of *partitions*, by their OIDs, and of all that is below them.

    What depends on the table itself counts only where it *drops*: a detached one is still there.
    """
    if not partitions:
        return {}
    found: defaultdict[int, list[Obstacle]] = defaultdict(list)
    for statement in (_OF_RELATIONS, _OF_OTHERS) if drops else (_OF_RELATIONS,):
        for oid, obstacles in _found(connection, statement, partitions, below=True).items():
            found[oid] += obstacles
    return dict(found)


def publications(connection: sa.Connection, parent: int) -> Sequence[str]:
    """Publications that send the rows deleted from a partitioned table, and not its partitions that
    are dropped."""
    return connection.execute(_REPLICATED, {"parent": parent}).scalars().all()


def named(obstacles: Sequence[Obstacle]) -> str:
    """*obstacles* in one line, without their remedies."""
    whys = list(dict.fromkeys(one.why for one in obstacles))
    more = f", and {len(whys) - _NAMED:,} more" if len(whys) > _NAMED else ""
    return ", ".join(whys[:_NAMED]) + more


def _found(
    connection: sa.Connection, statement: sa.TextClause, roots: Sequence[int], *, below: bool
) -> Mapping[int, list[Obstacle]]:
    found: defaultdict[int, list[Obstacle]] = defaultdict(list)
    asked = connection.execute(statement, {"roots": list(roots), "below": below})
    for root, kind, *said in asked:
        found[root].append(_obstacle(kind, *said))
    return found


def _obstacle(kind: str, on: str, name: str, other: str) -> Obstacle:
    match kind:
        case "owner":
            return Obstacle(
                f"{on} belongs to {name}, and only its owner can detach or drop it",
                f"GRANT {name} TO {other}",
            )
        case "schema":
            return Obstacle(
                f"this role may not use the schema of {on}",
                f"GRANT USAGE ON SCHEMA {name} TO {other}",
            )
        case "row security":
            return Obstacle(
                f"row security is enabled on {on}", f"ALTER TABLE {on} DISABLE ROW LEVEL SECURITY"
            )
        case "trigger":
            return Obstacle(
                f"{on} has a trigger for rows that are deleted ({name})",
                f"DROP TRIGGER {name} ON {on}",
            )
        case "rule":
            return Obstacle(
                f"{on} has a rule for rows that are deleted ({name})", f"DROP RULE {name} ON {on}"
            )
        case "foreign key":
            return Obstacle(
                f"rows of {other} refer to those of {on} ({name})",
                f"ALTER TABLE {other} DROP CONSTRAINT {name}",
            )
        case "foreign table":
            return Obstacle(f"{on} is a foreign table, whose rows stay where they are", "")
        case "publication":
            return Obstacle(
                f"the publication {name} names {on}", f"ALTER PUBLICATION {name} DROP TABLE {on}"
            )
        case "subscription":
            return Obstacle(f"a subscription writes to {on}", "take it out of the subscription")
        case "extension":
            return Obstacle(
                f"the extension {name} has {on}", f"ALTER EXTENSION {name} DROP TABLE {on}"
            )
        case _:  # of what depends on it: its type and its name
            drops = on in _DROPPED
            remedy = f"DROP {on.upper()} {name}" if drops else f"take that out of the {on} {name}"
            return Obstacle(f"the {on} {name} depends on it", remedy)
