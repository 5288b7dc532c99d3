"""One queue is drained into another, and no operation is lost or done twice."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.app.clock import SystemClock
from bestbefore.app.emptying import LEDGER, moved
from bestbefore.app.settings import Settings
from bestbefore.contracts.strays import FOREIGN
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.probe import probe
from bestbefore.domain.states import State
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.transport import Broker, Message, TransportFailed
from bestbefore.read.documents import Document
from bestbefore.stages.work import Options
from support.brokered import Brokered, Rounds, bodies, url_of
from support.clock import ManualClock
from support.forks import until
from support.memory_transport import MemoryBroker
from support.worlds import policy

LEASE = Options().lease


class Scene:
    """A world over the queue ``old``, beside which there is ``new``, each with its file."""

    def __init__(self, folder: Path, state: str | None, clock: ManualClock) -> None:
        self.clock = clock
        self.old, self.new, self.dead = (MemoryBroker(clock) for _ in range(3))
        self.world = Brokered(
            folder, policy(), queue="old", brokers={"old": self.old, "new": self.new},
            dead=self.dead, clock=clock, state_url=state,
        )  # fmt: skip

    def file(self, queue: str, state: str | None = None) -> Path:
        """The configuration with another queue, or another state database."""
        path = self.world.folder / f"{queue}.toml"
        kind = "" if queue == "state" else f'kind = "sqs"\nqueue_url = "{url_of(queue)}"\n'
        path.write_text(f'[state]\nurl = "{state or self.world.state_url}"\n[queue]\n{kind}')
        return path

    def move(self, to: str = "new", rounds: int = 1_000) -> Document:
        """Move from where the world is."""
        return moved(
            self.world.system, self.file(to), {}, Rounds(rounds), connect=self.world.connect
        )

    def sent(self, n: int) -> list[str]:
        """*n* objects, planned and published to the old queue."""
        keys = self.world.fill(n)
        self.world.plan()
        self.world.send()
        assert self.old.depth == n
        self.clock.step(timedelta(seconds=1))
        return keys

    def end(self, queue: str, n: int) -> None:
        """Work with the queue that was moved to; all *n* objects go once."""
        with self.world.beside(queue) as there:
            report = there.work()
            assert (report.outcomes, report.late) == ({"deleted": n}, 0)
        assert len(self.world.store.deleted) == len(set(self.world.store.deleted))
        self.world.assert_reconciled()


@pytest.fixture
def scene(tmp_path: Path, state: str | None) -> Iterator[Scene]:
    made = Scene(tmp_path, state, ManualClock())
    yield made
    made.world.system.close()


def test_what_is_out_is_in_the_new_queue_once_and_the_old_one_is_empty(scene: Scene) -> None:
    scene.sent(250)

    said = scene.move()

    assert said == {
        "moved": 250,
        "absorbed": 0,
        "already_ended": 0,
        "in_ledger": 0,
        "refused": 0,
        "left": 0,
        "complete": True,
        "moved_from": "old",
        "moved_to": "new",
    }
    assert (scene.old.depth, scene.new.depth) == (0, 250)
    scene.end("new", 250)
    assert Counter(scene.new.published).most_common(1)[0][1] == 1  # nobody sent one once more


def test_strays_are_absorbed_and_what_has_ended_is_left_behind(scene: Scene) -> None:
    scene.sent(3)
    duplicates = bodies(scene.old)
    assert scene.world.work().completed == 3
    for body in [*duplicates, *FOREIGN, probe("ours")]:
        scene.old.put(body)

    said = scene.move()

    assert (said["moved"], said["absorbed"], said["already_ended"]) == (0, len(FOREIGN), 3)
    assert scene.world.system.strays.count() == len(FOREIGN)
    assert (scene.old.depth, scene.new.depth) == (0, 0)


def test_its_own_dead_letters_come_along(scene: Scene) -> None:
    scene.sent(3)
    for body in bodies(scene.old):
        scene.dead.put(body)
    scene.dead.put(b"hello")
    scene.old.purge()

    said = scene.move()

    assert (said["moved"], said["absorbed"], said["left"]) == (3, 1, 0)
    assert scene.dead.depth == 0
    scene.end("new", 3)


def test_what_waits_in_the_ledger_is_sent_by_who_works_with_the_new_queue(scene: Scene) -> None:
    scene.world.fill(5)
    scene.world.plan()

    assert scene.move()["moved"] == 0

    scene.end("new", 5)
    assert scene.old.published == []


def test_what_was_lost_in_the_old_queue_is_due_again(scene: Scene) -> None:
    scene.sent(5)
    scene.old.purge()
    begun = scene.clock.now()

    said = scene.move()

    assert (said["moved"], said["left"], said["complete"]) == (0, 5, True)
    assert scene.clock.now() - begun > 2 * LEASE  # it could have been in somebody's hands
    scene.end("new", 5)


def test_what_a_dead_consumer_had_received_is_awaited(scene: Scene) -> None:
    """O-LEASE-03: received, never claimed, and back once its lease has ended."""
    scene.sent(5)
    assert len(scene.old.take(2, LEASE)) == 2

    said = scene.move()

    assert (said["moved"], said["left"]) == (5, 0)
    scene.end("new", 5)


def test_a_kill_before_the_old_queue_forgot_leaves_both_and_one_effect(scene: Scene) -> None:
    """P4, P3"""
    scene.sent(5)
    forget = scene.old.change
    scene.old.change = lambda deliveries, lease: []  # type: ignore[method-assign]
    scene.move(rounds=1)
    scene.old.change = forget  # type: ignore[method-assign]
    assert (scene.old.depth, scene.new.depth) == (5, 5)
    scene.clock.step(2 * LEASE)

    scene.end("new", 5)

    assert scene.move()["already_ended"] == 5
    assert (scene.old.depth, scene.new.depth) == (0, 0)


def test_a_kill_before_the_new_queue_has_it_loses_nothing(scene: Scene) -> None:
    """P4: marked as sent, and never published."""
    scene.sent(5)
    ids = [operation.operation_id for operation in scene.world.operations()]
    now = scene.clock.now()
    scene.world.system.rerouting.redirect(ids, now, now + LEASE)
    scene.clock.step(2 * LEASE)

    assert scene.move()["moved"] == 5
    scene.end("new", 5)


def test_a_new_queue_that_does_not_answer_keeps_everything_in_the_old_one(scene: Scene) -> None:
    scene.sent(5)
    scene.new.down = True

    with pytest.raises(TransportFailed, match="new"):
        scene.move()

    assert scene.old.depth == 5
    scene.new.down = False
    scene.clock.step(2 * LEASE)
    assert scene.move()["moved"] == 5
    scene.end("new", 5)


def test_what_the_new_queue_does_not_take_for_now_is_due_again(scene: Scene) -> None:
    scene.sent(5)
    busy = Failure(FailureClass.THROTTLED, "new: slow down")
    turns = iter([busy, None, busy])
    scene.new.refuse = lambda _: next(turns, None)

    scene.move()

    assert (scene.old.depth, scene.new.depth) == (0, 3)
    scene.end("new", 5)


def test_what_the_new_queue_can_never_carry_is_a_dead_letter(scene: Scene) -> None:
    keys = scene.sent(3)
    refused: list[Message] = []

    def refuse(message: Message) -> Failure | None:
        if json.loads(message.body)["key"] == keys[0]:
            refused.append(message)
            return Failure(FailureClass.MALFORMED, "new: at most 10 bytes")
        return None

    scene.new.refuse = refuse

    said = scene.move()

    assert (said["moved"], said["refused"]) == (2, 1)
    (letter,) = scene.world.dead()
    assert (letter.key, letter.error) == (keys[0], "new: at most 10 bytes")
    with scene.world.beside("new") as there:
        assert there.work().completed == 2


def test_stopped_it_says_what_is_left_and_a_repeat_goes_on(scene: Scene) -> None:
    scene.sent(250)

    first = scene.move(rounds=1)

    assert (first["moved"], first["left"], first["complete"]) == (100, 150, False)
    assert (scene.old.depth, scene.new.depth) == (150, 100)
    assert scene.world.system.rerouting.outstanding(scene.clock.now() + LEASE) == 250
    second = scene.move()
    assert (second["moved"], second["left"], second["complete"]) == (150, 0, True)
    assert scene.move()["left"] == 0  # nor is what waits in the new queue, later
    assert (scene.old.depth, scene.new.depth) == (0, 250)
    scene.end("new", 250)


def test_moved_to_the_state_database_everything_is_due_there(scene: Scene) -> None:
    scene.sent(25)
    scene.old.put(b"hello")

    said = scene.move("state")

    assert (said["moved"], said["absorbed"], said["left"]) == (25, 1, 0)
    assert (said["moved_to"], scene.old.depth) == (LEDGER, 0)
    assert {operation.state for operation in scene.world.operations()} == {State.PENDING}
    scene.end("state", 25)


def test_from_the_state_database_there_is_nothing_to_move(scene: Scene) -> None:
    scene.world.fill(5)
    scene.world.plan()
    with scene.world.beside("state") as here:
        said = moved(here.system, scene.file("new"), {}, lambda: False, connect=here.connect)

    assert (said["moved"], said["complete"]) == (0, True)
    assert (said["moved_from"], said["moved_to"]) == (LEDGER, "new")
    scene.end("new", 5)


def test_another_ledger_is_refused_and_both_are_named(scene: Scene) -> None:
    scene.sent(1)
    elsewhere = "postgresql+psycopg://anna:secret@db.example.com:6000/other"

    with pytest.raises(LedgerError) as caught:
        moved(scene.world.system, scene.file("new", elsewhere), {}, Rounds())

    said = str(caught.value)
    assert "postgresql+psycopg://db.example.com:6000/other" in said
    assert "secret" not in said
    assert scene.world.system.settings.state.url.rpartition("/")[2].partition("?")[0] in said
    assert scene.old.depth == 1


@pytest.mark.parametrize("queue", ["old", "state"])
def test_the_same_queue_is_refused(scene: Scene, queue: str) -> None:
    with scene.world.beside(queue) as here, pytest.raises(LedgerError, match="is the same as in"):
        moved(here.system, scene.file(queue), {}, Rounds(), connect=here.connect)


def test_a_new_queue_with_an_error_in_its_check_is_refused(scene: Scene) -> None:
    scene.sent(1)
    broken = Finding("queue-missing", Level.ERROR, "new: there is no such queue", "create it")

    def connect(settings: Settings) -> Broker:
        there = scene.world.connect(settings)
        return Broker(there.transport, None, lambda: [broken], lambda: None)

    with pytest.raises(LedgerError, match="there is no such queue; create it"):
        moved(scene.world.system, scene.file("new"), {}, Rounds(), connect=connect)

    assert (scene.old.depth, scene.new.depth) == (1, 0)


@pytest.mark.parametrize("to", ["new", "state"])
def test_while_workers_run_on_either_every_object_goes_once(tmp_path: Path, to: str) -> None:
    clock = SystemClock()
    scene = Scene(tmp_path, None, clock)  # type: ignore[arg-type]
    world, stop = scene.world, threading.Event()
    scene.old.duplicate = 1
    with world, world.beside("old") as before, world.beside(to) as after:
        keys = world.fill(1_500)
        world.plan()
        workers = [
            threading.Thread(
                target=one.worker(drain=False, stopping=stop.is_set, concurrency=2).run
            )
            for one in (before, after)
        ]
        workers[0].start()
        until(lambda: len(world.store.deleted) > 20, what="the old worker to be at work")
        workers[1].start()
        try:
            said = moved(world.system, scene.file(to), {}, lambda: False, connect=world.connect)
            until(lambda: len(world.store.deleted) == len(keys), what="everything to be gone")
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        assert said["complete"]
        assert Counter(world.store.deleted) == Counter(keys)
        assert {operation.state for operation in world.operations()} == {State.COMPLETED}
        world.assert_reconciled()
