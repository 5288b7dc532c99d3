"""How the gate ended, in the state database."""

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import gate_runs
from bestbefore.ports.gates import GateRun


# A run that is there twice says the same twice.
@replays("remember")
class SqlGates:
    """`bestbefore.ports.gates.Gates` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def remember(self, run: GateRun) -> None:
        with self._db.write() as connection:
            connection.execute(sa.insert(gate_runs), run._asdict() | {"at": micros(run.at)})

    def newest(self, connections: bytes) -> GateRun | None:
        return self._newest(gate_runs.c.connections == connections)

    def newest_passed(self, connections: bytes) -> GateRun | None:
        return self._newest(
            gate_runs.c.connections == connections,
            gate_runs.c.passed > 0,
            gate_runs.c.failed == 0,
        )

    def _newest(self, *conditions: sa.ColumnElement[bool]) -> GateRun | None:
        columns = [gate_runs.c[name] for name in GateRun._fields]
        asked = sa.select(*columns).where(*conditions).order_by(gate_runs.c.id.desc()).limit(1)
        with self._db.read() as connection:
            row = connection.execute(asked).one_or_none()
        if row is None:
            return None
        return GateRun(**row._mapping)._replace(
            connections=bytes(row.connections), at=moment(row.at)
        )
