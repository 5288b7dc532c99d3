"""What every object store adapter has to do. To run it over one::

class TestMyStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectWorld: ...     # an empty bucket, and both sides of the adapter

What a store cannot do is said in its `ObjectWorld`, and is then skipped under that name: nothing
is left out silently. Where it keeps versions, `bestbefore.contracts.versions` as well; where it
copies, or holds files of rows, `bestbefore.contracts.copies` and `bestbefore.contracts.files`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Level
from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import (
    UPLOADS,
    KeyRange,
    ObjectDeleter,
    ObjectLister,
    StoreError,
    Target,
)

EVERYTHING = KeyRange(None, None)

ODD_KEYS = frozenset(
    {
        "a",
        "a.b/c",
        "a+b",
        "a%2Bb c",
        "a-b/c/d",
        "a-b!",
        'quoted "and" <marked> & more',
        "*",
        "[x]?",
        "line\nbreak",
        "tab\tand \x07 bell",
        "größe/normal form",
        "gro\u0308ße/normal form",
        "\U0001f4a9",
        "\uffee",
        "z" * 200 + "/" + "y" * 200,
        "..dots",
        ".hidden/x",
        " blank ",
    }
)
"""Keys that any store can hold, none of them the beginning of another one's folder."""


@dataclass(frozen=True, slots=True)
class ObjectWorld:
    """A store to try: *put* writes an object as somebody else would, *bucket* is empty and
    *missing_bucket* does not exist.

    What it cannot do: ``odd_keys`` leaves out those it cannot hold or list, and *missing_bucket* is
    None where a bucket without objects and none at all are the same.
    """

    lister: ObjectLister
    deleter: ObjectDeleter
    put: Callable[[str, bytes], object]
    bucket: str
    missing_bucket: str | None = "bestbefore-no-such-bucket"
    odd_keys: frozenset[str] = ODD_KEYS

    def listed(self, prefix: str = "", keys: KeyRange = EVERYTHING) -> list[Listed]:
        """Every object of a range, page by page."""
        found: list[Listed] = []
        rest: KeyRange | None = keys
        while rest is not None:
            page = self.lister.page(self.bucket, prefix, rest)
            found += page.items
            rest = page.rest
        return found

    def keys(self, prefix: str = "") -> set[str]:
        return {item.key for item in self.listed(prefix)}

    def targets(self, prefix: str = "") -> list[Target]:
        return [Target(item.key, item.etag, item.last_modified) for item in self.listed(prefix)]

    def delete(self, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        return self.deleter.delete(self.bucket, targets)

    @property
    def no_bucket(self) -> str:
        """A bucket that does not exist; skips the test where there is no such thing."""
        if self.missing_bucket is None:
            pytest.skip("this store cannot tell a missing bucket from an empty one")
        return self.missing_bucket


class ObjectStoreContract:
    """Inherit, and give a ``store`` fixture of type `ObjectWorld`."""

    def test_an_empty_bucket_lists_nothing_and_has_one_range(self, store: ObjectWorld) -> None:
        assert store.listed() == []
        assert list(store.lister.ranges(store.bucket, "", 8)) == [EVERYTHING]

    def test_a_listing_names_key_size_etag_and_an_aware_time(self, store: ObjectWorld) -> None:
        store.put("a/b.json", b"four")
        (item,) = store.listed()
        assert (item.key, item.size) == ("a/b.json", 4)
        assert item.etag
        assert '"' not in item.etag
        assert item.last_modified.utcoffset() == timedelta(0)

    def test_only_the_prefix_is_listed(self, store: ObjectWorld) -> None:
        for key in ("a/1", "a/2", "ab/1", "b"):
            store.put(key, b"x")
        assert store.keys("a/") == {"a/1", "a/2"}

    def test_a_bucket_that_does_not_exist_is_malformed_as_a_whole(self, store: ObjectWorld) -> None:
        for ask in (
            lambda: store.lister.describe(store.no_bucket),
            lambda: store.lister.page(store.no_bucket, "", EVERYTHING),
            lambda: store.lister.ranges(store.no_bucket, "", 4),
        ):
            with pytest.raises(StoreError) as raised:
                ask()
            assert raised.value.failure.failure_class is FailureClass.MALFORMED
            assert raised.value.failure.whole_source
            assert store.no_bucket in raised.value.failure.error

    def test_facts_name_the_endpoint_and_an_unversioned_bucket(self, store: ObjectWorld) -> None:
        facts = store.lister.describe(store.bucket)
        assert facts.endpoint
        assert facts.versioning is None
        assert facts.server_time is None or facts.server_time.utcoffset() == timedelta(0)

    def test_ranges_and_pages_cover_every_key_exactly_once(self, store: ObjectWorld) -> None:
        # Names that come right before and right after a folder of the same beginning.
        wanted = {f"p/{folder}/{n:04d}" for folder in "abc-" for n in range(300)}
        wanted |= {"p/a!", "p/a-1", "p/a0", "p/c.json"}
        wanted |= {f"p/{key}" for key in store.odd_keys if not key.isascii()}
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda key: store.put(key, b"x"), sorted(wanted)))
        ranges = store.lister.ranges(store.bucket, "p/", 4)
        assert ranges[0].after is None
        assert ranges[-1].until is None
        assert all(one.until == following.after for one, following in pairwise(ranges))
        seen = [item.key for keys in ranges for item in store.listed("p/", keys)]
        assert len(seen) == len(wanted)
        assert set(seen) == wanted
        first = store.lister.page(store.bucket, "p/", EVERYTHING)
        assert len(first.items) <= 1_000
        assert first.rest is not None
        assert first.rest.after == first.items[-1].key

    def test_a_listing_goes_on_after_any_key_of_it(self, store: ObjectWorld) -> None:
        for key in store.odd_keys:
            store.put(key, b"x")
        order = [item.key for item in store.listed()]
        assert set(order) ^ store.odd_keys == set()
        for n, key in enumerate(order):
            assert [item.key for item in store.listed("", KeyRange(key, None))] == order[n + 1 :]
            assert [item.key for item in store.listed("", KeyRange(None, key))] == order[: n + 1]

    def test_a_range_may_begin_and_end_at_keys_that_are_not_there(self, store: ObjectWorld) -> None:
        for key in ("b/1", "b/3", "c/1"):
            store.put(key, b"x")
        for after, until, wanted in (
            ("a", "b/2", {"b/1"}),
            ("b/2", "b/9", {"b/3"}),
            ("b/", "c/", {"b/1", "b/3"}),
            ("b/3/x", "d", {"c/1"}),
            ("d", None, set()),
            (None, "a", set()),
        ):
            assert {item.key for item in store.listed("", KeyRange(after, until))} == wanted

    def test_odd_keys_are_listed_looked_at_and_deleted_byte_by_byte(
        self, store: ObjectWorld
    ) -> None:
        for key in store.odd_keys:
            store.put(key, b"x")
        looks = store.lister.look(store.bucket, sorted(store.odd_keys))
        assert {key for key, look in looks.items() if isinstance(look, Listed)} == store.odd_keys
        kept = max(store.odd_keys)
        targets = [target for target in store.targets() if target.key != kept]
        assert set(store.delete(targets)) == {Outcome.DELETED}
        assert store.keys() == {kept}

    def test_a_look_sees_what_a_listing_sees(self, store: ObjectWorld) -> None:
        store.put("a/1", b"four")
        (item,) = store.listed()
        look = store.lister.look(store.bucket, ["a/1"])["a/1"]
        assert isinstance(look, Listed)
        assert look[:3] == item[:3]
        assert instant(look.last_modified) == instant(item.last_modified)

    def test_a_look_into_a_bucket_that_does_not_exist_is_malformed_as_a_whole(
        self, store: ObjectWorld
    ) -> None:
        with pytest.raises(StoreError) as raised:
            store.lister.look(store.no_bucket, ["a"])
        assert raised.value.failure.whole_source

    def test_a_look_tells_what_is_there_and_what_is_not(self, store: ObjectWorld) -> None:
        keys = [f"k/{n:03d}" for n in range(40)]
        for key in keys[::2]:
            store.put(key, b"x")
        looks = store.lister.look(store.bucket, keys)
        assert set(looks) == set(keys)
        for key in keys[1::2]:
            assert looks[key] is None
        for key in keys[::2]:
            look = looks[key]
            assert isinstance(look, Listed)
            assert (look.key, look.size) == (key, 1)

    def test_tags_are_told_or_refused_but_never_made_up(self, store: ObjectWorld) -> None:
        """A store without tags must not say "none": that would select what lacks them."""
        keys = [f"k/{n:02d}" for n in range(40)]
        for key in keys[::2]:
            store.put(key, b"x")
        tags = store.lister.tags(store.bucket, keys)
        assert set(tags) == set(keys)
        assert all(tags[key] == {} or isinstance(tags[key], Failure) for key in keys[::2])
        assert all(tags[key] is None or isinstance(tags[key], Failure) for key in keys[1::2])

    def test_an_upload_that_nobody_began_is_neither_listed_nor_aborted(
        self, store: ObjectWorld
    ) -> None:
        store.put("a/1", b"x")
        page = store.lister.uploads(store.bucket, "a/", UPLOADS)
        assert (list(page.uploads), page.rest) == ([], None)
        assert list(store.deleter.abort(store.bucket, [])) == []

    def test_the_content_of_an_object_is_read_up_to_a_bound(self, store: ObjectWorld) -> None:
        store.put("a/pointer", b"exports/2026-05/")
        store.put("a/empty", b"")
        read = store.lister.content
        assert read(store.bucket, "a/pointer", 1_000) == b"exports/2026-05/"
        assert read(store.bucket, "a/pointer", 7) == b"exports"
        assert read(store.bucket, "a/empty", 10) == b""
        assert read(store.bucket, "a/missing", 10) is None

    def test_what_was_seen_is_deleted(self, store: ObjectWorld) -> None:
        for key in ("a", "b", "c"):
            store.put(key, b"x")
        first, _, third = store.targets()
        assert list(store.delete([third, first])) == [Outcome.DELETED, Outcome.DELETED]
        assert store.keys() == {"b"}

    def test_what_was_overwritten_stays(self, store: ObjectWorld) -> None:
        store.put("a", b"old")
        targets = store.targets()
        store.put("a", b"new")
        assert list(store.delete(targets)) == [Outcome.CHANGED]
        assert store.keys() == {"a"}

    def test_what_is_gone_is_absent_however_often_it_is_deleted(self, store: ObjectWorld) -> None:
        store.put("a", b"x")
        targets = store.targets()
        assert list(store.delete(targets)) == [Outcome.DELETED]
        assert list(store.delete(targets)) == [Outcome.ABSENT]
        assert list(store.delete(targets)) == [Outcome.ABSENT]

    def test_what_was_overwritten_can_be_deleted_as_what_it_is_now(
        self, store: ObjectWorld
    ) -> None:
        store.put("a/b", b"old")
        (before,) = store.targets()
        store.put("a/b", b"new")
        (now,) = store.targets()
        assert now.etag != before.etag
        assert list(store.delete([now])) == [Outcome.DELETED]

    def test_only_the_very_key_is_deleted(self, store: ObjectWorld) -> None:
        store.put("a/b", b"x")
        (target,) = store.targets()
        for near in ("A/b", "a/B", "a", "a/b/c", "a/b "):
            (result,) = store.delete([target._replace(key=near)])
            assert result is Outcome.ABSENT or isinstance(result, Failure), near
        assert store.keys() == {"a/b"}

    def test_deleting_in_a_bucket_that_does_not_exist_is_malformed_as_a_whole(
        self, store: ObjectWorld
    ) -> None:
        store.put("a", b"x")
        (result,) = store.deleter.delete(store.no_bucket, store.targets())
        assert isinstance(result, Failure)
        assert result.failure_class is FailureClass.MALFORMED
        assert result.whole_source

    def test_a_check_says_what_it_found_and_writes_nothing(self, store: ObjectWorld) -> None:
        store.put("a/1", b"x")
        before = store.listed()
        findings = store.deleter.check(store.bucket, "a/")
        assert findings
        assert not [finding for finding in findings if finding.level is Level.ERROR]
        assert store.listed() == before

    def test_results_come_in_the_order_of_their_targets(self, store: ObjectWorld) -> None:
        for key in ("changed", "deleted", "gone"):
            store.put(key, b"x")
        changed, deleted, gone = store.targets()
        store.delete([gone])
        store.put("changed", b"other")
        outcomes = store.delete([gone, changed, deleted])
        assert list(outcomes) == [Outcome.ABSENT, Outcome.CHANGED, Outcome.DELETED]

    def test_an_impossible_key_is_malformed_and_alone(self, store: ObjectWorld) -> None:
        store.put("a", b"x")
        (good,) = store.targets()
        results = store.delete([good._replace(key="k" * 1_025), good, good._replace(key="")])
        assert [
            result.failure_class if isinstance(result, Failure) else result for result in results
        ] == [FailureClass.MALFORMED, Outcome.DELETED, FailureClass.MALFORMED]

    def test_no_targets_are_no_work(self, store: ObjectWorld) -> None:
        assert list(store.delete([])) == []

    def test_many_threads_delete_at_once(self, store: ObjectWorld) -> None:
        keys = [f"t/{n:03d}" for n in range(160)]
        for key in keys:
            store.put(key, b"x")
        targets = store.targets()
        with ThreadPoolExecutor(16) as threads:
            results = threads.map(store.delete, [targets[n::16] for n in range(16)])
        assert {outcome for result in results for outcome in result} == {Outcome.DELETED}
        assert store.keys() == set()
