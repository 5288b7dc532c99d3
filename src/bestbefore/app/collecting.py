"""Python's garbage collector, which has little to do here."""

import gc

_OBJECTS = 50_000


def collect_rarely() -> None:
    """Have the garbage collector of this process look for cycles less often.

    Commands come and go by the thousand and hold none: looking after every 700 new objects,
    Python's default, costs a seventh of a run's CPU time, and as much of what imports cost.
    """
    gc.set_threshold(_OBJECTS)


def keep_for_good() -> None:
    """Have it never look again at what is there now: modules, above all."""
    gc.freeze()
