"""What every store of files, and every format of them, has to do. To run the suites over one::

class TestMyStore(FileStoreContract):
    @pytest.fixture
    def there(self) -> FileWorld: ...  # one empty bucket


class TestMyFormat(RowFormatContract):
    @pytest.fixture
    def form(self) -> RowFormat: ...
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Level
from bestbefore.domain.row_file import Cell, CellKind, FileColumn, RowFile, written
from bestbefore.ports.files import FileStore, RowFormat
from bestbefore.ports.objects import StoreError


@dataclass(frozen=True, slots=True)
class FileWorld:
    """A store with one empty *bucket*. *keys* lists everything in it, as somebody else sees it."""

    store: FileStore
    bucket: str
    keys: Callable[[], set[str]]
    missing_bucket: str = "bestbefore-no-such-bucket"

    def put(self, key: str, body: bytes) -> None:
        self.store.put(self.bucket, key, body)

    def get(self, key: str) -> bytes | None:
        return self.store.get(self.bucket, key)


class FileStoreContract:
    """Inherit, and give a ``there`` fixture of type `FileWorld`."""

    @pytest.mark.parametrize("size", [0, 1, 300_000, 9_000_000])
    def test_a_file_comes_back_to_the_byte(self, there: FileWorld, size: int) -> None:
        body = (bytes(range(256)) * (size // 256 + 1))[:size]
        there.put("rows.jsonl", body)
        assert there.get("rows.jsonl") == body
        assert there.keys() == {"rows.jsonl"}

    @pytest.mark.parametrize("key", ["a/b/c d.jsonl", "größe/\U0001f600.jsonl", "q?x=1#y+%2B"])
    def test_keys_are_taken_as_they_are(self, there: FileWorld, key: str) -> None:
        there.put(key, b"1")
        there.put(key.replace("a/b", "a/c"), b"1")
        assert there.get(key) == b"1"
        assert there.keys() == {key, key.replace("a/b", "a/c")}

    def test_a_file_that_is_not_there_is_none(self, there: FileWorld) -> None:
        there.put("a/b.jsonl", b"1")
        assert there.get("a/c.jsonl") is None
        assert there.get("c/b.jsonl") is None
        assert there.get("a") is None

    def test_a_repeat_writes_over_what_is_there(self, there: FileWorld) -> None:
        there.put("a.jsonl", b"a longer one")
        there.put("a.jsonl", b"short")
        assert there.get("a.jsonl") == b"short"
        assert there.keys() == {"a.jsonl"}

    def test_who_reads_meanwhile_never_sees_half_a_file(self, there: FileWorld) -> None:
        bodies = [b"a" * 400_000, b"b" * 500_000]
        there.put("a.jsonl", bodies[0])
        ended = threading.Event()

        def write() -> None:
            for n in range(10):
                there.put("a.jsonl", bodies[n % 2])
            ended.set()

        with ThreadPoolExecutor(1) as thread:
            writer = thread.submit(write)
            while not ended.is_set() and not writer.done():
                assert there.get("a.jsonl") in bodies
            writer.result()

    def test_two_writers_leave_one_whole_file(self, there: FileWorld) -> None:
        bodies = [bytes([n]) * 200_000 for n in range(6)]
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda body: there.put("a/b.jsonl", body), bodies))
        assert there.get("a/b.jsonl") in bodies
        assert there.keys() == {"a/b.jsonl"}

    def test_what_is_removed_is_gone_and_twice_is_harmless(self, there: FileWorld) -> None:
        there.put("a/b.jsonl", b"1")
        there.put("a/c.jsonl", b"1")
        for _ in range(2):
            there.store.remove(there.bucket, "a/b.jsonl")
            assert there.keys() == {"a/c.jsonl"}
        there.store.remove(there.bucket, "z/b.jsonl")

    def test_a_missing_bucket_is_the_fault_of_the_whole_source(self, there: FileWorld) -> None:
        with pytest.raises(StoreError) as put:
            there.store.put(there.missing_bucket, "a", b"1")
        with pytest.raises(StoreError) as get:
            there.store.get(there.missing_bucket, "a")
        for failure in (put.value.failure, get.value.failure):
            assert (failure.failure_class, failure.whole_source) == (FailureClass.MALFORMED, True)

    def test_a_check_writes_nothing(self, there: FileWorld) -> None:
        findings = there.store.check(there.bucket, "rows/")
        assert [finding.level for finding in findings] == [Level.INFO]
        assert there.keys() == set()

    def test_a_check_says_what_is_missing(self, there: FileWorld) -> None:
        findings = there.store.check(there.missing_bucket, "rows/")
        assert all(finding.level in (Level.WARNING, Level.ERROR) for finding in findings)
        assert findings


CELLS: dict[CellKind, list[Cell]] = {
    CellKind.BOOLEAN: [True, False],
    CellKind.INTEGER: [0, -1, 2**53 + 1, -(2**63), 2**64 - 1],
    CellKind.FLOAT: [0.0, -0.0, 1.0, 0.1, 5e-324, 1.7976931348623157e308, float("inf")],
    CellKind.DECIMAL: ["0", "-0.10", "12345678901234567890.12", "NaN"],
    CellKind.INSTANT: [
        "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000001+00:00", "infinity",
        "0044-03-15 00:00:00+00 BC", "12026-01-01 00:00:00+00",
    ],
    CellKind.DATETIME: ["2026-01-01T00:00:00", "1000-01-01T23:59:59.999999",
                        "0000-00-00 00:00:00"],
    CellKind.DATE: ["2026-01-01", "0001-01-01", "-infinity"],
    CellKind.BYTES: [b"", b"\x00\xff", bytes(range(256))],
    CellKind.TEXT: ["", "null", "größe \U0001f600", "a\nb\r\n\t\x01\u2028\\\"", '{"a": 1.0}'],
}  # fmt: skip
TYPES = {CellKind.DECIMAL: "numeric(30,2)"}


def a_file(columns: dict[str, tuple[CellKind, list[Cell]]]) -> RowFile:
    """A file with these columns, the shorter ones filled up with NULL."""
    longest = max(len(cells) for _, cells in columns.values())
    filled = [(cells + [None] * longest)[:longest] for _, cells in columns.values()]
    rows = list(zip(*filled, strict=True))
    described = tuple(
        FileColumn(name, kind, TYPES.get(kind, "of the database"))
        for name, (kind, _) in columns.items()
    )
    return RowFile(bytes(range(32)), "p", "v1", '"S"."a table"', described, rows)


def cells(file: RowFile) -> list[list[str]]:
    """The values of *file* so that 1, 1.0 and True are not the same."""
    return [[written(cell) for cell in row] for row in file.rows]


class RowFormatContract:
    """Inherit, and give a ``form`` fixture."""

    @pytest.mark.parametrize("kind", CellKind)
    def test_every_value_comes_back_exactly(self, form: RowFormat, kind: CellKind) -> None:
        alone: list[list[Cell]] = [[value] for value in [*CELLS[kind], None]]
        for values in [CELLS[kind], CELLS[kind][:2], *alone]:
            ids: list[Cell] = [*range(len(values))]
            file = a_file({"id": (CellKind.INTEGER, ids), "v": (kind, values)})
            back = form.decode(form.encode(file))
            assert cells(back) == cells(file)
            assert replace(back, rows=()) == replace(file, rows=())
            assert back.digest == file.digest

    def test_values_of_a_type_that_is_not_their_columns_come_back_too(
        self, form: RowFormat
    ) -> None:
        """SQLite keeps them so."""
        mixed: list[Cell] = [1, 1.0, "1", b"1", None, "", float("nan")]
        for kind in CellKind:
            file = a_file({"v": (kind, mixed)})
            assert cells(form.decode(form.encode(file))) == cells(file)

    def test_odd_names_of_columns_come_back(self, form: RowFormat) -> None:
        names = ["Id", "id", "a b", '"', "größe", "bestbefore", "columns", "0"]
        file = a_file({name: (CellKind.TEXT, [name]) for name in names})
        back = form.decode(form.encode(file))
        assert [column.name for column in back.columns] == names
        assert cells(back) == cells(file)

    def test_the_same_rows_make_the_same_file(self, form: RowFormat) -> None:
        columns = {kind.value: (kind, values) for kind, values in CELLS.items()}
        assert form.encode(a_file(columns)) == form.encode(a_file(columns))

    def test_a_file_that_was_cut_off_is_none(self, form: RowFormat) -> None:
        body = form.encode(a_file({"v": (CellKind.TEXT, ["a", "b", "c"])}))
        for length in (0, 1, len(body) // 2, len(body) - 1):
            with pytest.raises(ValueError, match=r"."):
                form.decode(body[:length])

    def test_a_value_that_was_changed_shows(self, form: RowFormat) -> None:
        body = form.encode(a_file({"v": (CellKind.TEXT, ["unmistakable"])}))
        assert b"unmistakable" in body
        with pytest.raises(ValueError, match=r"."):
            form.decode(body.replace(b"unmistakable", b"unmistakeable"))
        with pytest.raises(ValueError, match=r"."):
            form.decode(body.replace(b"unmistakable", b"unmistakabl3"))

    @pytest.mark.parametrize(
        "body", [b"{}\n", b"[]\n", b"null\n", b'{"bestbefore": {}}\n', b"\xff"]
    )
    def test_a_file_of_somebody_else_is_none(self, form: RowFormat, body: bytes) -> None:
        with pytest.raises(ValueError, match=r"."):
            form.decode(body + b"\n")
