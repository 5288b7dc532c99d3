"""Faults of the product, put in on purpose: the property over schemas has to notice each of them.

for fault in FAULTS:
    with pytest.MonkeyPatch.context() as patch:
        fault.put_in(patch)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows import completion, deleting
from bestbefore.adapters.rows.catalog import effects
from bestbefore.adapters.rows.dependents import Sweep
from bestbefore.adapters.rows.dialect import ForeignKey
from bestbefore.adapters.rows.mariadb import Mariadb
from bestbefore.adapters.rows.planning.counting import _Statement, of_batch
from bestbefore.adapters.rows.postgresql import Postgresql
from bestbefore.adapters.rows.references import Allowance
from bestbefore.adapters.rows.sqlite import Sqlite
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import RowBatch
from bestbefore.ports.rows import RowTask

Keys = Sequence[ForeignKey]


@dataclass(frozen=True)
class Fault:
    """``kind`` is a database where it shows, from the seed ``first`` on."""

    name: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    kind: str = "sqlite"
    first: int = 0


def _of_catalog(altered: Callable[[str, Keys], Keys]) -> Callable[[pytest.MonkeyPatch], None]:
    """What *altered* makes of the foreign keys to a table is what the catalog says."""

    def put_in(patch: pytest.MonkeyPatch) -> None:
        for dialect in (Mariadb, Postgresql, Sqlite):
            patch.setattr(dialect, "foreign_keys", _altering(dialect.foreign_keys, altered))

    return put_in


def _altering(ask: Any, altered: Callable[[str, Keys], Keys]) -> Any:
    def foreign_keys(self: Any, connection: sa.Connection, schema: str, table: str) -> Keys:
        return altered(table, ask(self, connection, schema, table))

    return foreign_keys


def _instead(of: Any, name: str, what: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(of, name, what)


def _uncounted(kind: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Rows that are *kind* (removed or changed) are not counted by a plan."""
    ask = _Statement.ask

    def left_out(self: _Statement, *of: Any) -> Iterator[tuple[str, str, int, Any, Any]]:
        return (found for found in ask(self, *of) if found[0] != kind)

    return _instead(_Statement, "ask", left_out)


def _none_below(patch: pytest.MonkeyPatch) -> None:
    closed = _Statement._closed
    patch.setattr(_Statement, "_closed", lambda self, level, _: closed(self, level, sa.false()))


def _no_limit(patch: pytest.MonkeyPatch) -> None:
    made = Sweep.__init__

    def unlimited(self: Sweep, connection: sa.Connection, _counted: Any, *rest: Any) -> None:
        made(self, connection, None, *rest)

    patch.setattr(Sweep, "__init__", unlimited)


def _young_too(target: Target, task: RowTask) -> Any:
    stays = (keeper.exists for keeper in target.keepers_of(task.cutoff))
    return sa.and_(target.between(task.batch.first, task.batch.last), *map(sa.not_, stays))


def _as_counted_now(
    connection: sa.Connection, target: Target, task: RowTask, parts: Sequence[RowBatch]
) -> tuple[RowBatch, ...]:
    found = []
    for part in parts:
        between = target.between(part.first, part.last)
        needs = of_batch(connection, target, task.cutoff, between)
        found.append(RowBatch(part.first, part.last, part.rows, part.oldest, part.walk,
                              part.shape, needs))  # fmt: skip
    return tuple(found)


def _without_rules(patch: pytest.MonkeyPatch) -> None:
    made = Allowance.__init__
    patch.setattr(Allowance, "__init__", lambda self, named, _rules: made(self, named, {}))


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


FAULTS = (
    Fault("a foreign key is not seen", _of_catalog(lambda _, keys: keys[1:])),
    Fault(
        "a foreign key of the table to itself is not seen",
        _of_catalog(lambda table, keys: [key for key in keys if key.table != table]),
    ),
    Fault(
        "SET NULL and SET DEFAULT are harmless",
        _of_catalog(lambda _, keys: [key for key in keys if not key.on_delete.startswith("SET")]),
    ),
    Fault(
        "foreign keys to partitions are not seen",
        _of_catalog(lambda _, keys: [key for key in keys if not key.relations]),
        "postgresql",
    ),
    Fault(
        "foreign keys to the table of a partition are not seen",
        _of_catalog(lambda table, keys: [] if table.endswith("_old") else keys),
        "postgresql",
        first=40,
    ),
    Fault(
        "every key that is referred to is unique",
        _of_catalog(lambda _, keys: [key._replace(unique=True) for key in keys]),
        "mysql",
    ),
    Fault(
        "collations do not count",
        _of_catalog(lambda _, keys: [key._replace(collations=()) for key in keys]),
    ),
    Fault("removed rows are not counted", _uncounted("removed")),
    Fault("changed rows are not counted", _uncounted("changed")),
    Fault(
        "rows of the table itself are not counted with what they refer to",
        _none_below,
    ),
    Fault("the limit is not asked", _no_limit),
    Fault("parts have no limit together", _instead(deleting, "shared", _as_counted_now)),
    Fault("what is referred to is removed", _instead(Target, "keepers_of", _nothing)),
    Fault("rows that have become young are removed", _instead(deleting, "meant", _young_too)),
    Fault(
        "the ends of a batch do not count",
        _instead(Target, "between", lambda *_: sa.true()),
    ),
    Fault(
        "rows that come last are not looked for",
        _instead(Sweep, "refuse_guarded", lambda *_: None),
        "postgresql",
        first=120,
    ),
    Fault(
        "rows of the table itself that come last are not looked for",
        _instead(Sweep, "refuse_own", lambda *_: None),
        "postgresql",
        first=990,
    ),
    Fault(
        "entries of other keys are not locked",
        _instead(Sweep, "_lock_entries", lambda *_: None),
        "mysql",
        first=40,
    ),
    Fault("an effect leaves out what changed", _instead(Sweep, "changed", {})),
    Fault("an effect leaves out what is removed", _instead(Sweep, "count", lambda *_: None)),
    Fault("a second delivery is worked on", _instead(completion, "begin", lambda *_: True)),
    Fault("policies of other tables are not asked", _without_rules),
    Fault(
        "what changes further is not refused",
        _instead(effects, "_refuse_changed_further", lambda *_: None),
        first=90,
    ),
)
