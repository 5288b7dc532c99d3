"""Writing evidence into one file."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Kind(StrEnum):
    """What a column holds. Any of them may be null."""

    TEXT = "text"
    NUMBER = "number"  # a whole one
    FLAG = "flag"
    INSTANT = "instant"  # in a document, ``YYYY-MM-DDTHH:MM:SSZ``
    JSON = "json"  # in a document, a list or an object


class EvidenceColumn(NamedTuple):
    """One field of every document, and one column of a file."""

    name: str
    kind: Kind


class EvidenceFile(Protocol):
    """A kind of file."""

    def write(
        self,
        path: Path,
        columns: Sequence[EvidenceColumn],
        documents: Iterable[Mapping[str, Any]],
    ) -> int:
        """Write *documents* to *path*, in bounded memory; returns how many there were.

        The file appears under its name only once it is whole. Raises OSError.
        """
        ...
