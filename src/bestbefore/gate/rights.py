"""The operator's means to take the right to delete away, and to give it back."""

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from bestbefore.gate.grounds import PREFIX, ObjectGround, RowGround
from bestbefore.gate.scenario import Broken

_LONGEST_SECONDS = 120
_STDERR = 2


@dataclass(frozen=True, slots=True)
class Rights:
    """Either two commands, run by the shell, or stores and databases of the configuration, by their
    names, whose credentials may not delete (``denied``).

    A command returns once what it says is in force. Its environment says about what:
    ``BESTBEFORE_GATE_PLACE`` for people, ``…_BUCKET`` and ``…_PREFIX`` of a bucket, ``…_DATABASE``
    and ``…_TABLE`` of a table.
    """

    revoke: str | None = None
    grant: str | None = None
    denied: tuple[str, ...] = ()

    def take(self, ground: ObjectGround | RowGround) -> None:
        """Take the right away, if there are commands. Raises Broken where that fails."""
        if self.revoke is not None:
            _run("--revoke-command", self.revoke, ground)

    def give_back(self, ground: ObjectGround | RowGround) -> None:
        """Give the right back, taken or not. Raises Broken where that fails."""
        if self.grant is not None:
            _run("--grant-command", self.grant, ground)


def _run(option: str, command: str, ground: ObjectGround | RowGround) -> None:
    environ = os.environ | _about(ground)
    # A session of its own, as Ctrl-C ends a scenario, and the right has to be given back then too.
    # What it says goes to the terminal and into no report: that may hold a password.
    with subprocess.Popen(  # noqa: S602  (the operator's own words, as in their shell)
        command, shell=True, env=environ, stdin=subprocess.DEVNULL, stdout=_STDERR,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            status = process.wait(_LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Broken(f"{option} did not end within {_LONGEST_SECONDS} s") from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if status != 0:
        raise Broken(f"{option} ended with {status}; what it said is on the terminal")


def _about(ground: ObjectGround | RowGround) -> Mapping[str, str]:
    if isinstance(ground, ObjectGround):
        about = {"BUCKET": ground.bucket, "PREFIX": PREFIX}
    else:
        about = {"DATABASE": ground.name, "TABLE": ground.table.name}
    about["PLACE"] = ground.place
    return {f"BESTBEFORE_GATE_{name}": value for name, value in about.items()}
