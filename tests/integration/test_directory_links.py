"""A directory store never leaves its root: neither by links, nor by folders swapped for them."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bestbefore.contracts.objects import EVERYTHING, ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import StoreError
from support.directory import BUCKET, directory, in_namespace, mounting, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> ObjectWorld:
    return directory(root)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is nobody's business."""
    put(tmp_path / "outside", "a.json", b"precious")
    return tmp_path / "outside"


def test_links_are_not_listed_not_found_and_not_deleted(
    store: ObjectWorld, root: Path, outside: Path
) -> None:
    store.put("own.json", b"x")
    (target,) = store.targets()
    for name, leads_to in (("file", outside / "a.json"), ("folder", outside), ("lost", "nowhere")):
        (root / BUCKET / name).symlink_to(leads_to)
    (root / BUCKET / "up").symlink_to("..")
    assert store.keys() == {"own.json"}
    keys = ["file", "folder", "lost", "folder/a.json", "up/bucket/own.json"]
    assert set(store.lister.look(BUCKET, keys).values()) == {None}
    results = store.delete([target._replace(key=key) for key in keys])
    assert set(results) == {Outcome.ABSENT}
    assert (outside / "a.json").exists()
    assert len(list((root / BUCKET).iterdir())) == 5


def test_pipes_sockets_and_folders_are_no_objects(store: ObjectWorld, root: Path) -> None:
    os.mkfifo(root / BUCKET / "pipe")
    (root / BUCKET / "empty").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / BUCKET / "socket"))
        assert store.listed() == []
        looks = store.lister.look(BUCKET, ["pipe", "empty", "socket", "pipe/x"])
    assert set(looks.values()) == {None}


def test_a_bucket_that_is_a_link_is_refused(store: ObjectWorld, root: Path, outside: Path) -> None:
    (root / "linked").symlink_to(outside)
    for ask in (
        lambda: store.lister.describe("linked"),
        lambda: store.lister.page("linked", "", EVERYTHING),
        lambda: store.lister.look("linked", ["a.json"]),
    ):
        with pytest.raises(StoreError, match="a link to one is not followed") as raised:
            ask()
        assert raised.value.failure.whole_source


