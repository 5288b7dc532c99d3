"""What a person is shown of a run before it is released."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from bestbefore.domain.prefixes import PrefixCounts
from bestbefore.domain.preview import Preview, Selected
from bestbefore.domain.run import Run


class Previews(Protocol):
    """The previews of one ledger."""

    def selected(self, run: Run) -> Iterator[Selected]:
        """Every target of *run* that waits to be released, in the order they were planned.

        Read in pages, so that memory stays flat and nothing is locked.
        """
        ...

    def stays(self, run: Run) -> Mapping[str, PrefixCounts]:
        """What the scan of *run* left where it is, by reason. Of a table there is nothing here."""
        ...

    def keep(self, run: Run, preview: Preview) -> bool:
        """Store *preview* with *run*, which has to be parked still; returns whether it was."""
        ...

    def find(self, run: Run) -> Preview | None:
        """The preview that was stored with *run*, if any."""
        ...
