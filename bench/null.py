"""A store that lists any number of objects and deletes by agreeing: what is left is ours."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bestbefore.app.clock import SystemClock
from bestbefore.app.collecting import collect_rarely, keep_for_good
from bestbefore.app.connecting import connect_tables
from bestbefore.app.settings import QueueSettings, Settings, StateSettings, StoreSettings
from bestbefore.app.system import System
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import BucketFacts, KeyRange, Page, Target
from bestbefore.ports.stores import Store

_PAGE = 1000
_OLD = datetime(2026, 1, 1, tzinfo=UTC)
_ETAG = "9dd4e461268c8034f5c8564e155c67a6"


class NullStore:
    """Both sides of an object store that holds *objects* old objects."""

    def __init__(self, objects: int) -> None:
        self._objects = objects

    def describe(self, _bucket: str) -> BucketFacts:
        return BucketFacts("null", None, None)

    def ranges(self, _bucket: str, _prefix: str, parts: int) -> Sequence[KeyRange]:
        cuts = [_key(self._objects * part // parts) for part in range(1, parts)]
        return [KeyRange(a, b) for a, b in zip([None, *cuts], [*cuts, None], strict=True)]

    def page(self, _bucket: str, _prefix: str, keys: KeyRange) -> Page:
        first = 0 if keys.after is None else _number(keys.after) + 1
        end = self._objects if keys.until is None else _number(keys.until) + 1
        last = min(first + _PAGE, end)
        items = [Listed(_key(n), 100, _ETAG, _OLD) for n in range(first, last)]
        return Page(items, KeyRange(_key(last - 1), keys.until) if last < end else None)

    def look(self, _bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        return {key: Listed(key, 100, _ETAG, _OLD) for key in keys}

    def delete(self, _bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        return [Outcome.DELETED] * len(targets)

    def check(self, _bucket: str, _prefix: str) -> Sequence[Finding]:
        return []


def policy(reach: Reach | None = None) -> Policy:
    """Everything under one prefix, older than 30 days."""
    source = ObjectSource("null", "bucket", "exports/")
    return Policy("bench", "v1", "bench", Age(0, 30 * 86_400), source, reach=reach or Reach())


def system(folder: Path, objects: int, rule: Policy, url: str | None = None) -> System:
    """A real state database in *folder*, or at *url*, over a null store, in a process set up as the
    CLI's."""
    collect_rarely()
    keep_for_good()
    store = NullStore(objects)
    settings = Settings(
        path=folder / "bestbefore.toml",
        state=StateSettings(url or f"sqlite:///{folder / 'state.db'}"),
        queue=QueueSettings(),
        stores={"null": StoreSettings("null", "s3")},
        databases={},
        policies={rule.name: rule},
    )
    return System(settings, SystemClock(), lambda *_: Store(store, store), connect_tables)


def _key(number: int) -> str:
    return f"exports/customer-{number:010}.json"


def _number(key: str) -> int:
    return int(key[-15:-5])
