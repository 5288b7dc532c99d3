"""Rows that refer to the rows of a batch, and so have to be removed before them.

Sets of rows are fixed by reading their keys under a lock, never by asking a condition again: a
trigger that counts children changes their parent, and a `where` may ask about the very rows that
were deleted a moment ago.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.util import ClauseAdapter

from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.keys import Key, chosen, deleted
from bestbefore.adapters.rows.references import Allowance, Catalog, Reference, id_of
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.rows import DependentRows
from bestbefore.ports.objects import StoreError

_PAGE = 10_000
"""Rows of a child table whose keys are in memory at a time."""

_MOST_LAYERS = 1_000


class MoreDependents(Exception):
    """More rows of another table would be removed or changed than were counted for the batch."""


class Branch(NamedTuple):
    """Rows of another table that are removed first, and what of those refers to them. None for
    which ``stays`` holds may be among them: its own policy keeps it."""

    reference: Reference
    node: "Node"
    stays: sa.ColumnElement[bool] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A table whose rows are removed.

    ``identity`` tells its rows apart. ``own`` are the foreign keys to itself whose rows are removed
    with the rows they refer to. By ``changes`` the database empties references, which is counted.
    ``guards`` are those by which it would remove or change rows of tables that are not allowed to
    lose any: what they refer to is not eligible, but a reference may come at the last moment.
    """

    table: sa.Table
    identity: tuple[sa.Column[Any], ...]
    branches: tuple[Branch, ...] = ()
    own: tuple[Reference, ...] = ()
    guards: tuple[Reference, ...] = ()
    changes: tuple[Reference, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether nothing has to be looked at before its rows are removed."""
        return not (self.branches or self.own or self.guards or self.changes)

    @property
    def takes_along(self) -> bool:
        """Whether rows beside its own may be removed or changed."""
        return bool(self.branches or self.own or self.changes)

    @property
    def columns(self) -> list[sa.Column[Any]]:
        """What has to be known of a row: its identity, then what is referred to."""
        needed = [column for reference in self.inward for column in reference.needed]
        return list(dict.fromkeys([*self.identity, *needed]))

    @property
    def inward(self) -> "tuple[Reference, ...]":
        """Every foreign key that something has to be looked at for."""
        into = [branch.reference for branch in self.branches]
        return (*into, *self.own, *self.guards, *self.changes)

    def tables(self) -> "tuple[list[sa.Table], list[sa.Table]]":
        """The tables that lose rows, this one first, and those that lose references."""
        removed, changed = [self.table], [reference.table for reference in self.changes]
        for branch in self.branches:
            below = branch.node.tables()
            removed += below[0]
            changed += below[1]
        return removed, changed

    def project(self, rows: Sequence[Key], columns: Sequence[sa.Column[Any]]) -> list[Key]:
        """Of *rows* over `columns`, just *columns*."""
        have = self.columns
        order = [have.index(column) for column in columns]
        return [tuple(row[place] for place in order) for row in rows]


def tree(
    catalog: Catalog, table: sa.Table, identity: Sequence[sa.Column[Any]], allowed: Allowance
) -> Node:
    """*table* with all that refers to it, over any number of steps, as far as it is *allowed* to
    lose or change rows.

    There are no circles: `references.keepers` has refused them.
    """
    branches: list[Branch] = []
    own: list[Reference] = []
    guards: list[Reference] = []
    changes: list[Reference] = []
    for reference in catalog.references(table):
        child = reference.table
        if child is table and not (reference.changes and allowed.allows(reference)):
            own.append(reference)
        elif not allowed.allows(reference):
            if reference.silent:
                guards.append(reference)
        elif reference.changes:
            changes.append(reference)
        else:
            key = tuple(child.primary_key.columns) or reference.columns
            rule = allowed.rule(id_of(child))
            below = tree(catalog, child, key, allowed)
            branches.append(Branch(reference, below, rule.stays if rule else None))
    return Node(table, tuple(identity), tuple(branches), tuple(own), tuple(guards), tuple(changes))


class Selected(NamedTuple):
    """Rows of ``table`` that the policy itself removes: those for which ``condition`` holds."""

    table: sa.Table
    key: tuple[sa.Column[Any], ...]
    condition: sa.ColumnElement[bool]

    def is_of(self, table: sa.Table) -> bool:
        return id_of(table) == id_of(self.table)

    def left_out(
        self, connection: sa.Connection, child: sa.Table, condition: sa.ColumnElement[bool]
    ) -> set[Key]:
        """Keys of the rows of *child*, which is the same table, that *condition* chooses, without
        those that are selected."""
        chosen_rows = sa.select(*(child.c[column.key] for column in self.key)).where(condition)
        found = {tuple(row) for row in connection.execute(chosen_rows)}
        for keys in chosen(connection, self.key, list(found)):
            selected = sa.select(*self.key).where(keys, self.condition)
            found.difference_update(tuple(row) for row in connection.execute(selected))
        return found


class Sweep:
    """Deletes rows and what refers to them, within one transaction, and counts it by table:
    ``removed`` and ``changed`` rows of other tables. Without *lock* it only looks.

    Raises MoreDependents once either would be more than *counted*; without that there is no limit.
    Rows that are *selected* themselves do not count as changed.
    """

    def __init__(
        self,
        connection: sa.Connection,
        counted: Sequence[DependentRows] | None = None,
        selected: "Selected | None" = None,
        *,
        lock: bool = True,
    ) -> None:
        self._connection = connection
        self._lock = lock
        self._selected = selected
        self._dialect = dialect_of(connection)
        self._most = None if counted is None else {one.table: one for one in counted}
        self._changed: dict[str, set[Key]] = {}
        self.removed: Counter[str] = Counter()

    @property
    def changed(self) -> dict[str, int]:
        """Rows of other tables that lost their reference."""
        return {table: len(rows) for table, rows in self._changed.items() if rows}

    def count(self, table: sa.Table, rows: int) -> None:
        """Note that *rows* of *table* are removed beside those of the batch itself."""
        self.removed[str(table)] += rows
        if self._most is not None and self.removed[str(table)] > self._planned(table).removed:
            raise MoreDependents(str(table))

    def _planned(self, table: sa.Table) -> DependentRows:
        return (self._most or {}).get(str(table), DependentRows(str(table)))

    def pick(
        self, node: Node, condition: sa.ColumnElement[bool], limit: int | None = None
    ) -> list[Key]:
        """Lock rows of *node*, at most *limit*; returns their `Node.columns`."""
        rows = sa.select(*node.columns).where(condition).limit(limit)
        if self._lock:
            rows = rows.with_for_update()
        return [tuple(row) for row in self._connection.execute(rows)]

    def layers(
        self, node: Node, rows: Sequence[Key], only: sa.ColumnElement[bool] | None = None
    ) -> list[list[Key]]:
        """*rows* and the rows of the same table that refer to them, over any number of steps, as
        far as *only* holds; those first that have to go first. All are locked."""
        depth = dict.fromkeys(rows, 0)
        newest, step = list(rows), 0
        while newest and node.own:
            newest = self._referring(node, node.own, newest, only)
            step += 1
            if step > len(depth.keys() | set(newest)):
                # A circle: the database takes them together, or says why not.
                return [list(depth)]
            if newest and step > _MOST_LAYERS:
                raise StoreError(
                    Failure(
                        FailureClass.DEPENDENCY,
                        f"{node.table}: a chain of more than {_MOST_LAYERS:,} rows, each of which "
                        "refers to the next, would have to be removed at once; delete some by hand",
                    )
                )
            depth.update(dict.fromkeys(newest, step))
        found: list[list[Key]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
        for row, layer in depth.items():
            found[layer].append(row)
        return found[::-1]

    def remove(self, node: Node, layers: Sequence[Sequence[Key]]) -> int:
        """Delete rows of *node*, layer by layer, once what refers to them is removed.

        Returns how many were: fewer where a trigger or row security keeps some.
        """
        self._clear(node, [row for layer in layers for row in layer])
        gone = 0
        for layer in layers:
            keys = node.project(layer, node.identity)
            for condition in chosen(self._connection, node.identity, keys):
                gone += deleted(self._connection, node.table, condition)
        if gone < sum(map(len, layers)):
            # Rows in a circle that the database removed with each other are not in its counts.
            gone = sum(len(layer) - self._there(node, layer) for layer in layers)
        return gone

    def _there(self, node: Node, rows: Sequence[Key]) -> int:
        """How many of *rows* are there."""
        keys, found = node.project(rows, node.identity), 0
        for condition in chosen(self._connection, node.identity, keys):
            count = sa.select(sa.func.count()).select_from(node.table).where(condition)
            found += self._connection.execute(count).scalar_one()
        return found

    def _lock_entries(self, node: Node, rows: Sequence[Key]) -> None:
        """Keep other sessions from referring to *rows* from now on, where their lock alone does
        not: a foreign key to another key than the primary one looks at the index of that."""
        for reference in node.inward:
            if reference.entries is None:
                continue
            values = node.project(rows, reference.referred)
            for condition in chosen(self._connection, reference.referred, values):
                entries = sa.select(sa.literal(1)).select_from(node.table).where(condition)
                walked = self._dialect.walking(entries, node.table, reference.entries)
                self._connection.execute(walked.with_for_update()).fetchall()

    def refuse_guarded(self, node: Node, rows: Sequence[Key]) -> None:
        """Raise StoreError where the database would remove or change rows of tables that are not
        allowed to lose any."""
        for reference in node.guards:
            for condition in self._referring_to(node, reference, rows):
                if self._any(reference.table, condition):
                    raise StoreError(_not_allowed(node, reference))

    def _any(self, child: sa.Table, condition: sa.ColumnElement[bool]) -> bool:
        """Whether *condition* chooses a row of *child* that is not selected itself."""
        if self._selected is not None and self._selected.is_of(child):
            return bool(self._selected.left_out(self._connection, child, condition))
        there = sa.select(sa.literal(1)).select_from(child).where(condition).limit(1)
        return self._connection.execute(there).first() is not None

    def refuse_own(self, node: Node, rows: Sequence[Key]) -> None:
        """Raise StoreError where rows of the table itself that are not among *rows* would be
        removed or changed."""
        silent = [reference for reference in node.own if reference.silent]
        if silent:  # by others the database refuses by itself
            self._lock_entries(node, rows)
        identities = set(node.project(rows, node.identity))
        for reference in silent:
            found = self._referring(node, [reference], rows, None)
            if not identities.issuperset(node.project(found, node.identity)):
                raise StoreError(_not_allowed(node, reference))

    def _clear(self, node: Node, rows: Sequence[Key]) -> None:
        self._lock_entries(node, rows)
        self.refuse_guarded(node, rows)
        for reference, child, stays in node.branches:
            for condition in self._referring_to(node, reference, rows):
                if stays is not None and self._any(child.table, sa.and_(condition, stays)):
                    raise StoreError(_kept_by_its_own(node, reference))
                self._clear_from(child, condition)
        for reference in node.changes:
            self._note_changed(node, reference, rows)

    def _note_changed(self, node: Node, reference: Reference, rows: Sequence[Key]) -> None:
        """Count the rows that the database changes when *rows* are deleted."""
        child = reference.table
        found = self._changed.setdefault(str(child), set())
        most = None if self._most is None else self._planned(child).changed
        itself = self._selected is not None and self._selected.is_of(child)
        for condition in self._referring_to(node, reference, rows):
            if itself and self._selected is not None:
                found.update(self._selected.left_out(self._connection, child, condition))
                continue
            key = list(child.primary_key.columns)
            picked = sa.select(*(key or child.c)).where(condition)
            # As many as it takes to know that there are too many.
            picked = picked.limit(None if most is None else most + 1)
            rows_ = [tuple(row) for row in self._connection.execute(picked)]
            # Without a key, alike rows are rows of their own.
            before = len(found)
            found.update(rows_ if key else [(before + n,) for n, _ in enumerate(rows_)])
        if most is not None and len(found) > most:
            raise MoreDependents(str(child))

    def _clear_from(self, child: Node, condition: sa.ColumnElement[bool]) -> None:
        if child.alone:
            self._refuse_more(child.table, condition)
            self.count(child.table, deleted(self._connection, child.table, condition))
            return
        while rows := self.pick(child, condition, _PAGE):
            layers = self.layers(child, rows)
            # Without a key, alike rows are one of the layers and rows of their own.
            there = len(rows) + sum(len(layer) for layer in layers) - len(set(rows))
            self.count(child.table, there)
            went = self.remove(child, layers)
            if went < there:
                raise StoreError(
                    Failure(
                        FailureClass.DEPENDENCY,
                        f"{child.table}: a trigger or row security keeps {there - went} of "
                        f"{there} rows that would have to be removed first; look at both",
                    )
                )

    def _refuse_more(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> None:
        """Raise MoreDependents before a statement that would delete more than was counted."""
        if self._most is None:
            return
        left = self._planned(table).removed - self.removed[str(table)]
        some = sa.select(sa.literal(1).label("one")).select_from(table).where(condition)
        rows = sa.select(sa.func.count()).select_from(some.limit(left + 1).subquery())
        if self._connection.execute(rows).scalar_one() > left:
            raise MoreDependents(str(table))

    def _referring_to(
        self, node: Node, reference: Reference, rows: Sequence[Key]
    ) -> Iterator[sa.ColumnElement[bool]]:
        """Conditions that together choose the rows that refer to *rows* of *node*."""
        if reference.relation is not None:
            place = node.columns.index(reference.relation)
            rows = [row for row in rows if row[place] in reference.relations]
        values = node.project(rows, reference.referred)
        child = reference.compared(reference.table)
        if not reference.converts:
            yield from chosen(self._connection, child, values)
            return
        # Compared with columns of the parent, and not with values, they are converted.
        for condition in chosen(self._connection, reference.referred, values):
            above = node.table.alias()
            referred = [above.c[column.key] for column in reference.referred]
            adapt = ClauseAdapter(above)
            which = sa.select(*referred).where(adapt.traverse(condition))
            yield (child[0] if len(child) == 1 else sa.tuple_(*child)).in_(which)

    def _referring(
        self,
        node: Node,
        own: Sequence[Reference],
        rows: Sequence[Key],
        only: sa.ColumnElement[bool] | None,
    ) -> list[Key]:
        """Other rows of *node* that refer to *rows* by *own*, as far as *only* holds."""
        found: dict[Key, None] = {}
        for reference in own:
            itself = sa.and_(
                *(a == b for a, b in zip(reference.columns, reference.referred, strict=True))
            )
            # Where the row itself has a NULL there it is still another one.
            others = sa.not_(sa.func.coalesce(itself, sa.false()))
            others = others if only is None else sa.and_(others, only)
            for condition in self._referring_to(node, reference, rows):
                found.update(dict.fromkeys(self.pick(node, sa.and_(condition, others))))
        return list(found)


def _not_allowed(node: Node, reference: Reference) -> Failure:
    return Failure(
        FailureClass.DEPENDENCY,
        f"{node.table}: rows of {reference.table} that have to stay refer to it, and the database "
        f"would remove or change them as well ({reference.name}, ON DELETE {reference.on_delete}); "
        "list that table under `dependents` if it may",
    )


def _kept_by_its_own(node: Node, reference: Reference) -> Failure:
    return Failure(
        FailureClass.DEPENDENCY,
        f"{node.table}: a row of {reference.table} that its own policy keeps refers to it "
        f"({reference.name}); it is removed once that row is",
    )
