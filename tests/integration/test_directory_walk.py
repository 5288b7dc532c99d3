"""A directory's listing: in byte order, resumable anywhere, and never the whole tree in memory."""

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bestbefore.adapters.objects.directory import DirectoryLister
from bestbefore.adapters.objects.directory.files import listed
from bestbefore.adapters.objects.directory.folders import Folder
from bestbefore.contracts.objects import EVERYTHING, ObjectWorld
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.selection import Listed, Selector, Verdict
from bestbefore.ports.objects import KeyRange
from support.directory import BUCKET, OLD, directory, open_in

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> ObjectWorld:
    return directory(tmp_path)


def octets(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


def keys_of(root: Path, keys: KeyRange, prefix: str = "") -> Iterator[str]:
    """The keys of a range as many processes would list it, each of them one page."""
    rest: KeyRange | None = keys
    while rest is not None:
        # What a planner stores between two pages.
        stored = KeyRange(*json.loads(json.dumps(rest)))
        page = DirectoryLister(root).page(BUCKET, prefix, stored)
        yield from (item.key for item in page.items)
        rest = page.rest


def forest(seed: int, files: int) -> list[str]:
    """Keys of a random tree whose names sort in awkward ways, in the order of their bytes."""
    chance = random.Random(seed)
    keys = {
        "/".join(
            ["d" + chance.choice(["", "a", "a-", "a!", "ö", "Z", "z.d", "\n"])]
            * chance.randint(0, 1)
            + ["d" + chance.choice("ab-0é") for _ in range(chance.randint(0, 3))]
            + ["f" + chance.choice(["1", "-", "é", "\udcff", "\U0001f4a9"]) + str(number)]
        )
        for number in range(files)
    }
    return sorted(keys, key=octets)


@pytest.mark.parametrize(("seed", "page", "steps"), [(1, 1000, 10_000), (2, 7, 3), (3, 50, 2)])
def test_any_range_of_any_tree_is_listed_in_byte_order_once(
    store: ObjectWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    page: int,
    steps: int,
) -> None:
    keys = forest(seed, 150)
    for key in keys:
        store.put(key, b"x")
    monkeypatch.setattr("bestbefore.adapters.objects.directory.walk.PAGE", page)
    monkeypatch.setattr("bestbefore.adapters.objects.directory.walk._MOST_STEPS", steps)
    assert [item.key for item in store.listed()] == keys
    chance = random.Random(seed)
    for _ in range(30):
        after, until = (
            chance.choice([None, key, key + "!", key[:-1], key.rpartition("/")[0] + "/"])
            for key in chance.sample(keys, 2)
        )
        prefix = chance.choice(["", "", "d", "da/", "da", "dö/", "no/"])
        wanted = [
            key
            for key in keys
            if key.startswith(prefix)
            and (after is None or octets(key) > octets(after))
            and (until is None or octets(key) <= octets(until))
        ]
        assert list(keys_of(tmp_path, KeyRange(after, until), prefix)) == wanted


@pytest.mark.parametrize("parts", [1, 2, 8])
@pytest.mark.parametrize("prefix", ["", "d", "da/", "dö/d"])
def test_ranges_cover_every_key_once_and_are_not_too_many(
    store: ObjectWorld, parts: int, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestbefore.adapters.objects.directory.splitting.PAGE", 10)
    keys = forest(7, 200)
    for key in keys:
        store.put(key, b"x")
    ranges = store.lister.ranges(BUCKET, prefix, parts)
    assert 1 <= len(ranges) <= 2 * parts
    seen = [item.key for part in ranges for item in store.listed(prefix, part)]
    assert seen == [key for key in keys if key.startswith(prefix)]


def test_a_tree_of_many_folders_is_cut_into_parts_of_like_size(store: ObjectWorld) -> None:
    for year in ("2025", "2026"):
        for month in range(12):
            for n in range(50):
                store.put(f"exports/{year}/{month:02}/{n}", b"x")
    ranges = store.lister.ranges(BUCKET, "exports/", 8)
    sizes = [len(store.listed("exports/", part)) for part in ranges]
    assert sum(sizes) == 1_200
    assert 8 <= len(ranges) <= 16
    assert max(sizes) <= 150


def test_going_on_after_a_key_reads_the_folders_on_its_way_and_no_others(
    store: ObjectWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in range(40):
        for inner in range(3):
            store.put(f"a/{folder:02}/{inner}/file", b"x")
    read: list[str] = []
    names = Folder.names

    def noted(folder: Folder) -> list[str]:
        read.append(folder.path.removeprefix(f"{tmp_path}/{BUCKET}"))
        return names(folder)

    monkeypatch.setattr(Folder, "names", noted)
    page = DirectoryLister(tmp_path).page(BUCKET, "a/", KeyRange("a/38/1/file", None))
    assert [item.key for item in page.items] == [
        "a/38/2/file",
        "a/39/0/file",
        "a/39/1/file",
        "a/39/2/file",
    ]
    assert read == [
        "/a",
        "/a/38",
        "/a/38/1",
        "/a/38/2",
        "/a/39",
        "/a/39/0",
        "/a/39/1",
        "/a/39/2",
    ]


def test_a_large_folder_is_read_once_however_many_pages_it_has(
    store: ObjectWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(55):
        store.put(f"{n:03}", b"x")
    monkeypatch.setattr("bestbefore.adapters.objects.directory.walk.PAGE", 10)
    read: list[str] = []
    names = Folder.names

    def noted(folder: Folder) -> list[str]:
        read.append(folder.path)
        return names(folder)

    monkeypatch.setattr(Folder, "names", noted)
    assert len(store.listed()) == 55
    assert len(read) == 1


def test_between_two_pages_no_folder_is_open(store: ObjectWorld, tmp_path: Path) -> None:
    """Else a disk could not be unmounted, and a dropped listing would never let go."""
    for n in range(1_500):
        store.put(f"a/{n:04}", b"x")
    before = open_in(tmp_path)
    for n in range(5):
        assert store.lister.page(BUCKET, "", KeyRange(f"a/{n:04}", None)).rest
    store.lister.look(BUCKET, ["a/1", "b/1", "a/1/x"])
    store.delete(store.targets()[:10])
    assert open_in(tmp_path) == before


def test_a_tree_deeper_than_open_files_are_allowed_is_walked(
    store: ObjectWorld, tmp_path: Path
) -> None:
    folder = os.open(tmp_path / BUCKET, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    targets = store.targets()
    assert len(targets) == 400
    assert targets[0].key == "d/" * 400 + "f"
    assert set(store.delete(targets)) == {Outcome.DELETED}


def test_a_forest_of_empty_folders_gives_pages_that_are_empty_and_go_on(
    store: ObjectWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page must not take longer than a planner's lease."""
    for n in range(200):
        (tmp_path / BUCKET / f"{n:03}" / "deeper").mkdir(parents=True)
    store.put("zzz", b"x")
    monkeypatch.setattr("bestbefore.adapters.objects.directory.walk._MOST_STEPS", 50)
    page = store.lister.page(BUCKET, "", EVERYTHING)
    assert page.items == []
    assert page.rest is not None
    assert [item.key for item in store.listed("", page.rest)] == ["zzz"]


def test_a_name_that_is_not_utf_8_is_listed_and_refused_and_nobody_else_is(
    store: ObjectWorld, tmp_path: Path
) -> None:
    os.close(os.open(os.fsencode(tmp_path / BUCKET) + b"/caf\xe9.json", os.O_CREAT))
    store.put("café.json", b"x")
    items = store.listed()
    assert [octets(item.key) for item in items] == ["café.json".encode(), b"caf\xe9.json"]
    selector = Selector.of(ObjectSource("s", BUCKET, ""), NOW + timedelta(days=9999), NOW)
    assert [selector.judge(item) for item in items] == [Verdict.ELIGIBLE, Verdict.REFUSED]


def test_what_vanishes_while_it_is_listed_is_just_not_there(
    store: ObjectWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a/1", "a/2", "b/1", "c"):
        store.put(key, b"x")
    monkeypatch.setattr("bestbefore.adapters.objects.directory.walk.PAGE", 1)
    first = store.lister.page(BUCKET, "", EVERYTHING)
    (tmp_path / BUCKET / "a" / "2").unlink()
    (tmp_path / BUCKET / "b" / "1").unlink()
    (tmp_path / BUCKET / "b").rmdir()
    assert first.rest is not None
    assert [item.key for item in store.listed("", first.rest)] == ["c"]


@pytest.mark.parametrize(
    ("modified", "says"),
    [
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), Verdict.ELIGIBLE),
        (datetime(2026, 6, 1, tzinfo=UTC), Verdict.ELIGIBLE),
        (datetime(2026, 6, 30, tzinfo=UTC), Verdict.YOUNG),
        (datetime(2200, 1, 1, tzinfo=UTC), Verdict.FUTURE_DATE),
    ],
)
def test_the_age_is_the_modification_time(
    store: ObjectWorld, tmp_path: Path, modified: datetime, says: Verdict
) -> None:
    store.put("a", b"x")
    microseconds = (modified - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    os.utime(tmp_path / BUCKET / "a", ns=(0, microseconds * 1_000))
    (item,) = store.listed()
    assert item.last_modified == modified
    selector = Selector.of(ObjectSource("s", BUCKET, ""), datetime(2026, 6, 15, tzinfo=UTC), NOW)
    assert selector.judge(item) is says


def test_a_date_that_no_calendar_has_keeps_its_file() -> None:
    item = listed("a", SimpleNamespace(st_ino=7, st_size=4, st_mtime_ns=10**21))
    selector = Selector.of(ObjectSource("s", BUCKET, ""), NOW, NOW)
    assert selector.judge(item) is Verdict.FUTURE_DATE


def test_the_etag_is_inode_size_and_modification_time(store: ObjectWorld, tmp_path: Path) -> None:
    store.put("a", b"four")
    (item,) = store.listed()
    stat = (tmp_path / BUCKET / "a").stat()
    assert item == Listed("a", 4, f"{stat.st_ino}-4-{stat.st_mtime_ns}", OLD)


def test_a_touched_a_rewritten_and_a_swapped_file_stay(store: ObjectWorld, tmp_path: Path) -> None:
    bucket = tmp_path / BUCKET
    for key in ("rewritten", "swapped", "touched", "untouched"):
        store.put(key, b"four")
    targets = store.targets()
    (bucket / "rewritten").write_bytes(b"FOUR")
    os.utime(bucket / "touched", ns=(0, 1_767_225_600_000_000_001))
    store.put("swapped", b"FOUR")  # the same size and time, another inode
    assert list(store.delete(targets)) == [Outcome.CHANGED] * 3 + [Outcome.DELETED]
