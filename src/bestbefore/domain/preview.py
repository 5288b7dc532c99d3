"""What a run would remove and what stays, in as many words as a person reads before a decision."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bestbefore.domain.prefixes import PrefixCounts, Under
from bestbefore.domain.rows import RowBatch

_EXAMPLES = 10
_MOST_BETWEEN = 2 * _EXAMPLES
_BIGGEST = 2
_STAYING_PREFIXES = 5
_REFERENCED = "referenced"


class Selected(NamedTuple):
    """One target of a run: an object, an entry of a versioned key, an unfinished upload, or, with
    ``batch``, rows. Of rows ``size`` is their number and ``last_modified`` the oldest one's time.
    """

    key: str
    size: int
    last_modified: datetime
    version_id: str | None = None
    upload_id: str | None = None
    batch: RowBatch | None = None


class Example(NamedTuple):
    """One of the targets, and why it stands for the others: ``oldest``, ``newest``, ``biggest`` or
    ``between``."""

    why: str
    target: Selected


class Stay(NamedTuple):
    """How many objects or rows stay for one reason: the prefixes that hold most of them, or the
    tables whose rows refer to them."""

    reason: str
    n: int
    prefixes: tuple[Under, ...] = ()
    tables: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would remove, and why the rest stays.

    ``n`` counts objects or rows. Of rows ``size`` (bytes) is None, there are no prefixes,
    ``newest`` is the time of the oldest row in the newest batch, and ``first`` is the batch that
    ``statement`` removes; ``statement`` is None where it could not be found out. ``triggers`` are
    what the database runs then, each as ``table: name``.
    """

    n: int
    size: int | None
    oldest: datetime | None
    newest: datetime | None
    prefixes: tuple[Under, ...]
    stays: tuple[Stay, ...]
    sample: tuple[Example, ...]
    first: RowBatch | None = None
    statement: str | None = None
    triggers: tuple[str, ...] = ()


class PreviewBuilder:
    """Looks at the targets of a run one by one, in bounded memory.

    *expected* is how many there will be, so that examples are spread over all of them; *base* is
    the prefix that all keys begin with, None where the targets are row batches.
    """

    def __init__(self, base: str | None, expected: int) -> None:
        self._about_rows = base is None
        self._prefixes = PrefixCounts(base or "")
        self._stride = max(1, expected // _EXAMPLES)
        self._seen = 0
        self._n = 0
        self._oldest: Selected | None = None
        self._newest: Selected | None = None
        self._biggest: list[Selected] = []
        self._between: list[Selected] = []
        self.first: RowBatch | None = None

    def add(self, target: Selected) -> None:
        """Look at the next target."""
        if self._oldest is None or target.last_modified < self._oldest.last_modified:
            self._oldest = target
        if self._newest is None or target.last_modified >= self._newest.last_modified:
            self._newest = target
        if self._seen % self._stride == self._stride // 2 and len(self._between) < _MOST_BETWEEN:
            self._between.append(target)
        self._seen += 1
        if target.batch is None:
            self._n += 1
            self._prefixes.add(target.key, target.size)
            self._note_if_big(target)
        else:
            self._n += target.size
            self.first = self.first or target.batch

    def build(
        self,
        stays: Iterable[Stay],
        statement: str | None = None,
        triggers: Iterable[str] = (),
    ) -> Preview:
        """The preview of everything that was looked at."""
        return Preview(
            n=self._n,
            size=None if self._about_rows else self._prefixes.size,
            oldest=self._oldest and self._oldest.last_modified,
            newest=self._newest and self._newest.last_modified,
            prefixes=() if self._about_rows else self._prefixes.shown(),
            stays=tuple(sorted(stays, key=lambda stay: (-stay.n, stay.reason))),
            sample=tuple(self._sample()),
            first=self.first,
            statement=statement,
            triggers=tuple(triggers),
        )

    def _note_if_big(self, target: Selected) -> None:
        if len(self._biggest) < _BIGGEST or target.size > self._biggest[-1].size:
            ranked = sorted([*self._biggest, target], key=lambda one: one.size, reverse=True)
            self._biggest = ranked[:_BIGGEST]

    def _sample(self) -> list[Example]:
        """Each target once, for the first reason that it is there for; the oldest first."""
        chosen = [("oldest", self._oldest), ("newest", self._newest)]
        chosen += [("biggest", target) for target in self._biggest]
        found: dict[Selected, str] = {}
        for why, target in chosen:
            if target is not None:
                found.setdefault(target, why)
        others = [target for target in self._between if target not in found]
        room = _EXAMPLES - len(found)
        for n in range(min(room, len(others))):
            found[others[n * len(others) // min(room, len(others))]] = "between"
        examples = [Example(why, target) for target, why in found.items()]
        return sorted(examples, key=lambda one: (one.target.last_modified, one.target.key))


def stays_by_prefix(counted: Mapping[str, PrefixCounts]) -> list[Stay]:
    """What stays by reason, each with the prefixes that hold most of it."""
    return [
        Stay(reason, counts.n, counts.shown(_STAYING_PREFIXES))
        for reason, counts in counted.items()
        if counts.n
    ]


def stays_by_table(protected: Mapping[str, int], referenced: Mapping[str, int]) -> list[Stay]:
    """Rows that stay by reason; *referenced* says which tables refer to how many of them."""
    tables = tuple(sorted(referenced.items(), key=lambda item: (-item[1], item[0])))
    return [
        Stay(reason, n, tables=tables if reason == _REFERENCED else ())
        for reason, n in protected.items()
        if n
    ]
