"""What a process says of how things stand: status, the ledger's size, measures."""

from collections.abc import Mapping, Sequence
from typing import Any

from bestbefore.app.system import System
from bestbefore.domain.throttle import Window
from bestbefore.read.documents import Document
from bestbefore.read.measures import Measure
from bestbefore.read.measures import measures as all_measures
from bestbefore.read.redaction import redacted
from bestbefore.read.state import state_document
from bestbefore.read.status import status_document


def status(system: System) -> Document:
    """Is cleanup keeping up, and what stands in its way?"""
    return status_document(
        system.settings.policies,
        system.records,
        system.controls,
        system.calendar,
        system.holds,
        system.throttles,
        _windows(system),
        system.schedule.slots,
        system.strays.count(),
        {"kind": system.settings.queue.kind, "sent": system.outbox.sent()},
        state(system),
        system.clock.now(),
    )


def state(system: System) -> Document:
    """How large the ledger is, and what upkeep did about it."""
    settings = system.settings
    return state_document(
        system.upkeep_ledger, settings.state.keep, settings.evidence, system.clock.now()
    )


def measures(system: System, missed: Mapping[str, int]) -> Sequence[Measure]:
    """Everything there is to scrape. *missed* is how many slots of each policy nobody
    answered."""
    now, keep = system.clock.now(), system.settings.state.keep
    before = None if keep is None else keep.before(now)
    return all_measures(
        system.settings.policies,
        system.measuring,
        system.controls,
        system.throttles,
        system.upkeep_ledger.describe(before, now),
        missed,
        system.strays.count(),
        now,
    )


def shown(system: System, document: Any) -> Any:
    """*document* as the API and the dashboard may show it: `[serve] redact_keys` decides."""
    return redacted(document) if system.settings.serve.redact_keys else document


def _windows(system: System) -> Mapping[str, Window]:
    """When work may be begun, by the name of a database; without those that have no window."""
    databases = system.settings.databases
    return {name: of.window for name, of in databases.items() if of.window is not None}
