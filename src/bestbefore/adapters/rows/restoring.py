"""The side that brings archived rows back. One batch is one transaction."""

from collections.abc import Callable
from dataclasses import replace

import sqlalchemy as sa

from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.table import reflect
from bestbefore.adapters.rows.unarchiving import Unarchiving
from bestbefore.adapters.rows.unfiling import Unfiling
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.row_file import RowFile
from bestbefore.domain.rows import RowBatch, RowSource
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import Returned, TableRefused


class SqlRowRestorer:
    """`bestbefore.ports.rows.RowRestorer` on any of the databases."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def from_table(
        self,
        source: RowSource,
        operation_id: bytes,
        batch: RowBatch,
        archived: int,
        *,
        dry_run: bool,
    ) -> Returned | Failure:
        """See `RowRestorer.from_table`."""

        def act(connection: sa.Connection) -> Returned:
            target = reflect(connection, _place(source), batch.walk)
            if target.archive is None:
                raise TableRefused("its rows were archived to no table")
            rows = Unarchiving(connection, target, target.archive, operation_id, batch)
            return rows.run(archived, dry_run=dry_run)

        return self._never_raising(source, act, dry_run=dry_run)

    def from_file(self, source: RowSource, file: RowFile, *, dry_run: bool) -> Returned | Failure:
        """See `RowRestorer.from_file`."""

        def act(connection: sa.Connection) -> Returned:
            return Unfiling(connection, reflect(connection, _place(source)), file).run(
                dry_run=dry_run
            )

        return self._never_raising(source, act, dry_run=dry_run)

    def close(self) -> None:
        """Close every connection."""
        self._database.dispose()

    def _never_raising(
        self, source: RowSource, act: Callable[[sa.Connection], Returned], *, dry_run: bool
    ) -> Returned | Failure:
        try:
            begun = self._database.reading() if dry_run else self._database.writing()
            with begun as connection:
                return act(connection)
        except StoreError as error:
            return error.failure
        except TableRefused as error:
            return Failure(FailureClass.MALFORMED, f"{source.table}: {error}", whole_source=True)
        except sa.exc.SQLAlchemyError as error:
            return failure_of(error, source.table)


def _place(source: RowSource) -> RowSource:
    """*source* as a place, without what only says which of its rows may go."""
    return replace(source, where=None, dependents=())
