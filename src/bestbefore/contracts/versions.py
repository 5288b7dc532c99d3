"""What an adapter has to do besides where buckets can keep versions. To run it over one::

class TestMyVersions(VersionContract):
    @pytest.fixture
    def store(self) -> VersionWorld: ...    # an empty bucket that keeps versions
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from bestbefore.contracts.objects import EVERYTHING
from bestbefore.domain.failure import Failure
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.domain.stack import Shown
from bestbefore.domain.versions import Version
from bestbefore.ports.objects import (
    KeyRange,
    ObjectDeleter,
    ObjectLister,
    Target,
    VersionLister,
)


@dataclass(frozen=True, slots=True)
class VersionWorld:
    """A bucket that keeps versions: *put* and *hide* write a version or a delete marker as somebody
    else would, and return its id. *bucket* is empty."""

    lister: ObjectLister
    deleter: ObjectDeleter
    put: Callable[[str, bytes], str]
    hide: Callable[[str], str]
    bucket: str

    @property
    def versions(self) -> VersionLister:
        """The lister, which has to know versions."""
        assert isinstance(self.lister, VersionLister)
        return self.lister

    def shown(self, prefix: str = "", keys: KeyRange = EVERYTHING) -> list[Shown]:
        """Every entry of a range, page by page."""
        found: list[Shown] = []
        rest: KeyRange | None = keys
        behind: str | None = None
        while rest is not None:
            page = self.versions.versions(self.bucket, prefix, rest, behind)
            found += page.entries
            rest, behind = page.rest, page.behind
        return found

    def ids(self, key: str) -> list[str | None]:
        """The ids of what is under *key*, in the order of the listing."""
        return [entry.item.version_id for entry in self.shown(key) if entry.item.key == key]

    def remove(self, *entries: tuple[str, str]) -> Sequence[Outcome | Failure]:
        """Remove entries, each by key and id."""
        seen = {(e.item.key, e.item.version_id): e.item for e in self.shown()}
        targets = []
        for key, version in entries:
            item = seen.get((key, version))
            etag, at = (item.etag, item.last_modified) if item else ("", datetime.now(UTC))
            targets.append(Target(key, etag, at, version))
        return self.deleter.delete(self.bucket, targets)


class VersionContract:
    """Inherit, and give a ``store`` fixture of type `VersionWorld`."""

    def test_facts_say_that_versions_are_kept(self, store: VersionWorld) -> None:
        assert store.lister.describe(store.bucket).versioning == "Enabled"

    def test_an_empty_bucket_holds_no_entries(self, store: VersionWorld) -> None:
        assert store.shown() == []
        assert list(store.versions.version_ranges(store.bucket, "", 8)) == [EVERYTHING]

    def test_every_version_and_marker_is_listed_once_and_one_is_the_latest(
        self, store: VersionWorld
    ) -> None:
        first, second = store.put("a", b"1"), store.put("a", b"22")
        marker = store.hide("a")
        other = store.put("b", b"333")
        shown = store.shown()
        assert {(e.item.key, e.item.version_id, e.item.size) for e in shown} == {
            ("a", first, 1),
            ("a", second, 2),
            ("a", marker, 0),
            ("b", other, 3),
        }
        assert {e.item.version_id for e in shown if e.latest} == {marker, other}
        (hidden,) = [e.item for e in shown if e.item.version_id == marker]
        assert hidden.version is not None
        assert hidden.version.marker
        assert hidden.etag == ""
        assert hidden.last_modified.utcoffset() == timedelta(0)
        assert [e.item.key for e in shown] == ["a", "a", "a", "b"]

    def test_only_the_prefix_and_the_range_are_listed(self, store: VersionWorld) -> None:
        for key in ("p/1", "p/2", "p/3", "q"):
            store.put(key, b"x")
            store.put(key, b"y")
        assert {e.item.key for e in store.shown("p/", KeyRange("p/1", "p/2"))} == {"p/2"}
        assert len(store.shown("p/", KeyRange(None, "p/2"))) == 4

    def test_ranges_cover_every_entry_exactly_once(self, store: VersionWorld) -> None:
        keys = [f"p/{folder}/{n:03d}" for folder in "abc" for n in range(20)]
        for key in keys:
            store.put(key, b"x")
        for key in keys[::3]:
            store.hide(key)
        ranges = store.versions.version_ranges(store.bucket, "p/", 4)
        assert ranges[0].after is None
        assert ranges[-1].until is None
        assert all(one.until == following.after for one, following in pairwise(ranges))
        seen = [
            (entry.item.key, entry.item.version_id)
            for keys in ranges
            for entry in store.shown("p/", keys)
        ]
        assert len(seen) == len(set(seen)) == 60 + 20

    def test_exactly_the_named_version_is_removed(self, store: VersionWorld) -> None:
        first, second, third = (store.put("a", body) for body in (b"1", b"2", b"3"))
        assert list(store.remove(("a", first), ("a", third))) == [Outcome.DELETED] * 2
        assert store.ids("a") == [second]

    def test_a_marker_is_removed_as_any_version_and_leaves_none(self, store: VersionWorld) -> None:
        version, marker = store.put("a", b"1"), store.hide("a")
        assert list(store.remove(("a", version), ("a", marker))) == [Outcome.DELETED] * 2
        assert store.shown() == []

    def test_removing_what_is_gone_is_no_failure_and_writes_no_marker(
        self, store: VersionWorld
    ) -> None:
        version = store.put("a", b"1")
        store.put("b", b"1")
        assert list(store.remove(("a", version))) == [Outcome.DELETED]
        (again,) = store.remove(("a", version))
        assert again in (Outcome.DELETED, Outcome.ABSENT)
        assert [entry.item.key for entry in store.shown()] == ["b"]

    def test_many_versions_of_one_key_go_in_one_call(self, store: VersionWorld) -> None:
        ids = [store.put("a", b"%d" % n) for n in range(30)]
        assert set(store.remove(*(("a", id_) for id_ in ids[:-1]))) == {Outcome.DELETED}
        assert store.ids("a") == ids[-1:]

    def test_a_look_tells_what_is_there_and_what_lies_under_it(self, store: VersionWorld) -> None:
        old, new = store.put("a", b"1"), store.put("a", b"2")
        alone = store.put("b", b"1")
        many = [(f"k/{n:02d}", store.put(f"k/{n:02d}", b"x")) for n in range(20)]
        wanted = [("a", old), ("a", new), ("b", alone), ("c", old), *many, (many[0][0], old)]
        looks = store.versions.look_at(store.bucket, wanted)
        assert set(looks) == set(wanted)

        def version(key: str, id_: str) -> Version:
            look = looks[key, id_]
            assert isinstance(look, Listed)
            assert look.version is not None
            return look.version

        assert version("a", new).last_to_go
        assert not version("a", old).last_to_go
        assert not version("b", alone).last_to_go
        assert all(not version(*one).last_to_go for one in many)
        assert looks["c", old] is None
        assert looks[many[0][0], old] is None

    def test_hiding_leaves_one_marker_however_often_it_is_asked_for(
        self, store: VersionWorld
    ) -> None:
        version = store.put("a", b"1")
        (item,) = store.lister.page(store.bucket, "", EVERYTHING).items
        target = Target(item.key, item.etag, item.last_modified, hides=True)
        outcomes = [store.deleter.delete(store.bucket, [target])[0] for _ in range(3)]
        assert outcomes == [Outcome.DELETED, Outcome.ABSENT, Outcome.ABSENT]
        assert len(store.ids("a")) == 2
        assert version in store.ids("a")

    def test_a_marker_that_nobody_meant_is_a_failure_of_the_whole_source(
        self, store: VersionWorld
    ) -> None:
        store.put("a", b"1")
        (item,) = store.lister.page(store.bucket, "", EVERYTHING).items
        target = Target(item.key, item.etag, item.last_modified)
        (result,) = store.deleter.delete(store.bucket, [target])
        assert isinstance(result, Failure)
        assert result.whole_source
