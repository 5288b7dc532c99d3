"""What every verb shares: its options, its errors, its exit status and its output."""

import functools
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, ParamSpec

import click

from bestbefore.app import logs
from bestbefore.app.settings import ConfigError
from bestbefore.app.system import System, UnknownPolicy, open_system
from bestbefore.cli.text import printable
from bestbefore.ports.ledger import LedgerError, PolicyEdited
from bestbefore.ports.objects import StoreError
from bestbefore.ports.scheduler import SchedulerFailed
from bestbefore.ports.transport import TransportFailed
from bestbefore.stages.survey import PlanRefused, Stopped
from bestbefore.stages.trigger import SlotRefused

P = ParamSpec("P")

FAILING, WRONG = 1, 2

_EXPECTED = (
    ConfigError,
    LedgerError,
    PlanRefused,
    SchedulerFailed,
    SlotRefused,
    StoreError,
    TransportFailed,
    UnknownPolicy,
)


def verb(function: Callable[P, None]) -> Callable[P, None]:
    """Give a verb ``--config`` and ``--json``, and turn what can go wrong into exit status 2."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path("bestbefore.toml"),
        envvar="BESTBEFORE_CONFIG",
        show_default=True,
        help="The configuration file.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        _prepare_streams()
        try:
            _refuse_what_is_no_text(kwargs)
            function(*args, **kwargs)
        except Stopped:
            click.echo("bestbefore: stopped before the end, so there is no answer", err=True)
            raise SystemExit(FAILING) from None
        except ConfigError as error:
            fail(*str(error).split("\n"))
        except _EXPECTED as error:
            fail(str(error.args[0] if isinstance(error, UnknownPolicy) else error))

    return wrapped


def fail(*lines: str) -> NoReturn:
    """Say what is wrong on stderr and exit with status 2.

    Each of *lines* stays one line: keys and what stores answer are other people's texts.
    """
    click.echo("bestbefore: " + "\n".join(map(printable, lines)), err=True)
    raise SystemExit(WRONG)


def _prepare_streams() -> None:
    logs.set_up(os.environ)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may know fewer characters than keys have.
        sys.stdout.reconfigure(errors="backslashreplace")


def _refuse_what_is_no_text(given: Mapping[str, object]) -> None:
    """Bytes that are no UTF-8 name nothing: no policy, no run, and no key a store can hold."""
    for name, value in given.items():
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                fail(f"{name.replace('_', ' ')}: {value} is not valid Unicode")


@contextmanager
def opened(config: Path, *, warn: bool = False, dry_run: bool = False) -> Iterator[System]:
    """The system that *config* describes; *warn* says on stderr what is odd about it. With
    *dry_run* a policy that was edited under one version is odd too, and not refused."""
    system = open_system(config, os.environ, _warn_of if dry_run else None)
    if system.settings.serve.redact_keys:
        logs.set_up(os.environ, redact=True)
    try:
        if warn:
            for warning in system.settings.warnings:
                click.echo(f"{warning.level}: {warning.message}; {warning.remedy}", err=True)
        yield system
    finally:
        system.close()


def _warn_of(error: PolicyEdited) -> None:
    click.echo(f"warning: {printable(str(error))}", err=True)


def emit(as_json: bool, document: object, text: Callable[[], str]) -> None:
    """Print *document* as JSON, or what *text* makes of it for a person.

    ASCII, so that no key can play tricks on a terminal and every byte of it survives a pipe.
    """
    click.echo(json.dumps(document, indent=2) if as_json else text())


class Stop:
    """SIGTERM and Ctrl-C: the first asks to finish what is in hand, the second insists.

    *then* is called at the first, in the middle of whatever the main thread does.
    """

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._asked = 0
        self._then = then
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def __call__(self) -> bool:
        """Whether to stop."""
        return self._asked > 0

    def _ask(self, number: int, _frame: object) -> None:
        self._asked += 1
        if self._asked > 1:
            os._exit(128 + number)
        self._then()
        if sys.stderr.isatty():
            click.echo("\nstopping; once more to stop at once", err=True)


class Moment(click.ParamType[datetime]):
    """An instant on the command line: ISO 8601 with a zone, or without one in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time such as 2026-07-01T02:00:00Z", param, ctx)
        if not 1970 <= moment.year <= 9000:
            self.fail(f"{value!r} is not a time this century knows", param, ctx)
        return moment


def leave(abandoned: int, status: int) -> NoReturn:
    """Exit with *status*, without waiting for threads whose commands were given back."""
    if abandoned:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    raise SystemExit(status)
