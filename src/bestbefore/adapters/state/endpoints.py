"""Findings about endpoints, beside the ledger."""

import logging
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, micros, moment
from bestbefore.adapters.state.schema import endpoints
from bestbefore.ports.endpoints import Learnt
from bestbefore.ports.ledger import LedgerError

log = logging.getLogger(__name__)


class SqlEndpointMemory:
    """`bestbefore.ports.endpoints.EndpointMemory` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def recall(self, endpoint: str, since: datetime) -> Sequence[Learnt]:
        mine = endpoints.c.endpoint == endpoint
        try:
            with self._db.read() as connection:
                found = connection.execute(
                    sa.select(endpoints).where(mine, endpoints.c.learnt_at >= micros(since))
                ).fetchall()
        except LedgerError as error:
            log.warning("what is known of %s could not be read: %s", endpoint, error)
            return []
        return [
            Learnt(row.bucket, row.capability, row.value, row.server, moment(row.learnt_at))
            for row in found
        ]

    def remember(self, endpoint: str, learnt: Learnt) -> None:
        values = {
            "value": learnt.value,
            "server": learnt.server,
            "learnt_at": micros(learnt.learnt_at),
        }
        self._write(
            endpoint,
            self._db.insert(endpoints)
            .values(endpoint=endpoint, bucket=learnt.bucket, capability=learnt.capability, **values)
            .on_conflict_do_update(
                index_elements=["endpoint", "bucket", "capability"], set_=values
            ),
        )

    def forget(self, endpoint: str) -> None:
        self._write(endpoint, sa.delete(endpoints).where(endpoints.c.endpoint == endpoint))

    def _write(self, endpoint: str, statement: sa.Executable) -> None:
        try:
            with self._db.write() as connection:
                connection.execute(statement)
        except LedgerError as error:
            log.warning("what was learnt of %s could not be kept: %s", endpoint, error)
