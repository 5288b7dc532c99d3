"""Deleting what batches of one cutoff select, put together once and not for every batch."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import RowBatch


class Deletion:
    """All rows of a target between two ends go, as far as they are eligible. The ends are
    parameters: ``statement`` is executed with `ends` of the batch that it is about."""

    def __init__(self, target: Target, cutoff: datetime) -> None:
        places = range(len(target.along))
        first, last = (
            target.typed([sa.bindparam(f"{end}_{place}") for place in places])
            for end in ("first", "last")
        )
        self._target = target
        self.statement = sa.delete(target.table).where(
            target.dialect.at_least(target.along, first, strictly=False),
            target.dialect.at_most(target.along, last, strictly=False),
            target.eligible(cutoff),
        )

    def ends(self, batch: RowBatch) -> Mapping[str, Any]:
        """The parameters for *batch*."""
        return {
            f"{end}_{place}": value
            for end, said in (("first", batch.first), ("last", batch.last))
            for place, value in enumerate(self._target.natives(said))
        }
