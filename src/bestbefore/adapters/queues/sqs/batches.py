"""Entries by the ten, and no more bytes than a request carries."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MOST_ENTRIES = 10

_Entry = TypeVar("_Entry")


def tens(entries: Sequence[_Entry]) -> list[Sequence[_Entry]]:
    """*entries* in their order, ten at a time."""
    return [entries[n : n + MOST_ENTRIES] for n in range(0, len(entries), MOST_ENTRIES)]


def batches(
    entries: Sequence[_Entry], size: Callable[[_Entry], int], most: int
) -> Iterator[Sequence[_Entry]]:
    """*entries* in their order, at most ten and at most *most* bytes at a time. One that is larger
    stands alone."""
    batch: list[_Entry] = []
    total = 0
    for entry in entries:
        bytes_ = size(entry)
        if batch and (len(batch) == MOST_ENTRIES or total + bytes_ > most):
            yield batch
            batch, total = [], 0
        batch.append(entry)
        total += bytes_
    if batch:
        yield batch
