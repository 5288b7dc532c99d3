"""What happens in the demo, in order. Every number comes from the ledger or from the store."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.app.demo.processes import FailingWorker, InHand, Processes
from bestbefore.app.demo.sample import (
    CURRENT,
    DENIED,
    GRANTED,
    OLDER_THAN_SECONDS,
    POLICY,
    PREFIX,
    Sample,
)
from bestbefore.app.demo.shipments import Shipments
from bestbefore.app.demo.telling import Summary, Teller, prove
from bestbefore.app.demo.worker import LEASE


@contextmanager
def staged(teller: Teller, keep: Path | None = None) -> Iterator["Story"]:
    """A story whose server, processes and files are gone on leaving, however that happens, but for
    what goes into *keep*."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="bestbefore-demo-")))
        with teller.waiting("starting an S3 server"):
            server = ending.enter_context(Seaweed(folder / "store"))
        sample = Sample(server)
        processes = Processes(folder, sample.configure(folder), ending)
        (beside := folder / "shipments").mkdir()
        rows = Processes(beside, {}, ending)
        yield Story(teller, sample, processes, rows, keep)


class Story:
    """One run of the demo. Raises Unexpected as soon as something is not as it says."""

    def __init__(
        self,
        teller: Teller,
        sample: Sample,
        processes: Processes,
        beside: Processes,
        keep: Path | None,
    ) -> None:
        self._keep = keep
        self._beside = beside
        self._teller = teller
        self._sample = sample
        self._processes = processes
        self._summary = Summary()
        self._overwritten = ""

    def tell(self) -> Summary:
        """Everything: a bucket, from the upload to the proof, and then a table."""
        began = time.monotonic()
        self._fill_the_store()
        run_id = self._look_before_leaping()
        self._approve_in_a_changed_world(run_id)
        frozen, stuck, lost = self._lose_two_workers(run_id)
        self._let_two_others_finish(run_id, lost)
        self._wake(frozen, stuck)
        self._correct_the_cause()
        self._prove_it(run_id)
        Shipments(self._teller, self._beside, self._summary, self._keep).tell()
        self._summary.seconds = round(time.monotonic() - began, 1)
        return self._summary

    def _fill_the_store(self) -> None:
        self._teller.chapter("A bucket full of weekly digests")
        with self._teller.waiting("uploading"):
            self._sample.upload()
        self._summary.uploaded, self._summary.odd_keys = self._sample.total, self._sample.odd
        self._teller.say(
            f"A real S3 server (SeaweedFS, in a temporary folder) holds {self._sample.total:,} "
            f"exports of six weeks. {self._sample.odd} of their keys break scripts: they contain "
            "+, %2B, spaces, line breaks, control characters or XML, or are 1,024 bytes long."
        )
        self._teller.say(
            "They were uploaded a moment ago and stand in for exports that are 30 days old: this "
            f'policy says older_than = "{OLDER_THAN_SECONDS}s" where yours would say "30d". '
            f"The newest week is kept whatever its age. And nobody gave us the right to delete the "
            f"exports of {DENIED}, which we do not know yet."
        )
        time.sleep(OLDER_THAN_SECONDS + 1)

    def _look_before_leaping(self) -> str:
        self._teller.chapter("Look before you leap")
        # Exit status 1: it would park, and then it does.
        self._show("plan", POLICY, "--dry-run", expect=1, lines=50)
        self._show("plan", POLICY, expect=1, lines=50)
        run = self._ask("runs", "list")[0]
        planned, kept = run["counts"]["planned"], run["protected"].get("generation", 0)
        self._summary.planned, self._summary.kept = planned, kept
        self._prove(
            f"all {planned:,} exports past their time were found, the odd keys too; the {kept:,} "
            "of the newest week are kept",
            planned == self._sample.expired and kept == len(self._sample.keys[CURRENT]),
        )
        self._prove(
            "more than max_deletes allows: nothing is deleted until a person says so",
            run["state"] == "parked" and len(self._sample.left()) == self._sample.total,
        )
        run_id: str = run["run_id"]
        return run_id

    def _approve_in_a_changed_world(self, run_id: str) -> None:
        self._overwritten = self._sample.keys[GRANTED[1]][0]
        self._teller.say(
            f"Before anybody looks, a customer exports again and overwrites {self._overwritten}, "
            "which the plan wants gone. Then the run is approved."
        )
        self._sample.put(self._overwritten, "second")
        # The newest week goes on too: without that the overwritten one would now be the youngest,
        # and be kept for it.
        self._sample.keys[CURRENT].append(new := f"{PREFIX}{CURRENT}/customer-new.json")
        self._sample.put(new, "first")
        self._show("runs", "approve", run_id)

    def _lose_two_workers(self, run_id: str) -> tuple[FailingWorker, InHand, int]:
        self._teller.chapter("Two workers at once, and both are lost in the middle of a batch")
        with self._teller.waiting("two workers are deleting"):
            killed = self._processes.start_failing_worker("killed")
            frozen = self._processes.start_failing_worker("frozen")
            dead, stuck = killed.caught(), frozen.caught()
            killed.kill()
            frozen.freeze()
        lost = dead.deleted + stuck.deleted
        self._summary.taken_twice = dead.commands + stuck.commands
        self._teller.say(
            f"The first one got a SIGKILL right after the store had deleted {dead.deleted} objects "
            "for it and before it could write that down. The second one was frozen (SIGSTOP) at "
            f"the same point, with {stuck.deleted}. Nobody told the others. What the two had "
            f"claimed comes back {LEASE.seconds} seconds later (in your configuration: 60 or more)."
        )
        recorded = self._ask("runs", "show", run_id)["outcomes"].get("deleted", 0)
        gone = self._sample.total - len(self._sample.left())
        self._prove(
            f"{gone:,} objects are gone from the store, the ledger knows of {recorded:,}: "
            f"{lost} are deleted and not recorded",
            gone - recorded == lost and lost > 0,
        )
        return frozen, stuck, lost

    def _let_two_others_finish(self, run_id: str, lost: int) -> None:
        self._teller.chapter("Two others go on")
        with self._teller.waiting("two workers are deleting"):
            pair = [self._processes.start("work", "--drain") for _ in range(2)]
            # Exit status 1: there are dead letters.
            answers = [worker.end(expect=1) for worker in pair]
        for answer in answers:
            self._teller.show(answer, 20)
        run = self._ask("runs", "show", run_id)
        outcomes, dead = run["outcomes"], run["counts"]["dead"]
        self._summary.dead_letters = dead
        self._prove(
            f"{self._summary.taken_twice} commands were delivered a second time; the {lost} whose "
            "objects were gone already ended as absent, once each",
            outcomes.get("absent") == lost,
        )
        self._prove(
            "the overwritten export was not what the plan saw, so it was kept (changed)",
            outcomes.get("changed") == 1 and self._overwritten in self._sample.left(),
        )
        self._prove(
            f"the {dead} exports nobody may delete stopped nothing but themselves",
            dead == len(self._sample.keys[DENIED])
            and run["counts"]["completed"] == self._summary.planned - dead,
        )

    def _wake(self, frozen: FailingWorker, stuck: InHand) -> None:
        with self._teller.waiting("the frozen worker wakes up"):
            report = frozen.wake()
        late = self._summary.late_results_refused = report["already_completed"]
        self._prove(
            f"the frozen worker woke up and reported its {late} results; they came too late, were "
            "refused, and changed nothing",
            late == stuck.commands,
        )

    def _correct_the_cause(self) -> None:
        self._teller.chapter(f"{self._summary.dead_letters} dead letters wait for a person")
        self._show("dlq", "list", lines=4)
        self._teller.say(f"Their owner grants the right to delete {DENIED}. Only these go again.")
        self._sample.grant(DENIED)
        self._show("dlq", "redrive", "--policy", POLICY, "--class", "permission")
        self._show("work", "--drain")

    def _prove_it(self, run_id: str) -> None:
        self._teller.chapter("Proof")
        summary = self._summary
        # Exit status 0 says that nothing is overdue, by a fresh listing of the store.
        self._show("verify", POLICY)
        run = self._ask("runs", "show", run_id)
        again = self._ask("plan", POLICY, "--slot", run["slot"])
        exported = self._processes.run("export", "--run", run_id).output.splitlines()
        evidence = [json.loads(line) for line in exported]
        left = self._sample.left()
        summary.overdue = self._ask("status")["policies"][0]["verified"]["overdue"]
        summary.outcomes = dict(Counter(operation["outcome"] for operation in evidence))
        summary.redriven = sum(operation["redriven"] > 0 for operation in evidence)
        summary.evidence = len(evidence)
        summary.left_in_store = len(left)
        self._prove("zero overdue, by a fresh listing of the store", summary.overdue == 0)
        self._prove(
            f"the {summary.redriven} dead letters were redriven and are done, and nothing else was",
            summary.redriven == summary.dead_letters and not run["counts"]["dead"],
        )
        self._prove(
            f"{summary.planned:,} planned, and as many lines of evidence: "
            + ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(summary.outcomes.items())),
            run["state"] == "drained"
            and summary.planned == summary.evidence == run["counts"]["completed"]
            and summary.outcomes == run["outcomes"],
        )
        self._prove(
            f"in the store are the newest week ({len(left) - 1:,}), the overwritten export, and "
            "nothing else",
            left == {*self._sample.keys[CURRENT], self._overwritten},
        )
        self._prove(
            "the same trigger once more is the same run, and publishes nothing",
            again["repeated"] and again["run_id"] == run_id and again["published"] == 0,
        )

    def _show(self, *arguments: str, expect: int = 0, lines: int = 20) -> None:
        self._teller.show(self._processes.run(*arguments, expect=expect), lines)

    def _ask(self, *arguments: str) -> Any:
        return self._processes.run(*arguments, "--json").document

    def _prove(self, claim: str, holds: bool) -> None:
        prove(self._teller, self._summary, claim, holds)
