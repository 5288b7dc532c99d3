"""What the policies of a simulated world may look like, and what they protect."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from bestbefore.domain.failure import Attempts
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.rows import RowSource
from bestbefore.domain.selection import Listed
from support.worlds import policy

AGES = (timedelta(days=180), timedelta(days=180), timedelta(days=29, hours=23), timedelta(days=1))
KEYS = [f"exports/2026-{month}/{name}" for month in ("01", "02", "05") for name in "ab"]

_GENERATION = r"exports/(?P<generation>\d{4}-\d{2})/"
_HOURLY = "0 * * * *"
_FEW_ATTEMPTS = Attempts(transient=2, permission=1, unknown=1, dependency=1)


def over_objects(draw: Random) -> Policy:
    kept: dict[str, Any] = draw.choice(
        [{}, {}, {"keep_last": 1}, {"generation": _GENERATION, "keep_generations": 1}]
    )
    return policy(
        attempts=draw.choice([Attempts(), _FEW_ATTEMPTS]),
        max_deletes=draw.choice([None, None, 2]),
        first_run_limit=draw.choice([2, 10_000]),
        schedule=draw.choice([None, _HOURLY]),
        catch_up=draw.random() < 0.5,
        **kept,
    )


def over_rows(draw: Random) -> Policy:
    few = draw.choice([Attempts(), _FEW_ATTEMPTS])
    of = policy("orders", attempts=few, schedule=draw.choice([None, _HOURLY]))
    return replace(
        of,
        source=RowSource("d", "orders", "placed_at", batch_size=draw.randint(1, 3)),
        reach=Reach(draw.choice([None, None, 3]), None, draw.choice([2, 10_000])),
    )


def newest(source: ObjectSource, objects: Mapping[str, Listed]) -> set[str]:
    """The keys of *objects* that must not go: the newest, or the generation newest by name."""
    if source.keep_last and objects:
        return {_youngest(objects)}
    if source.keep_generations and objects:
        return _beside(max(objects), objects)
    return set()


def beside_the_youngest(source: ObjectSource, objects: Mapping[str, Listed]) -> set[str]:
    """The keys that a plan keeps as well: the generation that holds the youngest object."""
    if not source.keep_generations or not objects:
        return set()
    return _beside(_youngest(objects), objects)


def _youngest(objects: Mapping[str, Listed]) -> str:
    return max(objects.values(), key=lambda item: (item.last_modified, item.key)).key


def _beside(key: str, objects: Mapping[str, Listed]) -> set[str]:
    return {one for one in objects if one.rpartition("/")[0] == key.rpartition("/")[0]}
