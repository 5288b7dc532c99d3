"""Triggers that somebody waits for: planned in threads of this process, answered meanwhile.

Calls for one slot share one plan here, as they share one run in the ledger. What does not fit a
call goes on behind its answer, and where this process ends, any worker takes it over.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime

from bestbefore.app.system import System
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger, run_id
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import NotInLedger
from bestbefore.read.documents import Document, plan_document, when
from bestbefore.stages.work import Options

log = logging.getLogger(__name__)

MOST_PLANS = 8
"""Slots that one process plans at a time; others wait for their turn."""

_MOST_IDS = 150
"""Of runs in one answer, which stays under 4 KB."""


class Paused(Exception):
    """The policy that was named is paused. The message says why and until when."""


class NotBegun(Exception):
    """The run of a slot is not in the ledger yet, so that nothing can be promised about it."""


@dataclass(slots=True, eq=False)
class Job:
    """One slot that is planned, and what of it is small enough deleted, for everybody who asks.

    ``prompt`` says that what is small enough is deleted at once. ``run`` is the last that was heard
    of it; ``done`` holds the document of its plan in the end.
    """

    policy: Policy
    slot: datetime
    by: str
    prompt: bool
    trigger: Trigger = Trigger.HTTP
    run: Run | None = None
    begun: bool = False
    working: bool = False
    done: "Future[Document]" = field(default_factory=Future)

    @property
    def run_id(self) -> str:
        """The run that answers, whether it is there yet or not."""
        return run_id(self.policy.name, self.policy.version, self.slot)

    @property
    def patience(self) -> float:
        """For how many seconds it is worth waiting for all of it: as long as the policy says while
        deleting is under way, or what is planned so far is little enough for that."""
        if not self.prompt or not self.policy.about_rows or self.policy.action != "delete":
            return 0
        rows = self.policy.rows
        planned = 0 if self.run is None else self.run.rows
        if not self.working and planned >= rows.synchronous_below:
            return 0
        return rows.synchronous_within.total_seconds()


class Triggers:
    """Begins what triggers ask for. *asked* answers at once or not at all, *system* carries out."""

    def __init__(
        self,
        asked: System,
        system: System,
        options: Options,
        stopping: Callable[[], bool],
        *,
        work: bool,
    ) -> None:
        self._asked = asked
        self._system = system
        self._options = options
        self._stopping = stopping
        self._work = work
        self._pool = ThreadPoolExecutor(MOST_PLANS, "plan")
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def begin(
        self,
        name: str | None,
        slot: datetime | None,
        by: str,
        trigger: Trigger = Trigger.HTTP,
    ) -> Sequence[Job]:
        """The jobs for *slot*, else for the latest one due: that of the policy called *name*, or
        those of every policy with a schedule that is not paused.

        Raises UnknownPolicy, Paused, SlotRefused and LedgerError.
        """
        system, now = self._asked, self._asked.clock.now()
        pauses = {pause.policy: pause for pause in system.controls.pauses(now)}
        if name is not None:
            policy = system.policy(name)
            if (pause := pauses.get(name, pauses.get(None))) is not None:
                until = f" until {when(pause.until)}" if pause.until else ""
                raise Paused(f"policies.{name}: it is paused{until}: {pause.reason}")
            wanted = [policy]
        else:
            wanted = [
                policy
                for policy in system.settings.policies.values()
                if policy.schedule is not None and not {policy.name, None} & pauses.keys()
            ]
        chosen = [(policy, system.slot(policy, slot, trigger)) for policy in wanted]
        return [self._job(policy, slot, by, trigger) for policy, slot in chosen]

    def answer(self, job: Job) -> Document:
        """What can be said of *job* now: its plan's document, as of this moment.

        Raises what planning raised, NotBegun while there is no run, and LedgerError.
        """
        if job.done.done():
            return job.done.result()
        try:
            return plan_document(job.run or self._asked.records.run(job.run_id))
        except NotInLedger:
            raise NotBegun(
                f"policies.{job.policy.name}: planning {when(job.slot)} has not begun"
            ) from None

    def close(self, within: float) -> None:
        """Begin no more, and wait at most *within* seconds for the pages in hand."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            begun = [job.done for job in self._jobs.values() if job.begun]
        wait(begun, within)

    def _job(self, policy: Policy, slot: datetime, by: str, trigger: Trigger) -> Job:
        job = Job(policy, slot, by, prompt=self._work, trigger=trigger)
        with self._lock:
            if (known := self._jobs.get(job.run_id)) is not None:
                return known
            self._jobs[job.run_id] = job
        job.done.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        self._pool.submit(self._carry_out, job)
        return job

    def _carry_out(self, job: Job) -> None:
        job.begun = True

        def see(run: Run) -> None:
            job.run = run

        def work(run: Run) -> None:
            job.run, job.working = run, True

        try:
            if self._work:
                planned, _ = self._system.answer(
                    job.policy, job.slot, job.trigger, self._options,
                    stopping=self._stopping, by=job.by, on_page=see, on_work=work,
                )  # fmt: skip
            else:
                planner = self._system.planner(job.policy, see, self._stopping, job.by)
                planned = planner.plan(job.policy, job.slot, job.trigger)
            document = plan_document(planned.run, repeated=planned.repeated)
            # Read once for all who wait, as what was small enough may be deleted by now.
            run = self._system.records.run(job.run_id)
            document |= {"state": run.state.value, "complete": run.complete}
        except Exception as error:  # noqa: BLE001  (it is raised where somebody waits for it)
            log.warning("policies.%s: slot %s: %s", job.policy.name, when(job.slot), error)
            self._end(job)
            job.done.set_exception(error)
        else:
            self._end(job)
            job.done.set_result(document)

    def _end(self, job: Job) -> None:
        with self._lock:
            del self._jobs[job.run_id]


def summary(documents: Sequence[Document]) -> Document:
    """One answer about one plan, or about several: then ``policy``, ``slot`` and a ``state`` that
    they do not share are null, and the counts are sums. At most 150 runs are named."""
    one = documents[0] if len(documents) == 1 else None
    states = {document["state"] for document in documents}
    return {
        "run_ids": [document["run_id"] for document in documents[:_MOST_IDS]],
        "policy": one and one["policy"],
        "slot": one and one["slot"],
        "eligible": sum(document["eligible"] for document in documents),
        "published": sum(document["published"] for document in documents),
        "created_batches": sum(document.get("created_batches", 0) for document in documents),
        "complete": all(document["complete"] for document in documents),
        "state": states.pop() if len(states) == 1 else None,
    }


def over(documents: Sequence[Document]) -> bool:
    """Whether there is nothing more to be done for any of these plans."""
    return all(d["state"] in (RunState.DRAINED, RunState.CANCELLED) for d in documents)
