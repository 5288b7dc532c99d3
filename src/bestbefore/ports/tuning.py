"""A copy of a table's shape, filled with made-up rows, to try batch sizes on."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from bestbefore.domain.rows import RowSource


class ScratchRefused(Exception):
    """No copy can be made of this table. The message says what was found and the remedy."""


class Cost(NamedTuple):
    """About how many bytes a copy takes on disk, and how many are written whenever it is filled."""

    disk: int
    filling: int


class ForegroundWriter(Protocol):
    """An application that writes to the current rows of a copy. Can be sent to other processes."""

    def connect(self) -> Callable[[int], float | None]:
        """Open a connection. What comes back makes the write of a number, an update or an insert,
        as a transaction of its own, and returns how many seconds its statement took, COMMIT aside;
        None where the database refused it."""
        ...


class Scratch(Protocol):
    """A copy of a table's shape and its made-up rows, every other one old.

    ``source`` says of the copy what the policy says of the table, as far as that is possible: what
    is not on it stands in ``left_out``. ``url`` is the database that the copy is in, and
    ``old_rows`` how many of its rows are before ``cutoff``.

    Methods raise StoreError where the database cannot answer, and `make` ScratchRefused.
    """

    @property
    def source(self) -> RowSource: ...
    @property
    def url(self) -> str: ...
    @property
    def cutoff(self) -> datetime: ...
    @property
    def old_rows(self) -> int: ...
    @property
    def left_out(self) -> Sequence[str]: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def writer(self) -> ForegroundWriter: ...

    def make(self, between: Callable[[], None]) -> None:
        """Create it, and fill it for the first time. *between* is called every few thousand rows;
        what it raises ends this."""
        ...

    def fill(self) -> None:
        """Have it as it was at first: every row is there, and the database knows it."""
        ...

    def old_left(self) -> int:
        """How many of its old rows are there."""
        ...

    def drop(self) -> None:
        """Remove all that `make` created."""
        ...
