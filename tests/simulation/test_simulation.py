"""The promises hold in every world that a bounded number of seeds draws, and mistakes are found.

A seed that fails is printed with how to replay it. `make soak` runs many more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.plants import Plant
from simulation.schedules import Schedule, shrunk, simulate
from simulation.soak import failures, replay

SEEDS = int(os.environ.get("BESTBEFORE_SEEDS", "800"))
_PARTS = 30
_TESTS = Path(__file__).parents[1]

FOUND_BY = {
    Plant.RECORD_BEFORE_EFFECT: "P4",
    Plant.NO_CONDITION: "P2",
    Plant.ACK_BEFORE_RECORD: "P4",
    Plant.NO_LEDGER_CHECK: "P3",
    Plant.SLOT_FROM_NOW: "P5",
    Plant.NO_HOLDS: "P7",
    Plant.NO_PAUSES: "P12",
    Plant.NO_CAPS: "P8",
    Plant.NO_BURIAL: "P9",
    Plant.NO_MISSES: "P6",
}


@pytest.mark.parametrize("part", range(_PARTS))
def test_every_promise_holds_in_every_simulated_world(part: int) -> None:
    found = failures(range(part, SEEDS, _PARTS))
    told = [f"seed {seed}: {broken}; {replay(seed)}" for seed, broken in found]
    assert not told, "\n".join(told)


def test_the_same_seed_does_the_same_in_every_process() -> None:
    """Also where strings hash differently, so that sets have another order."""
    script = (
        "from simulation.schedules import Schedule, simulate\n"
        "print([simulate(Schedule.of(seed)).digest for seed in range(25)])"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(_TESTS)])}
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=environ | {"PYTHONHASHSEED": hashes},
            capture_output=True, text=True, check=True,
        ).stdout
        for hashes in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.parametrize("plant", Plant, ids=lambda plant: plant.name.lower())
def test_a_mistake_made_on_purpose_is_found(plant: Plant) -> None:
    told = (simulate(Schedule.of(seed), plant).broken for seed in range(SEEDS))
    broken = next((broken for broken in told if broken is not None), "nothing")
    assert broken.startswith(FOUND_BY[plant])


def test_a_failing_schedule_shrinks_to_what_it_takes() -> None:
    plant = Plant.ACK_BEFORE_RECORD
    schedule = next(
        schedule
        for schedule in map(Schedule.of, range(SEEDS))
        if simulate(schedule, plant).broken is not None
    )
    less = shrunk(schedule, plant)
    assert simulate(less, plant).broken is not None
    assert len(less.steps) < len(schedule.steps)
