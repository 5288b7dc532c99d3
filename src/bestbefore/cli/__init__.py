"""Thin verbs: read the arguments, ask the inside, print the answer."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from bestbefore.app.collecting import collect_rarely, keep_for_good

VERBS: Mapping[str, str] = {
    "init": "check",
    "check": "check",
    "plan": "plan",
    "work": "work",
    "run": "plan",
    "serve": "serve",
    "status": "status",
    "runs": "runs",
    "dlq": "dlq",
    "verify": "evidence",
    "explain": "evidence",
    "hold": "hold",
    "pause": "control",
    "resume": "control",
    "schedule": "schedule",
    "token": "token",
    "export": "evidence",
    "restore": "restore",
    "queue": "queue",
    "state": "state",
    "gate": "gate",
    "tune": "tune",
    "demo": "demo",
}
"""Each verb and the module of this package that it is in, in the order of the path."""


class _Verbs(click.Group):
    """Imports a verb once it is asked for: what one needs, most others do not."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        collect_rarely()
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{VERBS[cmd_name]}"), cmd_name)
        return command


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bestbefore")
def main() -> None:
    """Scheduled data cleanup that proves what it did.

    A policy says what may go and when; `plan` finds it, `work` deletes it one command per object
    or batch of rows, and what fails waits in the dead letters for you. Exit status: 0 done, 1 a
    failing result, 2 wrong usage, configuration or connection.
    """
    keep_for_good()
