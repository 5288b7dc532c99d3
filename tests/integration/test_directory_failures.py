"""What goes wrong with files, by class; and that one file's trouble is not its neighbours'."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.contracts.objects import EVERYTHING, ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError
from support.directory import BUCKET, directory, in_namespace, mounting, nobody, open_in

Break = Callable[[int, Callable[[str], bool]], None]


@pytest.fixture
def store(tmp_path: Path) -> ObjectWorld:
    return directory(tmp_path)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let every unlink of a name that is chosen fail with an errno."""
    unlink = os.unlink

    def breaks(number: int, chosen: Callable[[str], bool]) -> None:
        def broken(name: str, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None and chosen(name):
                raise OSError(number, os.strerror(number), name)
            unlink(name, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", broken)

    return breaks


def failure(result: Outcome | Failure) -> Failure:
    assert isinstance(result, Failure)
    return result


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, FailureClass.PERMISSION),
        (errno.EPERM, FailureClass.PERMISSION),
        (errno.EROFS, FailureClass.PERMISSION),
        (errno.EBUSY, FailureClass.TRANSIENT),
        (errno.ETXTBSY, FailureClass.TRANSIENT),
        (errno.ESTALE, FailureClass.TRANSIENT),
        (errno.EIO, FailureClass.TRANSIENT),
        (errno.ENOTCONN, FailureClass.TRANSIENT),
        (errno.ETIMEDOUT, FailureClass.TRANSIENT),
        (errno.EUCLEAN, FailureClass.UNKNOWN),
        (errno.ENOENT, Outcome.ABSENT),
        (errno.EISDIR, Outcome.ABSENT),
    ],
)
def test_what_an_unlink_says_is_the_files_own_result(
    store: ObjectWorld, breaks: Break, number: int, expected: FailureClass | Outcome
) -> None:
    for key in ("d/a", "d/bad", "d/z", "other/a"):
        store.put(key, b"x")
    breaks(number, lambda name: name == "bad")
    first, bad, *others = store.delete(store.targets())
    assert [first, *others] == [Outcome.DELETED] * 3
    if isinstance(expected, Outcome):
        assert bad is expected
    else:
        said = failure(bad)
        assert said.failure_class is expected
        assert f"{BUCKET}/d/bad: " in said.error
        assert errno.errorcode[number] in said.error
        assert not said.whole_source


