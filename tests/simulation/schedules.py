"""A schedule: what happens in one world, in which order. Drawn from a seed, run, and made shorter
while it still breaks a promise.
"""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random

from simulation.actions import ALWAYS, NAMED, WEIGHTS, fail, plan, sicken
from simulation.plants import Plant
from simulation.promises import Broken
from simulation.world import World

Step = tuple[str, int]
"""An action's name, and the number that it draws from."""

_SHORTEST, _LONGEST = 8, 20
_KINDS = 0.5


@dataclass(frozen=True)
class Schedule:
    """What happens in the world that *seed* makes."""

    seed: int
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, seed: int) -> "Schedule":
        """The one that *seed* draws.

        Some kinds of actions never happen in it, so that others happen more often together.
        """
        draw = Random(f"schedule {seed}")
        number = draw.randint(_SHORTEST, _LONGEST)
        weights = {
            action: weight
            for action, weight in WEIGHTS.items()
            if action in ALWAYS or draw.random() < _KINDS
        }
        actions = draw.choices(list(weights), list(weights.values()), k=number)
        begin = draw.choice([[plan], [sicken, plan], [fail, plan]])
        steps = [*begin, *actions]
        return cls(seed, tuple((one.__name__, draw.randrange(2**32)) for one in steps))


@dataclass(frozen=True)
class Told:
    """How a schedule ended: ``broken`` says which promise, or what was raised that nobody expects;
    ``trace`` is everything that was done to the world, in its order."""

    broken: str | None
    trace: Sequence[str]

    @property
    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()


def simulate(schedule: Schedule, plant: Plant | None = None) -> Told:
    """Run *schedule* from its beginning to a quiet end."""
    with _undisturbed():
        world = World(schedule.seed, plant)
        broken = None
        try:
            for name, number in schedule.steps:
                world.kernel.trace.append(f"-- {name} {number}")
                world.chance.seed(number)
                NAMED[name](world, Random(number))
                world.promises.check()
            world.kernel.trace.append("-- settle")
            world.chance.seed(0)
            world.settle()
        except Broken as error:
            broken = str(error)
        except Exception as error:  # noqa: BLE001  (whatever the product raises is what is sought)
            broken = f"{type(error).__name__}: {error}"
        finally:
            world.close()
        return Told(broken, world.kernel.trace)


def shrunk(schedule: Schedule, plant: Plant | None = None) -> Schedule:
    """*schedule*, which breaks a promise, without the steps that it breaks one without."""
    size = max(1, len(schedule.steps) // 2)
    while True:
        start = 0
        before = len(schedule.steps)
        while start < len(schedule.steps):
            fewer = schedule.steps[:start] + schedule.steps[start + size :]
            less = replace(schedule, steps=fewer)
            if simulate(less, plant).broken is not None:
                schedule = less
            else:
                start += size
        if size == 1 and len(schedule.steps) == before:
            return schedule
        size = max(1, size // 2)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nothing is logged, as all the trouble is made up, and the garbage waits for the end: together
    a third of the time."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        logging.disable(before)
