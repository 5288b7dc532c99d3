"""What a policy may remove of a `row_schemas.Case`, told from its rows and foreign keys alone."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bestbefore.contracts.row_world import CUTOFF
from support.row_schema_tables import Content, Row
from support.row_schemas import Case, ForeignKey

_UNRELATED = "no foreign key that leads"

Rows = Mapping[int, set[int]]
"""Tags of rows, by table."""


@dataclass(frozen=True)
class Effect:
    """Rows that are gone, and rows that stay without their reference."""

    removed: Rows
    changed: Rows


class Model:
    """What the policy of *case* makes of *content*."""

    def __init__(self, case: Case, content: Content) -> None:
        self.case = case
        self.content = content
        self.own = case.policy.table
        self.old = {tag for tag, row in content[self.own].items() if _is_old(row)}

    @cached_property
    def selected(self) -> set[int]:
        """Rows of the own table that are removed: old ones that nothing keeps."""
        return {tag for tag in self.content[self.own] if (self.own, tag) not in self._kept}

    def is_young(self, table: int, tag: int) -> bool:
        """Whether it can be told to be as young as the cutoff, or younger."""
        row = self.content[table][tag]
        return not _is_old(row) and _at(row) is not None

    def effect(self, tags: set[int]) -> Effect:
        """What is gone and changed once the rows of the own table with *tags* are removed."""
        removed: dict[int, set[int]] = {table: set() for table in self.content}
        changed: dict[int, set[int]] = {table: set() for table in self.content}
        left = [(self.own, tag) for tag in tags]
        while left:
            table, tag = left.pop()
            if tag in removed[table]:
                continue
            removed[table].add(tag)
            for key, child in self._referring(table, tag):
                itself = (key.child, key.parent) == (self.own, self.own)
                if key.changes and (not itself or allows(self.case, key)):
                    changed[key.child].add(child)
                else:
                    left.append((key.child, child))
        return Effect(removed, {table: changed[table] - removed[table] for table in changed})

    @cached_property
    def ways(self) -> Mapping[int, list[ForeignKey]]:
        """By which keys rows of a table may be removed or changed, once per path that leads to it;
        by two where a key refers to several rows."""
        found: dict[int, list[ForeignKey]] = {table: [] for table in self.content}

        def follow(*path: int) -> None:
            for key in self.case.keys:
                allowed = key.child == self.own or allows(self.case, key)
                if key.parent == path[-1] and allowed:
                    found[key.child] += [key] * (2 if key.referred == ("num",) else 1)
                    if not key.changes and key.child not in path:
                        follow(*path, key.child)

        follow(self.own)
        return found

    @cached_property
    def _kept(self) -> set[tuple[int, int]]:
        """Rows that stay, and keep what they refer to from being removed."""
        kept = {(self.own, tag) for tag in self.content[self.own].keys() - self.old}
        if self.case.kind == "mysql":
            kept |= {(self.own, tag) for tag in self._endless}
        while True:
            more = {
                (table, tag)
                for table, rows in self.content.items()
                for tag in rows
                if (table, tag) not in kept
                and any(self._keeps(key, child, kept) for key, child in self._referring(table, tag))
            }
            if not more:
                return kept
            kept |= more

    @property
    def _endless(self) -> Set[int]:
        """Rows of the own table with a circle of references below them, which InnoDB would not
        remove one by one; a row that refers to itself is one."""
        inside = [key for key in self.case.keys if key.child == key.parent == self.own]
        own = [key for key in inside if not (key.changes and allows(self.case, key))]
        firm = [key for key in own if not key.changes and key.on_delete != "CASCADE"]
        below = {
            tag: {child for key, child in self._referring(self.own, tag) if key in own}
            | {tag for key in firm if self._refers(key, tag, tag)}
            for tag in self.content[self.own]
        }
        ended: set[int] = set()
        while more := {tag for tag in below.keys() - ended if below[tag] <= ended}:
            ended |= more
        return below.keys() - ended

    def _refers(self, key: ForeignKey, child: int, parent: int) -> bool:
        return child in self._by_value[key].get(self._value(key, key.parent, parent), ())

    def _keeps(self, key: ForeignKey, child: int, kept: set[tuple[int, int]]) -> bool:
        allowed = allows(self.case, key)
        if key.child == self.own and not (key.changes and allowed):
            return (self.own, child) in kept  # what the policy itself removes keeps nothing
        if key.changes or not allowed:
            return not allowed
        return (key.child, child) in kept or child not in self._removable(key.child)

    def _removable(self, table: int) -> Set[int]:
        """Rows that a policy of their own, if there is one, removes now."""
        return self._by_others.get(table, self.content[table].keys())

    @cached_property
    def _by_others(self) -> Mapping[int, set[int]]:
        reached = [
            one for one in self.case.others if not all(key.changes for key in self.ways[one.table])
        ]
        return {one.table: Model(self.case.of(one), self.content).selected for one in reached}

    def _referring(self, table: int, tag: int) -> Iterator[tuple[ForeignKey, int]]:
        """Other rows that refer to a row, and by which key."""
        for key in self.case.keys:
            if key.parent == table:
                for child in self._by_value[key].get(self._value(key, table, tag), ()):
                    if (key.child, child) != (table, tag):
                        yield key, child

    @cached_property
    def _by_value(self) -> Mapping[ForeignKey, Mapping[Any, set[int]]]:
        found: dict[ForeignKey, dict[Any, set[int]]] = {}
        for key in self.case.keys:
            found[key] = {}
            for tag, row in self.content[key.child].items():
                if None in (value := tuple(row[name] for name in key.columns)):
                    continue
                if not key.from_old or _is_old(row):
                    found[key].setdefault(self._folded(value), set()).add(tag)
        return found

    def _value(self, key: ForeignKey, table: int, tag: int) -> Any:
        row = self.content[table][tag]
        if key.to_old and not _is_old(row):
            return None
        return self._folded(tuple(row[name] for name in key.referred))

    def _folded(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.case.kind == "postgresql":
            return value
        return tuple(part.lower() if isinstance(part, str) else part for part in value)


def _at(row: Row) -> int | None:
    return row["at"] if "at" in row else row["born"]  # type: ignore[no-any-return]


def _is_old(row: Row) -> bool:
    at = _at(row)
    return at is not None and at < CUTOFF.timestamp()


def allows(case: Case, key: ForeignKey) -> bool:
    """Whether rows that refer by *key* may be removed or changed with those of the policy. Those of
    a table with a policy of its own are only removed if that would do so now."""
    if case.policy.dependents is not None and key.child not in case.policy.dependents:
        return False
    own = case.other(key.child)
    return key.changes or own is None or not (own.idle or key.from_old)


def refusals(case: Case) -> set[str]:
    """What the table has to be refused for: words of the message."""
    found, reached, own = set(), set(), case.policy.table

    def follow(*path: int) -> None:
        for key in case.keys:
            if key.parent != path[-1]:
                continue
            reached.add(key.child)
            again, allowed = key.child in path, allows(case, key)
            if again and key.child != path[-1] and not key.changes:
                found.add("circle")
            if (allowed or key.child == key.parent == own) and key.referred == ("num",):
                found.add("several rows may share")
            if allowed and key.changes and _changed_further(case, key):
                found.add("changed too")
            if allowed and (other := case.other(key.child)) and not other.idle:
                found.update(refusals(case.of(other)) - {_UNRELATED})
            if allowed and not key.changes and not again:
                follow(*path, key.child)

    follow(own)
    if case.policy.dependents and not reached.issuperset(case.policy.dependents):
        found.add(_UNRELATED)
    return found


def _changed_further(case: Case, key: ForeignKey) -> bool:
    """Whether what *key* empties is referred to in turn."""
    return any(
        further.parent == key.child and not set(further.referred).isdisjoint(key.columns)
        for further in case.keys
    )
