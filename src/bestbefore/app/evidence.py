"""Files of evidence: what upkeep takes out of the ledger, as JSON Lines, compressed by gzip.

A file appears under its name only once it is whole and on disk, and is never changed after that.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from bestbefore.read.documents import Document

SUFFIX = ".jsonl.gz"
_PART = ".part"


class EvidenceError(Exception):
    """A file of evidence cannot be written, or not be believed. The message names it."""


def write(path: Path, documents: Iterable[Document]) -> None:
    """Write *documents*, one a line, and make sure that they are on disk. Raises EvidenceError."""
    part = path.with_name(path.name + _PART)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", filename="") as packed:
                for document in documents:
                    packed.write(json.dumps(document).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        _settle(path)
    except OSError as error:
        discard(path)
        raise EvidenceError(f"{path} cannot be written: {error.strerror}") from error


def read(path: Path) -> Sequence[Document] | None:
    """Every line of the file, checked to its end; None where there is no such file.

    Raises EvidenceError for one that is damaged.
    """
    try:
        with gzip.open(path, "rb") as file:
            documents = [json.loads(line) for line in file]
        _settle(path)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise EvidenceError(f"{path} cannot be read back: {error}") from error
    return documents


def discard(path: Path) -> None:
    """Remove what was written of a file that never became whole."""
    with suppress(OSError):
        path.with_name(path.name + _PART).unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Make sure that the file's name, and those of its two folders, survive a power cut.

    Whoever wrote it may have been killed right before doing that.
    """
    for folder in path.parents[:3]:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
