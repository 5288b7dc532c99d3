"""Plan one slot: find what is past its time and write it into the ledger.

Planning writes, dispatch publishes. A planner holds no deleter, so no plan and no dry run can
delete anything.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from bestbefore.domain.hold import Held
from bestbefore.domain.known import Known
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import (
    Circumstances,
    Run,
    Trigger,
    park_reason,
    too_many_reappeared,
)
from bestbefore.domain.states import RunState
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Answer, PlanLedger, PlanTakenOver, Taken
from bestbefore.stages.survey import LEASE, Errand, PlanRefused, Stopped, Survey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a trigger led to.

    ``repeated`` means that the slot had its run already; ``approved`` that this call released it.
    """

    run: Run
    repeated: bool
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for the policies of one store or database.

    ``governed`` is given a policy and a slot, and says what the policies of other tables remove
    then, see `bestbefore.domain.rows.Governed`. ``on_parked`` hears of each run that waits for a
    decision once it is planned; it raises nothing.
    """

    ledger: PlanLedger
    survey: Survey
    clock: Clock
    spread: Callable[[], float]
    by: str
    on_page: Callable[[Run], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False
    holds: Callable[[Policy], Held] = lambda _: Held()
    ended: Callable[[Policy], Sequence[bytes]] = lambda _: ()
    governed: Callable[[Policy, datetime], Policy] = lambda policy, _: policy
    on_parked: Callable[[Policy, Run], None] = lambda *_: None

    def plan(
        self, policy: Policy, slot: datetime, trigger: Trigger, *, approved: bool = False
    ) -> Planned:
        """Answer *slot* with its one run, planning what of it is not planned yet.

        Raises PlanRefused, StoreError, LedgerError. Where it is interrupted the stored cursors
        let the next planner go on; where that one was quicker the run is theirs.
        """
        target = self.survey.target(policy, self.clock.now())
        doubt = self._doubt(policy)
        before = self._answer(self.ledger, policy, slot, target, trigger, approved, doubt)
        if before.claim is None:
            return Planned(before.run, repeated=True, approved=before.approved_now)
        return Planned(self._go_on(policy, before, target), repeated=False)

    def go_on(self, policy: Policy, run: Run) -> Run | None:
        """Take over a plan that nobody works on; None if somebody does after all."""
        target = self.survey.target(policy, self.clock.now())
        before = self.ledger.resume(run.row, self.clock.now(), LEASE)
        return self._go_on(policy, before, target) if before else None

    def preview(self, policy: Policy, slot: datetime, scratch: PlanLedger, trigger: Trigger,
                *, approved: bool = False) -> Run:  # fmt: skip
        """Draw the plan of *slot* into *scratch*, compared with this ledger, which is only read."""
        target = self.survey.target(policy, self.clock.now())
        doubt = self._doubt(policy)
        seen = self.ledger.circumstances(policy, target, approved=approved, doubt=doubt)
        before = self._answer(scratch, policy, slot, target, trigger, approved, doubt)

        def known(operation_ids: Sequence[bytes]) -> Mapping[bytes, Known]:
            found = self.ledger.known(operation_ids, taking_over=slot)
            scratch.remember(found, self.clock.now())
            return found

        taken = partial(self.ledger.taken, policy)
        return replace(self, ledger=scratch)._scan(policy, replace(before, seen=seen), known, taken)

    def _answer(
        self,
        ledger: PlanLedger,
        policy: Policy,
        slot: datetime,
        target: str,
        trigger: Trigger,
        approved: bool,
        doubt: str | None,
    ) -> Answer:
        """The run of *slot* in *ledger*, the real one or a preview's, claimed by this planner."""
        return ledger.answer(
            policy,
            slot,
            target,
            trigger,
            approved=approved,
            by=self.by,
            now=self.clock.now(),
            lease=LEASE,
            doubt=doubt,
        )

    def _doubt(self, policy: Policy) -> str | None:
        """Why someone should look first."""
        return self.survey.doubt(policy, partial(self.ended, policy))

    def _go_on(self, policy: Policy, before: Answer, target: str) -> Run:
        """Scan, unless half of the run was drawn from another place than this one."""
        if before.claim is not None and before.run.target != target:
            self.ledger.abandon(before.claim, self.clock.now())
            raise PlanRefused(
                f"policies.{policy.name}: run {before.run.run_id} began at {before.run.target}, "
                f"this configuration looks at {target}; cancel the run or take the change back"
            )
        taken = partial(self.ledger.taken, policy)
        run = self._scan(policy, before, self.ledger.known, taken)
        about = {"run_id": run.run_id, "policy": policy.name}
        log.info("run %s: %d scanned, %d planned", run.state, run.scanned, run.planned, extra=about)
        if run.state is RunState.PARKED:
            self.on_parked(policy, run)
        return run

    def _scan(
        self,
        policy: Policy,
        before: Answer,
        known: Callable[[Sequence[bytes]], Mapping[bytes, Known]],
        taken: Callable[[datetime], Sequence[Taken]],
    ) -> Run:
        claim = before.claim
        if claim is None:
            return before.run
        scan = self.survey.scan(
            Errand(
                self.governed(policy, before.run.slot),
                self.ledger,
                known,
                taken,
                self.clock,
                self.spread,
                self.on_page,
                self.stopping,
                self.holds(policy),
            )
        )
        about = {"run_id": before.run.run_id, "policy": policy.name}
        try:
            scan.run(claim, before.run, before.cursors)
            pointer = scan.pointer()
            seen = self.ledger.generations(claim.run) if pointer is not None else ()
            if pointer is not None and (why := pointer.why_all(seen)) is not None:
                # Else a cleanup that does nothing any more looks like one with nothing to do.
                log.warning("everything is kept: %s", why, extra=about)
            return self.ledger.conclude(
                claim,
                policy.keep_generations,
                lambda run: _verdict(run, policy, before.seen),
                self.clock.now(),
                pointer,
            )
        except BaseException as error:
            # Also on Ctrl-C: without it the next planner would wait for the lease to run out.
            run = self.ledger.abandon(claim, self.clock.now())
            if isinstance(error, Stopped | PlanTakenOver):
                return run
            raise


def _verdict(run: Run, policy: Policy, seen: Circumstances) -> str | None:
    eligible = run.planned + run.already_pending + run.already_completed + run.already_dead
    return too_many_reappeared(run.reappeared, eligible, seen) or park_reason(
        run, policy.reach, seen
    )
