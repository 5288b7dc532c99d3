"""File systems that ignore case or normal forms: one file never becomes two commands.

A real one is mounted where the kernel has one; elsewhere the system calls are made to behave so.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError
from support.directory import BUCKET, directory, in_namespace

SCRIPT = """
import subprocess, sys
from pathlib import Path
root = Path.cwd()
for mount in (
    "mount -t tmpfs -o casefold tmpfs m",
    "truncate -s 32M disk && mkfs.ext4 -q -O casefold disk && mount -o loop disk m",
):
    tried = subprocess.run(mount, shell=True, capture_output=True, text=True)
    if not tried.returncode:
        break
else:
    sys.exit(print("skip", tried.stderr))
sys.path.insert(0, {tests!r})
from support.directory import directory
from bestbefore.domain.outcome import Outcome
bucket = root / "m" / "store"
bucket.mkdir()
subprocess.run(["chattr", "+F", bucket], check=True)
store = directory(bucket)
{body}
"""


def fold(name: str) -> str:
    return normalize("NFD", normalize("NFD", name).casefold())


@pytest.fixture
def folding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectWorld:
    """A store whose folders find names under any case and normal form, and keep the first."""

    def spelled(name: Any, folder: int | None) -> Any:
        if folder is None or not isinstance(name, str) or name == ".":
            return name
        there = os.listdir(folder)  # noqa: PTH208  (a descriptor)
        same = [other for other in there if fold(other) == fold(name)]
        return name if name in there or not same else same[0]

    def folds(call: Callable[..., Any]) -> Callable[..., Any]:
        def folded(name: Any, *rest: Any, dir_fd: int | None = None, **named: Any) -> Any:
            return call(spelled(name, dir_fd), *rest, dir_fd=dir_fd, **named)

        return folded

    store = directory(tmp_path)
    for call in ("open", "stat", "unlink"):
        monkeypatch.setattr(os, call, folds(getattr(os, call)))
    return store


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("Export.json", "export.JSON"),
        ("Dir/a.json", "dir/a.json"),
        ("größe.json", normalize("NFD", "größe.json")),
        ("GRÖSSE.json", "größe.json"),
        ("ordner-ä/1", normalize("NFD", "ordner-ä/1")),
        ("Dir/1/2", "DIR/1/2"),
    ],
)
def test_a_key_is_what_the_listing_says_and_no_other_spelling(
    folding: ObjectWorld, key: str, other: str
) -> None:
    folding.put(key, b"x")
    (target,) = folding.targets()
    assert target.key == key
    looks = folding.lister.look(BUCKET, [key, other])
    assert isinstance(looks[key], Listed)
    assert looks[other] is None
    assert list(folding.delete([target._replace(key=other)])) == [Outcome.ABSENT]
    assert folding.keys() == {key}
    assert list(folding.delete([target])) == [Outcome.DELETED]


def test_a_prefix_is_taken_as_the_disk_spells_it(folding: ObjectWorld) -> None:
    folding.put("Exports/a.json", b"x")
    assert folding.keys("Exports/") == {"Exports/a.json"}
    assert folding.keys("exports/") == set()


def test_a_bucket_of_another_spelling_is_another_bucket(folding: ObjectWorld) -> None:
    with pytest.raises(StoreError, match="correct its spelling") as raised:
        folding.lister.describe(BUCKET.upper())
    assert raised.value.failure.whole_source


def test_a_batch_of_two_spellings_deletes_what_the_disk_spells(folding: ObjectWorld) -> None:
    for key in ("A", "B", "C"):
        folding.put(key, b"x")
    first, second, third = folding.targets()
    results = folding.delete([first._replace(key="a"), second, third._replace(key="c"), first])
    assert list(results) == [Outcome.ABSENT, Outcome.DELETED, Outcome.ABSENT, Outcome.DELETED]
    assert folding.keys() == {"C"}


def test_on_a_disk_that_tells_spellings_apart_no_folder_is_read_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = directory(tmp_path)
    for key in ("d/Aa", "d/aa", "d/ö"):
        store.put(key, b"x")
    targets = store.targets()

    def never(*_: object) -> Any:
        pytest.fail("a folder was read")

    monkeypatch.setattr(os, "scandir", never)
    assert None not in store.lister.look(BUCKET, ["d/Aa", "d/aa", "d/ö"]).values()
    assert set(store.delete(targets)) == {Outcome.DELETED}


def test_two_names_of_one_file_are_two_keys(tmp_path: Path) -> None:
    """Hard links look like a disk that ignores case; the folder itself says otherwise."""
    store = directory(tmp_path)
    store.put("a", b"x")
    os.link(tmp_path / BUCKET / "a", tmp_path / BUCKET / "A")
    assert store.keys() == {"A", "a"}
    assert list(store.delete(store.targets())) == [Outcome.DELETED, Outcome.DELETED]


def test_a_real_disk_that_ignores_case_and_normal_forms(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    body = """
for key in ("Export.json", "Dir/größe"):
    store.put(key, b"x")
targets = store.targets()
assert store.keys() == {"Export.json", "Dir/größe"}
others = ["export.JSON", "dir/größe", "Dir/GRÖSSE", "Dir/gro\\u0308ße"]
assert set(store.lister.look("bucket", others).values()) == {None}
assert set(store.delete([targets[0]._replace(key=k) for k in others])) == {Outcome.ABSENT}
assert set(store.delete(targets)) == {Outcome.DELETED}
print("done")
"""
    said = in_namespace(
        tmp_path,
        SCRIPT.format(body=body, tests=str(Path(__file__).parents[1])),
    )
    if said.startswith("skip "):
        pytest.skip(f"no case-insensitive file system to mount: {' '.join(said[5:].split())}")
    assert said.strip() == "done"