def test_an_outage_ends_a_batch_before_its_lease_does(
    store: ObjectWorld, breaks: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer costs a timeout for each file that is tried."""
    now = [0.0]
    monkeypatch.setattr("bestbefore.adapters.objects.directory.visits.monotonic", lambda: now[0])
    for n in range(100):
        store.put(f"{n:03}", b"x")
    tried: list[str] = []

    def chosen(name: str) -> bool:
        tried.append(name)
        now[0] += 10.0 * (name > "009")
        return name > "009"

    breaks(errno.ETIMEDOUT, chosen)
    results = store.delete(store.targets())
    assert list(results[:10]) == [Outcome.DELETED] * 10
    assert {failure(result).failure_class for result in results[10:]} == {FailureClass.TRANSIENT}
    assert len(tried) == 12
    assert failure(results[-1]).error.startswith("not tried, as before it ")


def test_bad_files_among_good_ones_are_no_outage(store: ObjectWorld, breaks: Break) -> None:
    for n in range(40):
        store.put(f"{n:03}", b"x")
    breaks(errno.EIO, lambda name: 10 <= int(name) < 26)
    results = store.delete(store.targets())
    assert sum(isinstance(result, Failure) for result in results) == 16
    assert len(store.keys()) == 16


def test_a_file_that_cannot_even_be_looked_at_fails_alone(
    store: ObjectWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inode is damaged, say, and it is the first of its folder."""
    for key in ("d/a", "d/b", "d/c"):
        store.put(key, b"x")
    targets = store.targets()
    stat = os.stat

    def damaged(name: str, **more: Any) -> os.stat_result:
        if name == "a":
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        return stat(name, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", damaged)
        looks = store.lister.look(BUCKET, ["d/a", "d/b", "d/c"])
        results = store.delete(targets)
    assert [type(look) for look in looks.values()] == [Failure, Listed, Listed]
    assert failure(results[0]).failure_class is FailureClass.TRANSIENT
    assert list(results[1:]) == [Outcome.DELETED, Outcome.DELETED]


def test_a_denied_folder_fails_for_its_own_files_only_and_says_what_is_needed(public: Path) -> None:
    store = directory(public)
    for key in ("kept/a", "own/a", "own/b"):
        store.put(key, b"x")
    (public / BUCKET / "own").chmod(0o777)
    (public / BUCKET / "kept").chmod(0o555)
    targets = store.targets()
    with nobody():
        denied, *own = store.delete(targets)
        findings = store.deleter.check(BUCKET, "")
    assert own == [Outcome.DELETED, Outcome.DELETED]
    said = failure(denied)
    assert said.failure_class is FailureClass.PERMISSION
    assert f"{public}/{BUCKET}/kept/a: Permission denied (EACCES)" in said.error
    assert "rights to write to and to search the folder" in said.error
    [finding] = [finding for finding in findings if finding.code == "delete-denied"]
    assert f"{public}/{BUCKET}/kept" in finding.message
    assert finding.remedy


def test_a_folder_with_a_sticky_bit_keeps_what_others_own(public: Path) -> None:
    store = directory(public)
    if os.geteuid() != 0:
        pytest.skip("needs files of another user, which takes root")
    store.put("d/a", b"x")
    (public / BUCKET / "d").chmod(0o1777)
    with nobody():
        (result,) = store.delete(store.targets())
        findings = store.deleter.check(BUCKET, "d/")
    assert failure(result).failure_class is FailureClass.PERMISSION
    assert "sticky bit" in failure(result).error
    assert "sticky-folder" in {finding.code for finding in findings}


def test_a_folder_that_cannot_be_read_fails_the_listing_and_is_not_passed_over(
    public: Path,
) -> None:
    """What is not seen cannot be kept: the newest generation may be in there."""
    store = directory(public)
    for key in ("a/1", "secret/1", "z/1"):
        store.put(key, b"x")
    (public / BUCKET / "secret").chmod(0)
    with nobody():
        with pytest.raises(StoreError) as raised:
            store.listed()
        checked = store.deleter.check(BUCKET, "")
        assert store.keys("a/") == {"a/1"}
    (public / BUCKET / "secret").chmod(0o700)
    assert raised.value.failure.failure_class is FailureClass.PERMISSION
    assert f"{BUCKET}/secret: " in str(raised.value)
    assert "to read and to search" in str(raised.value)
    assert [finding.level for finding in checked] == [Level.ERROR]


def test_a_bucket_nobody_may_enter_stops_the_policy_and_not_each_command(public: Path) -> None:
    store = directory(public)
    store.put("a", b"x")
    targets = store.targets()
    (public / BUCKET).chmod(0)
    with nobody():
        (result,) = store.delete(targets)
    (public / BUCKET).chmod(0o700)
    assert failure(result).failure_class is FailureClass.PERMISSION
    assert failure(result).whole_source


def test_a_root_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    lister = DirectoryLister(tmp_path / "disk")
    with pytest.raises(StoreError, match="is its disk mounted") as raised:
        lister.page(BUCKET, "", EVERYTHING)
    assert raised.value.failure.whole_source
    (tmp_path / "disk").write_text("a file")
    with pytest.raises(StoreError, match="this is no folder"):
        lister.describe(BUCKET)


def test_a_locale_that_garbles_names_is_refused_before_anything_is_planned(
    store: ObjectWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "iso8859-1")
    with pytest.raises(StoreError, match="PYTHONUTF8=1"):
        store.lister.describe(BUCKET)


@pytest.mark.parametrize("call", ["open", "stat", "fstat", "scandir", "fstatvfs"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN])
def test_whichever_call_a_sick_disk_fails_nothing_but_a_failure_comes_out(
    store: ObjectWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    for n in range(20):
        store.put(f"d/{n}", b"x")
    targets = store.targets()
    before = open_in(tmp_path)

    def sick(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for ask in (
        lambda: store.lister.describe(BUCKET),
        lambda: store.lister.ranges(BUCKET, "", 8),
        lambda: store.listed(),
        lambda: list(store.lister.look(BUCKET, ["d/1", "d/2"]).values()),
        lambda: store.delete(targets),
        lambda: store.deleter.check(BUCKET, ""),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, sick)
            try:
                answer = ask()
            except StoreError as error:
                answer = [error.failure]
        for result in answer if isinstance(answer, Sequence) else ():
            if isinstance(result, Failure):
                assert result.failure_class is FailureClass.TRANSIENT
    assert open_in(tmp_path) == before


def test_the_same_folder_without_its_disk_is_another_place(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    directory(root.parent, "disk")
    (root / BUCKET).mkdir()
    before = DirectoryLister(root).describe(BUCKET)
    assert DirectoryLister(root).describe(BUCKET) == before
    said = in_namespace(
        tmp_path,
        mounting(f"mount -t tmpfs tmpfs {root}", f"mkdir {root}/{BUCKET}")
        + f"""
from pathlib import Path
from bestbefore.adapters.objects.directory import DirectoryLister
print(DirectoryLister(Path({str(root)!r})).describe({BUCKET!r}).endpoint)
""",
    )
    assert said.strip() != before.endpoint
    assert said.strip().endswith(f":{root}")


def test_a_read_only_mount_stops_the_policy_and_not_each_command(
    store: ObjectWorld, tmp_path: Path
) -> None:
    store.put("a", b"x")
    store.put("b", b"x")
    said = in_namespace(
        tmp_path,
        mounting(f"mount --bind {tmp_path} {tmp_path}", f"mount -o remount,bind,ro {tmp_path}")
        + f"""
from pathlib import Path
from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.ports.objects import KeyRange, Target
root = Path({str(tmp_path)!r})
items = DirectoryLister(root).page("bucket", "", KeyRange(None, None)).items
deleter = DirectoryDeleter(root)
for result in deleter.delete("bucket", [Target(i.key, i.etag, i.last_modified) for i in items]):
    print(result.failure_class, result.whole_source)
print([finding.code for finding in deleter.check("bucket", "")])
""",
    )
    assert said.splitlines() == ["permission True", "permission True", "['read-only']"]


def test_a_part_that_is_mounted_read_only_fails_for_its_own_files_only(
    store: ObjectWorld, tmp_path: Path
) -> None:
    """As people protect one folder from everybody."""
    store.put("legal/a", b"x")
    store.put("own/a", b"x")
    legal = tmp_path / BUCKET / "legal"
    said = in_namespace(
        tmp_path,
        mounting(f"mount --bind {legal} {legal}", f"mount -o remount,bind,ro {legal}")
        + f"""
from pathlib import Path
from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.ports.objects import KeyRange, Target
root = Path({str(tmp_path)!r})
items = DirectoryLister(root).page("bucket", "", KeyRange(None, None)).items
targets = [Target(i.key, i.etag, i.last_modified) for i in items]
denied, deleted = DirectoryDeleter(root).delete("bucket", targets)
print(denied.failure_class, denied.whole_source, deleted)
""",
    )
    assert said.strip() == "permission False deleted"
    assert store.keys() == {"legal/a"}


def test_a_check_counts_what_is_never_listed(store: ObjectWorld, tmp_path: Path) -> None:
    store.put("d/a", b"x")
    (tmp_path / BUCKET / "d" / "link").symlink_to("a")
    os.mkfifo(tmp_path / BUCKET / "pipe")
    said = {f.message for f in store.deleter.check(BUCKET, "") if f.code == "not-listed"}
    assert said == {
        f"never listed and never deleted: links: 1 ({tmp_path}/{BUCKET}/d/link)",
        f"never listed and never deleted: pipes, sockets or devices: 1 ({tmp_path}/{BUCKET}/pipe)",
    }


def test_a_check_before_the_first_file_says_that_there_is_nothing_yet(store: ObjectWorld) -> None:
    [finding] = store.deleter.check(BUCKET, "exports/")
    assert (finding.code, finding.level) == ("prefix-missing", Level.WARNING)


def test_a_check_of_a_missing_bucket_is_an_error(tmp_path: Path) -> None:
    [finding] = DirectoryDeleter(tmp_path).check("nowhere", "")
    assert finding.level is Level.ERROR
    assert "nowhere" in finding.message
