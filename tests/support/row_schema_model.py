"""What a policy may remove of a `row_schemas.Case`, told from its rows and foreign keys alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bestbefore.contracts.row_world import CUTOFF
from support.row_schema_tables import Content, Row
from support.row_schemas import Case, ForeignKey

OWN = 0
"""The table that the policy is about."""

Rows = Mapping[int, set[int]]
"""Tags of rows, by table."""


@dataclass(frozen=True)
class Effect:
    """Rows that are gone, and rows that stay without their reference."""

    removed: Rows
    changed: Rows


class Model:
    """One moment of *case*: *content* is what there is."""

    def __init__(self, case: Case, content: Content) -> None:
        self.case = case
        self.content = content
        self.old = {tag for tag in content[OWN] if self._is_old(tag)}

    @cached_property
    def selected(self) -> set[int]:
        """Rows of the own table that are removed: old ones that nothing keeps."""
        return {tag for tag in self.content[OWN] if (OWN, tag) not in self._kept}

    def is_young(self, table: int, tag: int) -> bool:
        """Whether it can be told to be as young as the cutoff, or younger."""
        at = self.content[table][tag].get("at")
        return at is not None and at >= CUTOFF.timestamp()

    def effect(self, tags: set[int]) -> Effect:
        """What is gone and changed once the rows of the own table with *tags* are removed."""
        removed: dict[int, set[int]] = {table: set() for table in self.content}
        changed: dict[int, set[int]] = {table: set() for table in self.content}
        left = [(OWN, tag) for tag in tags]
        while left:
            table, tag = left.pop()
            if tag in removed[table]:
                continue
            removed[table].add(tag)
            for key, child in self._referring(table, tag):
                if self._empties(key):
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
                if key.parent == path[-1] and (key.child == OWN or allows(self.case, key.child)):
                    found[key.child] += [key] * (2 if key.referred == ("num",) else 1)
                    if not key.changes and key.child not in path:
                        follow(*path, key.child)

        follow(OWN)
        return found

    def _empties(self, key: ForeignKey) -> bool:
        """Whether a reference is emptied for the policy. A row of the own table that it may not
        change has to be removed with what it refers to."""
        return key.changes and (key.child != OWN or key.parent != OWN or allows(self.case, OWN))

    @cached_property
    def _kept(self) -> set[tuple[int, int]]:
        """Rows that stay, and keep what they refer to from being removed."""
        kept = {(OWN, tag) for tag in self.content[OWN].keys() - self.old}
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

    def _keeps(self, key: ForeignKey, child: int, kept: set[tuple[int, int]]) -> bool:
        if key.child == OWN and not (key.changes and allows(self.case, OWN)):
            return (OWN, child) in kept  # what the policy itself removes keeps nothing
        if not allows(self.case, key.child):
            return True
        return not key.changes and (key.child, child) in kept

    def _is_old(self, tag: int) -> bool:
        at = self.content[OWN][tag]["at"]
        return at is not None and at < CUTOFF.timestamp()

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
                if not key.from_old or _in_old(row):
                    found[key].setdefault(self._folded(value), set()).add(tag)
        return found

    def _value(self, key: ForeignKey, table: int, tag: int) -> Any:
        row = self.content[table][tag]
        if key.to_old and not _in_old(row):
            return None
        return self._folded(tuple(row[name] for name in key.referred))

    def _folded(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.case.kind == "postgresql":
            return value
        return tuple(part.lower() if isinstance(part, str) else part for part in value)


def _in_old(row: Row) -> bool:
    return bool(row["at"] < CUTOFF.timestamp())


def allows(case: Case, table: int) -> bool:
    """Whether rows of *table* may be removed or changed beside those of the policy. Those of a
    table with a policy of its own may not."""
    return table not in case.governed and (case.dependents is None or table in case.dependents)


def refusals(case: Case) -> set[str]:
    """What the table has to be refused for: words of the message."""
    found, reached = set(), set()

    def follow(*path: int) -> None:
        for key in case.keys:
            if key.parent != path[-1]:
                continue
            reached.add(key.child)
            again, allowed = key.child in path, allows(case, key.child)
            if again and key.child != path[-1] and not key.changes:
                found.add("circle")
            if allowed and key.referred == ("num",) and key.child != OWN:
                found.add("several rows may share")
            itself = key.child == key.parent == OWN
            if allowed and key.changes and not itself and _changed_further(case, key):
                found.add("changed too")
            if allowed and not key.changes and not again:
                follow(*path, key.child)

    follow(OWN)
    if case.dependents and not reached.issuperset(case.dependents):
        found.add("no foreign key that leads")
    return found


def _changed_further(case: Case, key: ForeignKey) -> bool:
    """Whether what *key* empties is referred to in turn."""
    return any(
        further.parent == key.child and not set(further.referred).isdisjoint(key.columns)
        for further in case.keys
    )
