"""Rows that refer to the rows of a batch, and so have to go before them.

Sets of rows are fixed by reading their keys under a lock, never by asking a condition again: a
trigger that counts children changes their parent, and a `where` may ask about the very rows that
were deleted a moment ago.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.keys import Key, chosen, deleted
from bestbefore.adapters.rows.references import (
    LEFT_TO_THE_DATABASE,
    Reference,
    references,
)
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError

_PAGE = 10_000
"""Rows of a child table whose keys are in memory at a time."""

_MOST_LAYERS = 1_000

_CASCADE = "CASCADE"


class Branch(NamedTuple):
    """Rows of another table that go first, and what of those refers to them."""

    reference: Reference
    node: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """A table whose rows go.

    ``identity`` tells its rows apart. ``own`` are its foreign keys to itself. ``cascades`` are
    those of tables whose rows nobody gave up, and which the database would delete all the same:
    what they refer to is not eligible, but somebody may insert one at the last moment.
    """

    table: sa.Table
    identity: tuple[sa.Column[Any], ...]
    branches: tuple[Branch, ...] = ()
    own: tuple[Reference, ...] = ()
    cascades: tuple[Reference, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether nothing has to be looked at before its rows go."""
        return not (self.branches or self.own or self.cascades)

    @property
    def columns(self) -> list[sa.Column[Any]]:
        """What has to be known of a row: its identity, then what is referred to."""
        into = [branch.reference for branch in self.branches]
        referred = [column for ref in (*into, *self.own, *self.cascades) for column in ref.referred]
        return list(dict.fromkeys([*self.identity, *referred]))

    def project(self, rows: Sequence[Key], columns: Sequence[sa.Column[Any]]) -> list[Key]:
        """Of *rows* over `columns`, just *columns*."""
        have = self.columns
        order = [have.index(column) for column in columns]
        return [tuple(row[place] for place in order) for row in rows]


def tree(
    connection: sa.Connection,
    table: sa.Table,
    identity: Sequence[sa.Column[Any]],
    goes: Callable[[sa.Table], bool],
) -> Node:
    """*table* with all that refers to it, over any number of steps, of tables that *goes* names.

    There are no circles: `references.keepers` has refused them.
    """
    branches, own, cascades = [], [], []
    for reference in references(connection, table):
        child = reference.table
        if reference.on_delete in LEFT_TO_THE_DATABASE:
            continue
        if child is table:
            own.append(reference)
        elif goes(child):
            key = tuple(child.primary_key.columns) or reference.columns
            branches.append(Branch(reference, tree(connection, child, key, goes)))
        elif reference.on_delete == _CASCADE:
            cascades.append(reference)
    return Node(table, tuple(identity), tuple(branches), tuple(own), tuple(cascades))


class Sweep:
    """Deletes rows and what refers to them, within one transaction. ``counts`` is what of other
    tables went, by table. Without *lock* it only looks."""

    def __init__(self, connection: sa.Connection, *, lock: bool = True) -> None:
        self._connection = connection
        self._lock = lock
        self.counts: Counter[str] = Counter()

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
                        "refers to the next, would have to go at once; delete some by hand",
                    )
                )
            depth.update(dict.fromkeys(newest, step))
        found: list[list[Key]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
        for row, layer in depth.items():
            found[layer].append(row)
        return found[::-1]

    def remove(self, node: Node, layers: Sequence[Sequence[Key]]) -> int:
        """Delete rows of *node*, layer by layer, once what refers to them is gone.

        Returns how many went: fewer where a trigger or row security keeps some.
        """
        self._clear(node, [row for layer in layers for row in layer])
        gone = 0
        for layer in layers:
            keys = node.project(layer, node.identity)
            for condition in chosen(self._connection, node.identity, keys):
                gone += deleted(self._connection, node.table, condition)
        return gone

    def refuse_cascades(self, node: Node, rows: Sequence[Key]) -> None:
        """Raise StoreError where the database would delete rows that nobody gave up."""
        for reference in node.cascades:
            values = node.project(rows, reference.referred)
            for condition in chosen(self._connection, reference.columns, values):
                there = sa.select(sa.literal(1)).select_from(reference.table).where(condition)
                if self._connection.execute(there.limit(1)).first() is not None:
                    raise StoreError(_not_given_up(node, reference))

    def refuse_own(self, node: Node, rows: Sequence[Key]) -> None:
        """Raise StoreError where rows of the table itself would go that are not among *rows*."""
        identities = set(node.project(rows, node.identity))
        for reference in node.own:
            if reference.on_delete != _CASCADE:
                continue  # the database refuses by itself
            found = self._referring(node, [reference], rows, None)
            if not identities.issuperset(node.project(found, node.identity)):
                raise StoreError(_not_given_up(node, reference))

    def _clear(self, node: Node, rows: Sequence[Key]) -> None:
        self.refuse_cascades(node, rows)
        for reference, child in node.branches:
            values = node.project(rows, reference.referred)
            for condition in chosen(self._connection, reference.columns, values):
                self.counts[str(child.table)] += self._clear_from(child, condition)

    def _clear_from(self, child: Node, condition: sa.ColumnElement[bool]) -> int:
        if child.alone:
            return deleted(self._connection, child.table, condition)
        gone = 0
        while rows := self.pick(child, condition, _PAGE):
            layers = self.layers(child, rows)
            there = sum(len(layer) for layer in layers)
            went = self.remove(child, layers)
            gone += went
            if went < there:
                raise StoreError(
                    Failure(
                        FailureClass.DEPENDENCY,
                        f"{child.table}: a trigger or row security keeps {there - went} of "
                        f"{there} rows that would have to go first; look at both",
                    )
                )
        return gone

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
            others = sa.not_(itself) if only is None else sa.and_(sa.not_(itself), only)
            values = node.project(rows, reference.referred)
            for condition in chosen(self._connection, reference.columns, values):
                found.update(dict.fromkeys(self.pick(node, sa.and_(condition, others))))
        return list(found)


def _not_given_up(node: Node, reference: Reference) -> Failure:
    return Failure(
        FailureClass.DEPENDENCY,
        f"{node.table}: rows of {reference.table} that have to stay refer to it, and the database "
        f"would delete them as well ({reference.name}, ON DELETE CASCADE); list that table under "
        "`dependents` if they may go",
    )
