"""Threads, as an argument."""

from collections.abc import Callable
from concurrent.futures import Executor

Threads = Callable[[int, str], Executor]
"""Makes a pool of at most so many threads, called by this name. A pool may as well do what it is
given before `submit` returns: nothing inside relies on two things happening at once."""
