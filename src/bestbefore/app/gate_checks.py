"""What a gate is about, and when it last passed for that."""

import json
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from importlib.metadata import version

from bestbefore.app.system import System
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.gates import GateRun
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.transport import TransportFailed
from bestbefore.read.documents import Document, when

_OLD = timedelta(days=90)


def connections(system: System) -> Document:
    """The kinds and places of all that the configuration names, without any secret.

    Raises LedgerError where what the queue needs is not installed.
    """
    settings, broker = system.settings, system.broker
    return {
        "state": {"kind": settings.state.kind, "place": settings.state.place},
        "queue": {
            "kind": settings.queue.kind,
            "place": settings.state.place if broker is None else broker.transport.name,
        },
        "stores": {
            name: {"kind": store.kind, "place": store.place, "buckets": buckets}
            for name, store in settings.stores.items()
            if (buckets := _buckets(system, name))
        },
        "databases": {
            name: {"kind": database.kind, "place": database.place}
            for name, database in settings.databases.items()
        },
    }


def _buckets(system: System, store: str) -> list[str]:
    """The buckets of *store* that policies are about."""
    policies = system.settings.policies.values()
    here = [policy for policy in policies if not policy.about_rows and policy.connection == store]
    return sorted({policy.container for policy in here})


def fingerprint(about: Document) -> bytes:
    """What makes two answers of `connections` the same: names do not, as they may be changed."""
    unnamed = [
        about["state"],
        about["queue"],
        *(
            sorted(json.dumps(one) for one in about[side].values())
            for side in ("stores", "databases")
        ),
    ]
    return sha256(json.dumps(unnamed, sort_keys=True).encode()).digest()


def checked(system: System) -> Iterator[Finding]:
    """When the gate last passed for this configuration."""
    try:
        about = fingerprint(connections(system))
    except (LedgerError, TransportFailed) as error:
        yield Finding("queue-unusable", Level.WARNING, str(error), "see `check --queue`")
        return
    newest, passed = system.gates.newest(about), system.gates.newest_passed(about)
    if newest is not None and not newest.ok:
        before = "it never passed" if passed is None else f"it last passed {_told(passed)}"
        yield Finding(
            "gate-failed",
            Level.WARNING,
            f"the gate failed {_told(newest)}: {newest.passed} scenarios passed, {newest.failed} "
            f"failed; {before}",
            "`bestbefore gate` says which, and with --html what was found; correct that, and run "
            "it again",
        )
    elif passed is not None:
        yield Finding("gate-passed", Level.INFO, *_passed(passed, system))
    else:
        yield Finding(
            "gate-never-passed",
            Level.INFO,
            "the gate was never run for these places: whether the promises hold on them is untried",
            "run `bestbefore gate` where its scratch places may be made",
        )


def _passed(run: GateRun, system: System) -> tuple[str, str]:
    """What is said of a gate that passed, and what to do about its age."""
    message = (
        f"the gate passed {_told(run)}: {run.passed} scenarios passed, {run.not_applicable} not "
        "applicable"
    )
    notes = []
    if system.clock.now() - run.at > _OLD:
        notes.append(f"that is more than {_OLD.days} days ago")
    if run.version != version("bestbefore"):
        notes.append(f"this is bestbefore {version('bestbefore')}")
    if not notes:
        return message, ""
    return f"{message}; {' and '.join(notes)}", "run `bestbefore gate` again"


def _told(run: GateRun) -> str:
    return f"at {when(run.at)} (bestbefore {run.version}, {run.by})"
