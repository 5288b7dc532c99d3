"""Commands that travel through Infrai, or what stands in for it, from the command line to their
effect: nothing is lost, nothing is done twice, whatever the queue does."""

import pytest

from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import until
from support.infrai import KEY, Infrai, refusal, throttled
from support.infrai_documents import QUEUES

SLOT = "2026-06-01T02:00:00Z"


def configure(cli: Cli, infrai: Infrai) -> None:
    infrai.queue("work", message_retention_days=30)
    cli.extra = (
        f'[infrai]\napi_key = "{KEY}"\nbase_url = "{infrai.base_url}"\n'
        '[queue]\nkind = "infrai"\nqueue = "work"\n'
    )
    cli.write()


def left(infrai: Infrai) -> int:
    return sum(len(queue.messages) for queue in infrai.queues.queues.values())


@pytest.mark.parametrize("kind", QUEUES)
def test_a_run_goes_through_the_queue_to_its_end(cli: Cli, faulty: FaultyS3, kind: str) -> None:
    with Infrai(QUEUES[kind]) as infrai:
        configure(cli, infrai)
        fill(faulty, 50)

        done = cli.json("run", "exports", "--slot", SLOT)

        assert done["work"]["outcomes"] == {"deleted": 50}
        assert done["state"] == "drained"
        assert faulty.keys("exports") == set()
        assert len(infrai.asked("queue.publish")) == 50
        assert left(infrai) == 0
        assert cli.audit.problems() == []


def test_a_check_of_the_queue_compares_discovery_and_leaves_nothing_behind(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    configure(cli, infrai)

    found = {one["code"]: one for one in cli.json("check", "--queue")["findings"]}

    assert "queue.publish" in found["infrai-discovery-fits"]["message"]
    assert infrai.asked("queue.create") == []
    assert left(infrai) == 0


def test_every_message_delivered_twice_is_one_effect(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    """P3: somebody publishes all of it once more."""
    configure(cli, infrai)
    fill(faulty, 30)
    cli("plan", "exports", "--slot", SLOT)
    publish = infrai.do["queue.publish"]

    def twice(said: object) -> object:
        publish(said)
        return publish(said)

    infrai.do["queue.publish"] = twice

    done = cli.json("work", "--drain")

    assert done["outcomes"] == {"deleted": 30}
    assert cli.audit.one("SELECT count(*) FROM operations WHERE outcome = 'deleted'") == 30
    assert cli.audit.problems() == []


def test_a_vendor_that_throttles_and_loses_answers_only_delays(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    configure(cli, infrai)
    fill(faulty, 30)
    infrai.answer("queue.publish", throttled("1"))
    infrai.answer("queue.publish", None, times=3, after_effect=True)
    infrai.answer("queue.consume", throttled("1"))
    infrai.answer("queue.ack", refusal(503, "UPSTREAM", "later"), times=5)

    done = cli.json("run", "exports", "--slot", SLOT)

    assert done["work"]["outcomes"] == {"deleted": 30}
    assert faulty.keys("exports") == set()
    assert cli.audit.problems() == []


def test_a_vendor_that_is_restarted_in_the_middle_loses_nothing(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    configure(cli, infrai)
    fill(faulty, 200)
    with cli.start("run", "exports", "--slot", SLOT, "--json") as running:
        until(lambda: len(infrai.asked("queue.publish")) > 20, what="some messages")
        infrai.stop()
        infrai.start()
        assert running.wait(120) == 0, running.said()

    assert faulty.keys("exports") == set()
    assert cli.audit.problems() == []


def test_o_msg_01_what_is_no_command_stops_nobody_and_executes_nothing(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    configure(cli, infrai)
    for payload in ("hello", '{"bucket": ', [1], {"v": 99}):
        infrai.queues.publish({"queue": "work", "payload": payload})
    fill(faulty, 5)

    done = cli.json("run", "exports", "--slot", SLOT, code=None)

    assert done["work"]["outcomes"] == {"deleted": 5}
    assert left(infrai) == 0
