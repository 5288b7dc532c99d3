"""What routes work with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from bestbefore.app.system import System
from bestbefore.app.triggers import Triggers
from bestbefore.stages.work import Options


@dataclass(frozen=True, slots=True)
class Desk:
    """One process's side behind its routes. *system* has to be an impatient one: a request never
    waits for a state database that is out of reach."""

    system: System
    triggers: Triggers
    options: Options
    ready: Callable[[], bool]
    stopping: Callable[[], bool]


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


Here = Annotated[Desk, Depends(_desk)]