def test_the_way_to_the_root_may_be_a_link_as_operators_have_them(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    store = directory(tmp_path / "data")
    store.put("a", b"x")
    assert list(store.delete(store.targets())) == [Outcome.DELETED]


@pytest.mark.parametrize("name", ["", ".", "..", "../outside", "bucket/a", "/etc", "a\0b"])
def test_a_bucket_is_a_folder_right_in_the_root_and_nothing_else(
    store: ObjectWorld, name: str
) -> None:
    with pytest.raises(StoreError, match="bare name") as raised:
        store.lister.describe(name)
    assert raised.value.failure.failure_class is FailureClass.MALFORMED
    assert raised.value.failure.whole_source


@pytest.mark.parametrize(
    "key",
    ["../outside/a.json", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "a/", "a\0b", ".."],
)
def test_a_key_that_is_no_path_below_the_bucket_is_refused_before_any_call(
    store: ObjectWorld, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"x")
    (target,) = store.targets()

    def never(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any, *rest: Any, **named: Any) -> Any:
            assert path not in (key, *key.split("/")), f"the system was asked for {path!r}"
            return call(path, *rest, **named)

        return asked

    for call in ("open", "stat", "unlink"):
        monkeypatch.setattr(os, call, never(getattr(os, call)))
    looked = store.lister.look(BUCKET, [key])[key]
    (deleted,) = store.delete([target._replace(key=key)])
    for result in (looked, deleted):
        assert isinstance(result, Failure)
        assert result.failure_class is FailureClass.MALFORMED
        assert not result.whole_source


def test_a_pointer_is_read_from_a_file_and_from_nothing_else(
    store: ObjectWorld, root: Path, outside: Path
) -> None:
    (root / BUCKET / "link").symlink_to(outside / "a.json")
    (root / BUCKET / "folder").symlink_to(outside)
    (root / BUCKET / "inner").mkdir()
    os.mkfifo(root / BUCKET / "pipe")
    for key in ("link", "folder/a.json", "inner", "pipe"):
        assert store.lister.content(BUCKET, key, 100) is None
    with pytest.raises(StoreError, match="no part that is empty"):
        store.lister.content(BUCKET, "../../outside/a.json", 100)


@pytest.mark.parametrize("prefix", ["/", "/etc/", "../", "a//", "./a/", "a/./", "a/../a/", "a\0/"])
def test_a_prefix_that_no_key_begins_with_lists_nothing(store: ObjectWorld, prefix: str) -> None:
    store.put("a/b", b"x")
    assert store.listed(prefix) == []
    assert store.lister.ranges(BUCKET, prefix, 4) == [EVERYTHING]


def test_a_folder_swapped_for_a_link_after_the_plan_leads_nowhere(
    store: ObjectWorld, root: Path, outside: Path
) -> None:
    """Even if what the link leads to looks exactly as planned: it is the same file."""
    store.put("d/a.json", b"x")
    targets = store.targets()
    folder = root / BUCKET / "d"
    (outside / "a.json").unlink()
    os.link(folder / "a.json", outside / "a.json")
    folder.rename(root / BUCKET / "moved")
    folder.symlink_to(outside)
    assert list(store.delete(targets)) == [Outcome.ABSENT]
    assert (outside / "a.json").exists()


def test_a_folder_swapped_for_a_link_in_the_very_middle_of_a_delete_leads_nowhere(
    store: ObjectWorld, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("d/a.json", b"x")
    targets = store.targets()
    folder = root / BUCKET / "d"
    (outside / "a.json").unlink()
    os.link(folder / "a.json", outside / "a.json")
    unlink = os.unlink

    def swap_first(name: str, *, dir_fd: int) -> None:
        folder.rename(root / BUCKET / "moved")
        folder.symlink_to(outside)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", swap_first)
    assert list(store.delete(targets)) == [Outcome.DELETED]
    assert (outside / "a.json").exists()
    assert not (root / BUCKET / "moved" / "a.json").exists()


def test_a_folder_swapped_for_a_link_in_the_middle_of_a_listing_leads_nowhere(
    store: ObjectWorld, root: Path, outside: Path
) -> None:
    for n in range(1_001):
        store.put(f"d/{n:04}", b"x")
    put(outside, "1000", b"not ours")
    first = store.lister.page(BUCKET, "", EVERYTHING)
    assert first.rest is not None
    (root / BUCKET / "d").rename(root / "moved")
    (root / BUCKET / "d").symlink_to(outside)
    assert store.listed("", first.rest) == []


def test_another_file_system_mounted_inside_a_bucket_is_not_entered(
    store: ObjectWorld, root: Path
) -> None:
    """It is not what a run remembers as its place, and may be unmounted tomorrow."""
    store.put("own.json", b"x")
    inner = root / BUCKET / "mounted"
    inner.mkdir()
    said = in_namespace(
        root,
        mounting(f"mount -t tmpfs tmpfs {inner}")
        + f"""
from pathlib import Path
from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.ports.objects import KeyRange
(Path({str(inner)!r}) / "other.json").write_bytes(b"x")
lister = DirectoryLister(Path({str(root)!r}))
print([item.key for item in lister.page("bucket", "", KeyRange(None, None)).items])
print(lister.look("bucket", ["mounted/other.json"]))
print([f.message for f in DirectoryDeleter(Path({str(root)!r})).check("bucket", "")])
""",
    )
    keys, look, findings = said.splitlines()
    assert keys == "['own.json']"
    assert look == "{'mounted/other.json': None}"
    assert f"other file systems: 1 ({inner})" in findings
