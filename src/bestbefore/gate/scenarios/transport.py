"""What a queue may do to messages (deliver twice, late, to two at once, or never), and what of it
the ledger lets happen to anybody's data."""

import json
from datetime import timedelta
from hashlib import sha256

from bestbefore.app.system import System
from bestbefore.domain.command import MAX_BYTES
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.probe import probe
from bestbefore.domain.run import Run
from bestbefore.domain.slots import lasting
from bestbefore.gate.children import Instant
from bestbefore.gate.messages import Watch, received
from bestbefore.gate.scenario import Ground, NotApplicable, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.outbox import sent_again_at
from bestbefore.ports.transport import Message

_COMMANDS = 10
_LOST = 4
_STORED = "stored"
_MINUTE = timedelta(minutes=1)
_LOST_AFTER = timedelta(minutes=21)
"""An empty queue for twenty minutes says that what was sent to it is gone."""


@scenario(
    "two-consumers",
    "P3",
    "Two workers with the same command at once end it once",
    Ground.EITHER,
)
def two_consumers(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    with stage.short_lease():
        system = stage.open()
        run = stage.plan(system, policy)
        with stage.stalled() as wake:
            stage.evidence.expect("commands' worth left then", stage.left(), _COMMANDS)
            second = stage.work(system)
            stage.evidence.note("another worker went on once the first one's lease had run out")
            stage.evidence.expect("completed by the second worker", second.completed, _COMMANDS)
            before = stage.outcomes(system, run)
            first = wake()
        stage.evidence.note("the first worker woke up and went on with what it had in hand")
    stage.evidence.claim(
        "results of the first worker that the ledger refused", first.late,
        holds=first.late > 0, expected="one or more: it had had commands",
    )  # fmt: skip
    stage.evidence.expect("completed by the first worker", first.completed, 0)
    stage.evidence.expect("final states", stage.outcomes(system, run), before)
    stage.evidence.expect("commands' worth left", stage.left(), 0)
    stage.reconciles(system, run)


@scenario(
    "killed-between-record-and-ack",
    "P4",
    "A worker that dies before its ack has its commands delivered again, to no effect",
    Ground.EITHER,
)
def killed_between_record_and_ack(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    watch = Watch()
    with stage.short_lease():
        system = stage.open(broker=watch)
        stage.carrier(system)
        run = stage.plan(system, policy)
        stage.killed(Instant.RECORD)
        recorded = stage.outcomes(system, run).get("deleted", 0)
        stage.evidence.claim(
            "commands on record after the kill, none of them acked", recorded,
            holds=recorded > 0, expected="one or more",
        )  # fmt: skip
        report = stage.serve(
            system,
            lambda report: watch.acked >= _COMMANDS and report.completed >= _COMMANDS - recorded,
        )
    stage.evidence.claim(
        "messages that another worker acked", watch.acked,
        holds=watch.acked >= _COMMANDS, expected=f"at least {_COMMANDS}, one for each",
    )  # fmt: skip
    stage.evidence.expect("effects that it recorded", report.completed, _COMMANDS - recorded)
    _all_deleted(stage, system, run)


@scenario(
    "unreadable-message",
    "P9",
    "Messages that are no commands execute nothing, are kept for a person, and stop no others",
    Ground.EITHER,
)
def unreadable_message(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    system = stage.open()
    transport = stage.carrier(system).transport
    run = stage.plan(system, policy)
    put = 0
    for body in (b'{"hello":"no command"}', b"no JSON", b"\xff\xfe"):
        (refused,) = transport.publish([Message(sha256(body).hexdigest(), body)])
        put += refused is None
        said = "the queue takes it" if refused is None else "this queue's client refuses it"
        stage.evidence.note(f"{body!r} was published", said)
    if not put:
        raise NotApplicable(f"{transport.name}: nothing can be put there but commands")
    stage.serve(
        system, lambda report: report.completed >= _COMMANDS and system.strays.count() >= put
    )
    stage.evidence.expect("dead letters of no run", system.strays.count(), put)
    for stray in system.strays.found():
        stage.evidence.note(f"{stray.body!r} is kept", stray.error)
    _all_deleted(stage, system, run)


@scenario(
    "lost-message",
    "P4",
    "A message that vanishes from the queue is published again",
    Ground.EITHER,
)
def lost_message(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    system = stage.open()
    transport = stage.carrier(system).transport
    run = stage.plan(system, policy)
    stage.send(system)
    transport.ack(received(transport, _LOST))
    stage.evidence.note("messages taken out of the queue behind the ledger's back", _LOST)
    kept = _COMMANDS - _LOST
    stage.serve(system, lambda report: report.completed >= kept)
    stage.evidence.expect("commands' worth left", stage.left(), _LOST)
    stage.serve(system, lambda _: True)  # which finds the queue empty
    with stage.later(_LOST_AFTER):
        stage.evidence.note("the queue had nothing for", lasting(_LOST_AFTER))
        stage.send(system)  # finds that they are lost
        stage.send(system)
    stage.evidence.expect("published again", stage.republished(system, run), _LOST)
    stage.work(system)
    _all_deleted(stage, system, run)


@scenario(
    "near-retention",
    "P4",
    "A message that the queue is about to forget is published again before that",
    Ground.EITHER,
)
def near_retention(stage: Stage) -> None:
    stage.fill(_COMMANDS)
    policy = stage.policy()
    system = stage.open()
    capabilities = stage.carrier(system).transport.capabilities
    if capabilities.retention is None:
        raise NotApplicable("a message stays in this queue until somebody takes it")
    run = stage.plan(system, policy)
    stage.send(system)
    stage.evidence.note("this queue keeps a message for", lasting(capabilities.retention))
    now = stage.clock.now()
    wait = sent_again_at(now, capabilities.retention, once=capabilities.deduplicates) - now
    with stage.later(wait - _MINUTE):
        stage.send(system)
    stage.evidence.expect("published again before its time", stage.republished(system, run), 0)
    with stage.later(wait + _MINUTE):
        stage.send(system)
    stage.evidence.note("nobody had worked on them for", lasting(wait))
    stage.evidence.expect("published again then", stage.republished(system, run), _COMMANDS)
    stage.work(system)
    _all_deleted(stage, system, run)


@scenario(
    "limits",
    "P4",
    "The largest command fits into the queue; what is too large is refused and not lost",
    Ground.EITHER,
)
def limits(stage: Stage) -> None:
    stage.policy()
    system = stage.open()
    transport = stage.carrier(system).transport
    able = transport.capabilities
    stage.evidence.note("largest body, in bytes", able.max_body)
    stage.evidence.note("a message is kept for", _span(able.retention))
    stage.evidence.note("a message is held for at most", _span(able.longest_lease))
    lease = stage.setup.settings.queue.lease
    stage.evidence.claim(
        "[queue] lease", lasting(lease),
        holds=able.longest_lease is None or lease <= able.longest_lease,
        expected="no longer than that",
    )  # fmt: skip
    body = probe("." * (MAX_BYTES - len(probe(""))))
    largest = Message(sha256(body).hexdigest(), body)
    (refused,) = transport.publish([largest])
    stage.evidence.claim(
        f"the largest command, {MAX_BYTES:,} bytes", _answer(refused),
        holds=refused is None, expected=_STORED,
    )  # fmt: skip
    (got,) = received(transport, 1)
    transport.ack([got])
    same = json.loads(got.body) == json.loads(largest.body)
    stage.evidence.expect("it arrives as it was sent", same, True)
    (refused,) = transport.publish([largest._replace(body=b" " * (able.max_body + 1))])
    stage.evidence.claim(
        "a body of one byte too many", _answer(refused),
        holds=refused is not None and refused.failure_class is FailureClass.MALFORMED,
        expected="refused for good",
    )  # fmt: skip
    left = transport.receive(1, lease, timedelta(seconds=1))
    stage.evidence.expect("messages that came of it", len(left), 0)


def _all_deleted(stage: Stage, system: System, run: Run) -> None:
    stage.evidence.expect("final states", stage.outcomes(system, run), {"deleted": _COMMANDS})
    stage.evidence.expect("commands' worth left", stage.left(), 0)
    stage.reconciles(system, run)


def _span(span: timedelta | None) -> str:
    return "ever" if span is None else lasting(span)


def _answer(refused: Failure | None) -> str:
    return _STORED if refused is None else refused.error
