"""How much lies under which prefix, counted in bounded memory."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

MOST_PREFIXES = 128
"""Prefixes that are told apart while counting, whatever the number of keys."""

MOST_SHOWN = 20
_LEVELS = 2

PrefixTable = dict[str, tuple[int, int]]
"""Keys and bytes by prefix."""


class Under(NamedTuple):
    """What is under *prefix* and not under a longer prefix of the same list; with None as prefix,
    everything that no other entry of the list counts. ``size`` is in bytes."""

    prefix: str | None
    n: int
    size: int


class PrefixCounts:
    """Keys and their bytes by the first two path segments after *base*.

    Exact in total. Where there are more than `MOST_PREFIXES` different ones, the smallest are
    counted with the folder above them, so that memory stays flat and what is large stays apart.
    """

    __slots__ = ("_base", "_counts")

    def __init__(self, base: str, counts: Iterable[tuple[str, int, int]] = ()) -> None:
        self._base = base
        self._counts = {prefix: (n, size) for prefix, n, size in counts}

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Every prefix that is told apart, with its number of keys and of bytes."""
        return ((prefix, n, size) for prefix, (n, size) in self._counts.items())

    @property
    def base(self) -> str:
        """What all its keys begin with."""
        return self._base

    @property
    def n(self) -> int:
        """How many keys were counted."""
        return sum(n for n, _ in self._counts.values())

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return sum(size for _, size in self._counts.values())

    def add(self, key: str, size: int) -> None:
        """Count one key, which begins with the base."""
        end = len(self._base)
        for _ in range(_LEVELS):
            slash = key.find("/", end)
            if slash < 0:
                break
            end = slash + 1
        self._count(key[:end], 1, size)

    def include(self, others: Iterable[tuple[str, int, int]]) -> Self:
        """Count what *others* counted under the same base, too."""
        for prefix, n, size in others:
            self._count(prefix, n, size)
        return self

    def shown(self, most: int = MOST_SHOWN) -> tuple[Under, ...]:
        """At most *most* prefixes, the largest first, and one entry for what is under none of them.

        As many as fit are divided by their second segment, the largest first.
        """
        ranked = _ranked(self._divided(most))
        rest = ranked[most:]
        if not rest:
            return tuple(ranked)
        others = Under(None, sum(under.n for under in rest), sum(under.size for under in rest))
        return (*ranked[:most], others)

    def _count(self, prefix: str, n: int, size: int) -> None:
        before_n, before_size = self._counts.get(prefix, (0, 0))
        self._counts[prefix] = before_n + n, before_size + size
        if len(self._counts) > MOST_PREFIXES:
            self._shrink()

    def _shrink(self) -> None:
        """Count the smallest prefixes with those above them, the deepest first."""
        for level in range(_LEVELS, 0, -1):
            deepest = [prefix for prefix in self._counts if self._level(prefix) == level]
            deepest.sort(key=lambda prefix: self._counts[prefix])
            for prefix in deepest:
                if len(self._counts) <= MOST_PREFIXES // 2:
                    return
                n, size = self._counts.pop(prefix)
                above = self._above(prefix)
                above_n, above_size = self._counts.get(above, (0, 0))
                self._counts[above] = above_n + n, above_size + size

    def _divided(self, most: int) -> PrefixTable:
        """Prefixes of the first segment, and of the second where there is room for them."""
        families: dict[str, PrefixTable] = {}
        for prefix, counted in self._counts.items():
            top = prefix if self._level(prefix) < _LEVELS else self._above(prefix)
            families.setdefault(top, {})[prefix] = counted
        if len(families) == 1:
            return self._counts
        found = {top: _total(family) for top, family in families.items()}
        for top in sorted(families, key=lambda top: found[top], reverse=True):
            if len(found) - 1 + len(families[top]) <= most:
                del found[top]
                found |= families[top]
        return found

    def _level(self, prefix: str) -> int:
        return prefix.count("/", len(self._base))

    def _above(self, prefix: str) -> str:
        slash = prefix.rfind("/", len(self._base), len(prefix) - 1)
        return prefix[: slash + 1] if slash >= 0 else self._base


def _total(family: PrefixTable) -> tuple[int, int]:
    return sum(n for n, _ in family.values()), sum(size for _, size in family.values())


def _ranked(counts: PrefixTable) -> list[Under]:
    found = [Under(prefix, n, size) for prefix, (n, size) in counts.items()]
    return sorted(found, key=lambda under: (-under.n, -under.size, under.prefix or ""))
