"""`serve`."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import click

from bestbefore.app import logs
from bestbefore.app.backlogs import watch
from bestbefore.app.listening import address, is_loopback, listen
from bestbefore.app.schedulers import trigger_queue_of
from bestbefore.app.service import Service
from bestbefore.app.system import System
from bestbefore.app.trigger_queue import TriggerQueue
from bestbefore.app.triggers import Triggers
from bestbefore.cli.context import FAILING, Stop, emit, fail, leave, opened, verb
from bestbefore.cli.work import options

_GRACE_SECONDS = 30.0
_CONCURRENCY = 32


@click.command()
@click.option("--host", help="The address to listen on, instead of the file's.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 lets the system choose.")
@click.option("--no-work", is_flag=True, help="Delete nothing: other processes do.")
@click.option("--no-schedule", is_flag=True, help="Start no runs: something else calls.")
@verb
def serve(
    config: Path,
    as_json: bool,
    host: str | None,
    port: int | None,
    no_work: bool,
    no_schedule: bool,
) -> None:
    """Answer on HTTP, start what is due, and delete it, until told to stop.

    Any number of these may run on one state database. SIGTERM finishes what is in hand; a second
    one insists.
    """
    # Imported here: the server is an extra, and takes a while to import.
    try:
        from bestbefore.web.app import create_app
        from bestbefore.web.desk import Desk
        from bestbefore.web.server import Server
    except ImportError as error:
        fail(f"serve needs {error.name}: pip install 'bestbefore[web]'")
    stopping = threading.Event()
    with opened(config, warn=True) as system:
        there = system.settings.serve
        logs.set_up(os.environ, "json", redact=there.redact_keys)
        host = host or there.host
        _require_authentication(system, host)
        system.connect()  # now, and not while the first caller waits
        front = system.impatient()
        listening = _listen(host, there.port if port is None else port)
        opts = options(system, _CONCURRENCY, drain=True)
        triggers = Triggers(front, system, opts, stopping.is_set, work=not no_work)
        going = loops(system, stopping, work=not no_work, schedule=not no_schedule)
        broker = None if no_schedule else trigger_queue_of(system.settings)
        if broker is not None:
            queue = TriggerQueue(broker.transport, triggers, front, stopping.is_set, stopping.wait)
            going["trigger queue"] = queue.run
        service = Service(going, front.probe, stopping)
        desk = Desk(front, triggers, opts, service.ready, stopping.is_set)
        server = Server(create_app(desk), listening)
        Stop(stopping.set)
        service.start()
        server.start()
        url = address(listening)
        emit(as_json, {"url": url}, lambda: f"listening on {url}")
        while server.running and not stopping.wait(1.0):
            pass
        failed = not stopping.is_set()
        stopping.set()
        server.stop()
        server.join()
        service.join(_GRACE_SECONDS)
        triggers.close(_GRACE_SECONDS)
        if broker is not None:
            broker.close()
        front.close()
    # Threads that hang in a store or a database are not waited for: their work was given back.
    leave(1, FAILING if failed else 0)


def loops(
    system: System, stopping: threading.Event, *, work: bool, schedule: bool
) -> dict[str, Callable[[], None]]:
    """What goes on beside the answering, by name."""

    def run_worker() -> None:
        opts = options(system, _CONCURRENCY, drain=False)
        system.working.worker(opts, stopping.is_set).run()

    found: dict[str, Callable[[], None]] = {
        "backlogs": lambda: watch(system.backlogs, system.clock, stopping.wait)
    }
    if work:
        found["worker"] = run_worker
    elif system.settings.queue.is_elsewhere:
        found["sender"] = lambda: system.working.send(stopping.is_set)
    if schedule:
        found["ticker"] = lambda: system.ticker(stopping.is_set).run()
    return found


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        fail(
            f"{host}:{port}: cannot listen there ({error.strerror}); name another --host or --port"
        )


def _require_authentication(system: System, host: str) -> None:
    there = system.settings.serve
    if is_loopback(host) or there.hmac_keys or there.trigger_secrets or system.access.tokens():
        return
    fail(
        f"serve: {host} can be reached from other machines, and nobody could be let in: make a "
        "token with `bestbefore token add NAME --scope read`, or set serve.hmac_secret_env or "
        "serve.trigger_secret_env"
    )
