"""P10 and P9: what is out of its budget waits for a person, and takes nobody with it."""

from dataclasses import replace
from typing import Any, cast

from bestbefore.app.system import System
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.selection import MAX_KEY_BYTES
from bestbefore.gate.grounds import PREFIX
from bestbefore.gate.otherwise import Otherwise
from bestbefore.gate.scenario import Ground, scenario
from bestbefore.gate.stage import Stage
from bestbefore.ports.ledger import Claim, DeadFilter, DeadLetter, Entry, PlanLedger, PlannedPage
from bestbefore.read.incidents import incident_documents
from bestbefore.stages.redrive import correct, redrive

_FEW = 5
_MANY = 10
_EVERY = DeadFilter()


@scenario(
    "permission",
    "P10",
    "What may not be deleted waits as dead letters, of which a person sends one again",
    Ground.OBJECTS,
)
def permission(stage: Stage) -> None:
    _permission(stage)


@scenario(
    "permission-rows",
    "P10",
    "Rows that may not be deleted wait as dead letters, of which a person sends one again",
    Ground.ROWS,
)
def permission_rows(stage: Stage) -> None:
    _permission(stage)


def _permission(stage: Stage) -> None:
    evidence = stage.evidence
    stage.means()
    stage.fill(_FEW)
    policy = stage.policy()
    system = stage.open()
    run = stage.plan(system, policy)
    evidence.expect("commands planned", run.planned, _FEW)
    with stage.deprived() as denied:
        evidence.note("the right to delete was taken away")
        stage.work(denied, until=stage.hurrying())
        denied.give_back()
    evidence.note("the right to delete was given back")
    evidence.expect("commands whose target is still there", stage.left(), _FEW)
    letters = system.dead_letters.dead(_EVERY)
    evidence.expect("dead letters", len(letters), _FEW)
    spent = sorted({_told(one) for one in letters})
    wanted = f"permission, attempts: {policy.attempts.permission}"
    evidence.expect("why, and after how many attempts", spent, [wanted])
    incidents = incident_documents(system.records)
    evidence.expect("how many each incident groups", [one["dead"] for one in incidents], [_FEW])
    evidence.note("its error", incidents[0]["error"])
    stage.reconciles(system, run)

    chosen = letters[0].operation_id
    which = DeadFilter(among=frozenset({chosen}))
    sent = redrive(system.dead_letters, system.strays, which, system.clock, system.person)
    evidence.expect("dead letters that a person sent again", sent.redriven, 1)
    report = stage.work(system)
    evidence.expect("commands received after that", report.received, 1)
    wanted_ends = {"deleted": 1, "dead": _FEW - 1}
    evidence.expect("final states", stage.outcomes(system, run), wanted_ends)
    ended = [one.operation_id for one in stage.operations(system, run) if one.outcome is not None]
    evidence.expect("the one that ended", [id_.hex() for id_ in ended], [chosen.hex()])
    evidence.expect("commands whose target is still there", stage.left(), _FEW - 1)
    stage.reconciles(system, run)


@scenario(
    "malformed-key",
    "P9",
    "A key that no store can hold is dead after one attempt, alone, and can be corrected",
    Ground.OBJECTS,
)
def malformed_key(stage: Stage) -> None:
    evidence = stage.evidence
    stage.fill(_MANY)
    policy = stage.policy()
    system = stage.open()
    right = stage.objects.due()[0]
    run = _planned_with_a_wrong_key(stage, system, policy, right)
    evidence.note(
        f"in the plan, this key was replaced by one of {MAX_KEY_BYTES + 1:,} bytes", right
    )
    evidence.expect("commands planned", run.planned, _MANY)
    report = stage.work(system)
    ends = {"deleted": _MANY - 1, "dead": 1}
    evidence.expect("final states", stage.outcomes(system, run), ends)
    evidence.expect("attempts that are to be made again", report.retried.total(), 0)
    letters = system.dead_letters.dead(_EVERY)
    evidence.expect("dead letters", [_told(one) for one in letters], ["malformed, attempts: 1"])
    evidence.note("its error", letters[0].error.removeprefix(letters[0].key))
    evidence.expect("keys that are left", stage.objects.due(), [right])
    stage.reconciles(system, run)

    new = correct(
        system.dead_letters, letters[0], right, policy,
        lambda: system.store(policy.connection).lister, system.clock, system.person,
        version=letters[0].version_id,
    )  # fmt: skip
    evidence.note("a person gave the right key, as `dlq redrive --set key=…` does")
    report = stage.work(system)
    evidence.expect("commands received after that", report.received, 1)
    wanted = {"deleted": _MANY, "corrected": 1}
    evidence.expect("final states after that", stage.outcomes(system, run), wanted)
    links = {one.operation_id: one.corrects for one in stage.operations(system, run)}
    evidence.expect(
        "what the new command says it corrects",
        (links[new] or b"").hex(), letters[0].operation_id.hex(),
    )  # fmt: skip
    evidence.expect("objects left", stage.left(), 0)
    stage.reconciles(system, run)


def _told(letter: DeadLetter) -> str:
    return f"{letter.failure_class}, attempts: {letter.attempts}"


def _planned_with_a_wrong_key(stage: Stage, system: System, policy: Policy, key: str) -> Run:
    """Plan as ever, except that the command about *key* gets one that no planner lets through."""
    wrong = PREFIX + "x" * (MAX_KEY_BYTES + 1 - len(PREFIX))
    planner = system.planner(policy)
    ledger = cast("PlanLedger", _Miswriting(planner.ledger, policy, key, wrong))
    slot = stage.clock.now().replace(microsecond=0)
    return replace(planner, ledger=ledger).plan(policy, slot, Trigger.PLAN, approved=True).run


class _Miswriting(Otherwise[PlanLedger]):
    """A `PlanLedger` that is given another key than was listed."""

    def __init__(self, inner: PlanLedger, policy: Policy, key: str, wrong: str) -> None:
        super().__init__(inner)
        self._ids = ObjectIds(policy.name, policy.version, policy.container)
        self._key = key
        self._wrong = wrong

    def write_page(self, claim: Claim, page: PlannedPage, *more: Any) -> Run:
        page.entries = [
            self._miswritten(entry) if entry.item.key == self._key else entry
            for entry in page.entries
        ]
        return self._inner.write_page(claim, page, *more)

    def _miswritten(self, entry: Entry) -> Entry:
        item = entry.item._replace(key=self._wrong)
        id_ = self._ids.of(item.key, item.etag, item.last_modified, item.version_id)
        return entry._replace(operation_id=id_, item=item)
