"""How the configuration of databases becomes what workers keep to."""

import secrets
from collections.abc import Mapping
from datetime import timedelta

from bestbefore.adapters import http
from bestbefore.app.settings import DatabaseSettings, ThrottleSettings
from bestbefore.domain.throttle import Limits, Strain, Tempo
from bestbefore.ports.clock import Clock
from bestbefore.ports.rows import RowPressure
from bestbefore.ports.throttle import Throttles
from bestbefore.stages.door import Bounds
from bestbefore.stages.throttle import Gate
from bestbefore.stages.watch import Watch


def gate(
    throttles: Throttles,
    databases: Mapping[str, DatabaseSettings],
    clock: Clock,
    holder: str,
    lease: timedelta,
    threads: int,
) -> Gate:
    """The gate of one worker; *holder* is made unique. Nothing is connected before it is asked."""
    bounds = {name: _bounds(settings, clock) for name, settings in databases.items()}
    return Gate(throttles, bounds, f"{holder}:{secrets.token_hex(4)}", lease, threads)


def _bounds(settings: DatabaseSettings, clock: Clock) -> Bounds:
    watch = None
    if settings.throttle != ThrottleSettings():
        strains = Strains(settings)
        watch = Watch(strains.ask, clock, strains.close)
    tempo = Tempo(settings.rows_per_second, settings.pause)
    return Bounds(settings.max_concurrency, tempo, settings.window, watch)


class Strains:
    """What may speak against work on one database, as its ``throttle`` says."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._url = settings.url
        self._http = settings.throttle.http
        asked = settings.throttle
        self._limits = Limits(asked.replica_lag, asked.lock_wait, asked.sql)
        self._pressure: RowPressure | None = None

    def ask(self) -> Strain | None:
        """The first that does right now. Raises ImportError where the driver is absent."""
        strain = self._asked().strain(self._limits) if self._limits != Limits() else None
        if strain is None and self._http is not None:
            strain = http.strain(self._http)
        return strain

    def close(self) -> None:
        """Close every connection."""
        if self._pressure is not None:
            self._pressure.close()

    def _asked(self) -> RowPressure:
        if self._pressure is None:
            # Imported here: the driver is an extra.
            from bestbefore.adapters.rows.pressure import SqlPressure

            self._pressure = SqlPressure(self._url)
        return self._pressure
