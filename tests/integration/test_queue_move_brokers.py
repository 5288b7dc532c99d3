"""`queue move` from one broker to another while workers run: nothing is lost, and nothing done
twice."""

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest

from bestbefore.app.system import open_system
from bestbefore.domain.run import Trigger
from support.brokered import Rounds
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import until
from support.kills import held
from support.places import Place


@pytest.mark.parametrize(
    ("old", "new"), [("rabbitmq", "bullmq"), ("moto", "infrai"), ("infrai", "moto")]
)
def test_commands_move_from_one_broker_to_another_while_workers_run_and_are_done_once(
    cli: Cli, faulty: FaultyS3, places: Callable[[str], Place], old: str, new: str
) -> None:
    cli.policy("tokens", prefix="tokens/")
    source, target = places(old), places(new)
    _configure(cli, target)
    (cli.folder / "bestbefore.toml").rename(cli.folder / "other.toml")
    _configure(cli, source)
    keys = fill(faulty, 30) + fill(faulty, 30, "tokens/")
    cli("plan", "exports")
    with cli.start("work", "--concurrency", "1") as before:
        with held(faulty, "DeleteObjects") as come:
            assert come.wait(30), before.said()
            _send(cli, "tokens")  # of which its only hand, being full, takes none

            moved = cli.json("queue", "move", "--to", "other.toml")
            after = cli.spawn("work", "--config", "other.toml")
            until(lambda: _completed(cli) == 30, what="the new worker's")
        until(lambda: _completed(cli) == 60, what="the old worker's")
        for worker in before, after:
            worker.kill(signal.SIGTERM)
            assert worker.wait() == 0, worker.said()

    assert (moved["moved"], moved["left"], moved["complete"]) == (30, 0, True)
    assert (source.count(), target.count()) == (0, 0)
    deleted = [key for one in faulty.asked("DeleteObjects") for key in one.keys]
    assert Counter(deleted) == Counter(keys)
    assert {row[0] for row in cli.audit.rows("SELECT outcome FROM operations")} == {"deleted"}
    assert cli.audit.problems() == []


def _configure(cli: Cli, place: Place) -> None:
    cli.extra = place.section
    cli.write()


def _send(cli: Cli, policy: str) -> None:
    """Plan and publish, and work on none of it."""
    with closing(open_system(cli.folder / "bestbefore.toml", {})) as system:
        of = system.policy(policy)
        system.planner(of).plan(of, system.clock.now(), Trigger.PLAN)
        system.working.send(Rounds())


def _completed(cli: Cli) -> int:
    done: int = cli.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'")
    return done
