"""Files of archived rows: where they are kept, and what they look like inside."""

from collections.abc import Sequence
from typing import Protocol

from bestbefore.domain.finding import Finding
from bestbefore.domain.row_file import RowFile


class FileStore(Protocol):
    """Whole files by bucket and key. Methods raise StoreError and nothing else."""

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write *body* under *key*: all of it or nothing, over what may be there.

        Once this returns the file is durable and has been verified: the store's own checksum of
        it, or the file read back, is that of *body*. A missing bucket raises (malformed,
        ``whole_source``). Folders within it are made as needed.
        """
        ...

    def get(self, bucket: str, key: str) -> bytes | None:
        """All of the file *key*, None where there is none."""
        ...

    def remove(self, bucket: str, key: str) -> None:
        """Remove the file *key*. One that is not there is no error."""
        ...

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        """What writing under *prefix* may rely on. Writes nothing, and so cannot tell all."""
        ...


class RowFormat(Protocol):
    """A way to write rows into one file."""

    def encode(self, file: RowFile) -> bytes:
        """*file* as bytes, the same ones for the same file."""
        ...

    def decode(self, body: bytes) -> RowFile:
        """The file that *body* is: exactly what was encoded, value by value.

        Raises ValueError where it is none, or where count or checksum of its rows are not what
        it says itself.
        """
        ...
