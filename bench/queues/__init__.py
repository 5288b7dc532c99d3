"""What each broker's adapter costs beside a bare client, on one server and in one run.

A broker is a module here with one function::

    @contextmanager
    def sides() -> Iterator[dict[str, Side]]: ...

It brings a server up (or finds one, and raises `LeftOut` where there is none) and yields the sides,
ours first, each over a queue of its own on that server: the adapter, and the loop that somebody
would write with the same client, with as many requests at a time. Its line in `BROKERS` is all that
else it takes. What tests use of servers can be had from ``support``.
"""

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from bestbefore.contracts.transport import message
from bestbefore.ports.transport import Message, Transport

sys.path.append(str(Path(__file__).parents[2] / "tests"))

BROKERS = ("sqs", "rabbitmq", "bullmq", "infrai")
LEASE = timedelta(minutes=1)
AT_ONCE = 500
"""How many a worker receives, and acks, together."""


class LeftOut(Exception):
    """There is no such server here. The text says why."""


class Side(Protocol):
    """One way to use a queue that nobody else uses."""

    def publish(self, messages: Sequence[Message]) -> None:
        """Put them all in; fails where one is not."""
        ...

    def settle(self, number: int) -> None:
        """Receive and ack *number* messages that are there."""
        ...


class Ours:
    """An adapter, used as the product uses it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def publish(self, messages: Sequence[Message]) -> None:
        assert not any(self._transport.publish(messages))

    def settle(self, number: int) -> None:
        left = number
        while left > 0:
            got = self._transport.receive(min(left, AT_ONCE), LEASE, timedelta(seconds=1))
            assert got, f"{left:,} messages never came"
            self._transport.ack(got)
            left -= len(got)


def measure(messages: int, rounds: int) -> None:
    """Print the rates of every broker that is there, and our seconds over the bare client's."""
    sent = [message(f"{n:08}", 300) for n in range(messages)]
    for name in BROKERS:
        broker = importlib.import_module(f"bench.queues.{name}")
        try:
            with broker.sides() as sides:
                _measure(f"{name}, {messages:,} messages", sides, sent, rounds)
        except LeftOut as why:
            print(f"\n{name} is left out: {why}")


def _measure(title: str, sides: dict[str, Side], sent: Sequence[Message], rounds: int) -> None:
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        # Who goes first changes, and the first round is for warming up.
        for name in sorted(sides, reverse=bool(number % 2)):
            side = sides[name]
            for verb, work in (
                ("publish", lambda side=side: side.publish(sent)),
                ("settle", lambda side=side: side.settle(len(sent))),
            ):
                seconds = _timed(work)
                if number:
                    times.setdefault((verb, name), []).append(seconds)
                    line = f"round {number}/{rounds}  {name:<24}{verb:<10}{seconds:7.2f} s"
                    print(line, file=sys.stderr, flush=True)
    print(f"\n{title}, median of {rounds} interleaved rounds")
    ours, *others = sides
    for verb in ("publish", "settle"):
        medians = {name: statistics.median(times[verb, name]) for name in sides}
        for name in (ours, *others):
            ratio = medians[ours] / medians[name]
            beside = "" if name == ours else f"  ours takes {ratio:.2f}x"
            rate = len(sent) / medians[name]
            print(f"  {verb:<10}{name:<24}{medians[name]:7.2f} s  {rate:>9,.0f}/s{beside}")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
