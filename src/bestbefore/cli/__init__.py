"""Thin verbs: read the arguments, ask the inside, print the answer."""

import click

from bestbefore.app.system import collect_rarely
from bestbefore.cli.check import check, init
from bestbefore.cli.control import pause, resume
from bestbefore.cli.demo import demo
from bestbefore.cli.dlq import dlq
from bestbefore.cli.evidence import explain, export, verify
from bestbefore.cli.hold import hold
from bestbefore.cli.plan import plan, run
from bestbefore.cli.restore import restore
from bestbefore.cli.runs import runs
from bestbefore.cli.schedule import schedule
from bestbefore.cli.serve import serve
from bestbefore.cli.state import state
from bestbefore.cli.status import status
from bestbefore.cli.token import token
from bestbefore.cli.tune import tune
from bestbefore.cli.work import work


class _InOrder(click.Group):
    """Lists verbs in the order of the path, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(self.commands)


@click.group(
    cls=_InOrder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bestbefore")
def main() -> None:
    """Scheduled data cleanup that proves what it did.

    A policy says what may go and when; `plan` finds it, `work` deletes it one command per object
    or batch of rows, and what fails waits in the dead letters for you. Exit status: 0 done, 1 a
    failing result, 2 wrong usage, configuration or connection.
    """
    collect_rarely()


for verb in (init, check, plan, work, run, serve, status, runs, dlq, verify, explain, hold, pause,
             resume, schedule, token, export, restore, state, tune, demo):  # fmt: skip
    main.add_command(verb)
