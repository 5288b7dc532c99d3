"""`dlq absorb` and `queue move`: what is in a broker, brought to where it belongs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from bestbefore.app import brokers
from bestbefore.app.settings import Settings, load
from bestbefore.app.settings.model import SQLITE
from bestbefore.app.system import System
from bestbefore.domain.finding import Level
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.transport import Broker
from bestbefore.read.documents import Document
from bestbefore.stages.absorb import Absorbed, absorb
from bestbefore.stages.move import Movement, Mover

LEDGER = "the state database"


def absorbed(system: System, stopping: Callable[[], bool]) -> Document:
    """Bring the dead letters of the broker in use into the ledger; ``queue`` is None where it has
    none of its own. Raises TransportFailed and LedgerError."""
    broker = system.broker
    source = None if broker is None else broker.dead_letters
    done = Absorbed()
    if source is not None:
        lease = system.settings.queue.lease
        done = absorb(source, system.rerouting, system.strays, system.clock, lease, stopping)
    return {
        "absorbed": done.absorbed,
        "due_again": done.due_again,
        "already_ended": done.already_ended,
        "in_ledger": done.in_ledger,
        "strays": done.strays,
        "queue": None if source is None else source.name,
    }


def moved(
    system: System,
    to: Path,
    environ: Mapping[str, str],
    stopping: Callable[[], bool],
    on_progress: Callable[[Movement], None] = lambda _: None,
    connect: Callable[[Settings], Broker] = brokers.connect,
) -> Document:
    """Drain the queue of *system* into that of the file *to*.

    Raises LedgerError, having moved nothing, where that is no other queue of the same ledger, and
    TransportFailed.
    """
    there = load(to, environ)
    _refuse_another_ledger(system.settings, there)
    source = system.broker
    target = connect(there) if there.queue.is_elsewhere else None
    try:
        _refuse_the_same(source, target, system.settings, there)
        if target is not None:
            _refuse_what_does_not_work(target, there)
        done = Movement(complete=True)
        if source is not None:
            mover = Mover(
                [source.transport, *([source.dead_letters] if source.dead_letters else [])],
                None if target is None else target.transport,
                system.outbox,
                system.rerouting,
                system.strays,
                system.clock,
                system.person,
                system.settings.queue.lease,
            )
            done = mover.move(stopping, on_progress)
        return {
            "moved": done.moved,
            "absorbed": done.absorbed,
            "already_ended": done.already_ended,
            "in_ledger": done.in_ledger,
            "refused": done.refused,
            "left": done.left,
            "complete": done.complete,
            "moved_from": _name(source),
            "moved_to": _name(target),
        }
    finally:
        if target is not None:
            target.close()


def _refuse_another_ledger(here: Settings, there: Settings) -> None:
    if _identity(here.state.url) != _identity(there.state.url):
        raise LedgerError(
            f"{there.path}: [state] is {_shown(there.state.url)}, expected that of {here.path}, "
            f"{_shown(here.state.url)}: a queue carries what one ledger holds; write the same "
            "[state] in both"
        )


def _refuse_the_same(
    source: Broker | None, target: Broker | None, here: Settings, there: Settings
) -> None:
    # By what the queue is, as the same one may be written with other credentials.
    if here.queue.kind == there.queue.kind and _name(source) == _name(target):
        raise LedgerError(
            f"{there.path}: [queue] is the same as in {here.path}, {_name(target)}; name the queue "
            "to move to"
        )


def _refuse_what_does_not_work(target: Broker, there: Settings) -> None:
    for finding in target.findings():
        if finding.level is Level.ERROR:
            raise LedgerError(f"{there.path}: {finding.message}; {finding.remedy}")


def _name(broker: Broker | None) -> str:
    return LEDGER if broker is None else broker.transport.name


def _identity(url: str) -> tuple[object, ...]:
    """What two URLs of one database have in common: all but who uses it."""
    parts = urlsplit(url)
    options = {option for option in parts.query.split("&") if not option.startswith("password")}
    return parts.scheme, parts.hostname, parts.port or 5432, parts.path, frozenset(options)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    if url.startswith(SQLITE):
        return url
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
