"""What every adapter that copies objects has to do. To run it over one::

class TestMyStore(ObjectCopierContract):
    @pytest.fixture
    def copying(self) -> CopyingWorld: ...  # two empty buckets of one endpoint
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import pytest

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Level
from bestbefore.ports.objects import (
    Copy,
    KeyRange,
    NotCopied,
    ObjectCopier,
    ObjectLister,
    Original,
)

ODD = ("a b+c%2B", "new\nline", "control\x01\x10", "größe/\U0001f600", "q?versionId=1#y", "<&>'\"")


class Described(NamedTuple):
    """An object with what has to go along with its bytes."""

    body: bytes
    content_type: str
    metadata: Mapping[str, str]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CopyingWorld:
    """Two buckets of one endpoint: originals are put into *bucket*, copies go to *to*.

    *in_parts* copies everything of 5 MiB and more in parts of that size. *put* and *get* write and
    read objects as somebody else would; *remove* deletes one.
    """

    lister: ObjectLister
    copier: ObjectCopier
    in_parts: ObjectCopier
    put: Callable[[str, str, Described], object]
    get: Callable[[str, str], Described]
    remove: Callable[[str, str], object]
    bucket: str
    to: str
    missing_bucket: str = "bestbefore-no-such-bucket"

    def original(self, key: str, copy_key: str | None = None) -> Original:
        """The object *key* as a listing shows it now."""
        rest: KeyRange | None = KeyRange(None, None)
        while rest is not None:
            page = self.lister.page(self.bucket, "", rest)
            for item in page.items:
                if item.key == key:
                    return Original(
                        key, item.etag, item.last_modified, item.size, copy_key or f"copy/{key}"
                    )
            rest = page.rest
        raise LookupError(key)

    def copy(
        self, *originals: Original, overwrite: bool = True, in_parts: bool = False
    ) -> Sequence[Copy | NotCopied | Failure]:
        copier = self.in_parts if in_parts else self.copier
        return copier.copy(self.bucket, self.to, originals, overwrite=overwrite)

    def keys(self, bucket: str) -> set[str]:
        return {item.key for item in self.lister.page(bucket, "", KeyRange(None, None)).items}


SMALL = Described(b"small", "application/json", {"who": "me"}, {"team": "growth", "a b": "c+d"})
LARGE = Described(bytes(range(256)) * (11 * 4096), "text/x-large", {"who": "me"}, {"team": "g"})


class ObjectCopierContract:
    """Inherit, and give a ``copying`` fixture of type `CopyingWorld`."""

    @pytest.mark.parametrize("object_", [SMALL, LARGE], ids=["at once", "in parts"])
    def test_a_copy_has_content_metadata_and_tags_of_its_original(
        self, copying: CopyingWorld, object_: Described
    ) -> None:
        copying.put(copying.bucket, "a", object_)
        original = copying.original("a")
        (copy,) = copying.copy(original, in_parts=True)
        assert isinstance(copy, Copy)
        assert copy.key == "copy/a"
        assert copying.get(copying.to, "copy/a") == object_
        looked = copying.lister.look(copying.to, ["copy/a"])["copy/a"]
        assert looked is not None
        assert not isinstance(looked, Failure)
        assert looked.etag == copy.etag
        assert copying.get(copying.bucket, "a") == object_

    def test_odd_keys_are_copied_to_the_byte(self, copying: CopyingWorld) -> None:
        for key in ODD:
            copying.put(copying.bucket, key, SMALL._replace(body=key.encode()))
        ends = copying.copy(*(copying.original(key) for key in ODD))
        assert all(isinstance(end, Copy) for end in ends)
        for key in ODD:
            assert copying.get(copying.to, f"copy/{key}").body == key.encode()
        assert copying.keys(copying.to) == {f"copy/{key}" for key in ODD}

    def test_copying_again_leaves_one_copy(self, copying: CopyingWorld) -> None:
        copying.put(copying.bucket, "a", SMALL)
        original = copying.original("a")
        assert copying.copy(original) == copying.copy(original)
        assert copying.keys(copying.to) == {"copy/a"}

    @pytest.mark.parametrize("object_", [SMALL, LARGE], ids=["at once", "in parts"])
    def test_what_was_overwritten_is_not_copied(
        self, copying: CopyingWorld, object_: Described
    ) -> None:
        copying.put(copying.bucket, "a", object_)
        original = copying.original("a")
        copying.put(copying.bucket, "a", object_._replace(body=object_.body[::-1]))
        assert copying.copy(original, in_parts=True) == [NotCopied.CHANGED]
        assert copying.keys(copying.to) == set()

    @pytest.mark.parametrize("object_", [SMALL, LARGE], ids=["at once", "in parts"])
    def test_what_is_gone_is_gone(self, copying: CopyingWorld, object_: Described) -> None:
        copying.put(copying.bucket, "a", object_)
        original = copying.original("a")
        copying.remove(copying.bucket, "a")
        assert copying.copy(original, in_parts=True) == [NotCopied.GONE]
        assert copying.keys(copying.to) == set()

    @pytest.mark.parametrize("object_", [SMALL, LARGE], ids=["at once", "in parts"])
    def test_what_is_under_the_copys_key_stays_if_it_shall(
        self, copying: CopyingWorld, object_: Described
    ) -> None:
        copying.put(copying.bucket, "a", object_)
        other = SMALL._replace(body=b"other")
        copying.put(copying.to, "copy/a", other)
        original = copying.original("a")
        ends = copying.copy(original, overwrite=False, in_parts=True)
        assert ends == [NotCopied.OCCUPIED]
        assert copying.get(copying.to, "copy/a") == other
        copying.remove(copying.to, "copy/a")
        (end,) = copying.copy(original, overwrite=False, in_parts=True)
        assert isinstance(end, Copy)
        assert copying.get(copying.to, "copy/a") == object_

    def test_results_come_in_the_order_of_their_originals(self, copying: CopyingWorld) -> None:
        for key in ("changed", "copied", "gone"):
            copying.put(copying.bucket, key, SMALL)
        changed, copied, gone = map(copying.original, ("changed", "copied", "gone"))
        copying.remove(copying.bucket, "gone")
        copying.put(copying.bucket, "changed", SMALL._replace(body=b"new"))
        ends = copying.copy(gone, copied, changed)
        assert ends[::2] == [NotCopied.GONE, NotCopied.CHANGED]
        assert isinstance(ends[1], Copy)

    def test_many_are_copied_side_by_side(self, copying: CopyingWorld) -> None:
        keys = [f"{n:03}" for n in range(60)]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda key: copying.put(copying.bucket, key, SMALL), keys))
        page = copying.lister.page(copying.bucket, "", KeyRange(None, None))
        originals = [
            Original(i.key, i.etag, i.last_modified, i.size, f"copy/{i.key}") for i in page.items
        ]
        with ThreadPoolExecutor(4) as threads:
            ends = threads.map(
                lambda part: copying.copy(*part), [originals[n::4] for n in range(4)]
            )
        assert all(isinstance(end, Copy) for part in ends for end in part)
        assert copying.keys(copying.to) == {f"copy/{key}" for key in keys}

    def test_a_missing_bucket_fails_every_copy_and_raises_nothing(
        self, copying: CopyingWorld
    ) -> None:
        copying.put(copying.bucket, "a", SMALL)
        original = copying.original("a")
        (end,) = copying.copier.copy(
            copying.bucket, copying.missing_bucket, [original], overwrite=True
        )
        assert isinstance(end, Failure)

    def test_a_second_younger_object_with_the_same_bytes_is_copied_as_what_it_is(
        self, copying: CopyingWorld
    ) -> None:
        """Identical bytes have one ETag; which of the two it was, only the delete has to know."""
        copying.put(copying.bucket, "a", SMALL)
        original = copying.original("a")
        older = original._replace(last_modified=original.last_modified - timedelta(hours=1))
        (end,) = copying.copy(older)
        assert isinstance(end, Copy)

    def test_nothing_to_copy_is_no_work(self, copying: CopyingWorld) -> None:
        assert list(copying.copy()) == []

    def test_a_check_writes_nothing(self, copying: CopyingWorld) -> None:
        findings = copying.copier.check(copying.bucket, "p/", copying.to, "archive/")
        assert {finding.level for finding in findings} <= {Level.INFO}
        assert copying.keys(copying.to) == set()
