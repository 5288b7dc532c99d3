"""A gate with scenarios of a test's own, for what the verb does around them.

``GATE_PLAYS`` names some of these, in order:

    holds        passes
    breaks       fails
    cannot       is not applicable
    waits        has made a ledger and an object, and waits until somebody stops it
"""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from bestbefore.gate.scenario import SCENARIOS, Ground, NotApplicable, Scenario
from bestbefore.gate.scenarios import SCENARIOS as FILLED
from bestbefore.gate.stage import Stage
from support import harness

WAITING = Path("waiting")
"""There once ``waits`` does."""


def holds(stage: Stage) -> None:
    stage.evidence.expect("answers", 42, 42)


def breaks(stage: Stage) -> None:
    stage.evidence.note("everything was tried")
    stage.evidence.expect("answers <b>now</b>", 41, 42)


def cannot(_: Stage) -> None:
    raise NotApplicable("this setup has no questions")


def waits(stage: Stage) -> None:
    stage.objects.put(["one.json"])
    stage.policy()
    stage.open()
    WAITING.touch()
    threading.Event().wait()


def program(arguments: Sequence[str]) -> None:
    """`bestbefore` with these scenarios."""
    assert SCENARIOS is FILLED
    plays = [globals()[name] for name in os.environ["GATE_PLAYS"].split()]
    SCENARIOS[:] = [
        Scenario(play.__name__, f"P{n}", f"It {play.__name__}", Ground.OBJECTS, play)
        for n, play in enumerate(plays, 1)
    ]
    harness.program(arguments)
