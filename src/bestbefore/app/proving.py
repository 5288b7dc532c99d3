"""The proof at the end: once a run has drained, its source is looked at again, within bounds.

A part of a scan proves nothing, so what does not end in time leaves the older number, with its
time. One process does it, once for a run, and never in the way of the work.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.proofs import Proofs
from bestbefore.ports.records import Records, Verification
from bestbefore.stages.survey import PlanRefused, Stopped

log = logging.getLogger(__name__)

BUDGET = timedelta(seconds=60)
"""How long one look may take."""

_LEASE = timedelta(minutes=10)
_LOOK_EVERY = timedelta(seconds=5)
_PATIENCE_SECONDS = 20.0


class Verify(Protocol):
    """Verifies a policy, stores what it found and returns how many are overdue.

    Raises Stopped once it is told to stop.
    """

    def __call__(self, policy: Policy, stopping: Callable[[], bool]) -> int: ...


class Proving:
    """One process's share of it."""

    def __init__(
        self,
        proofs: Proofs,
        records: Records,
        policies: Mapping[str, Policy],
        clock: Clock,
        verify: Verify,
    ) -> None:
        self._proofs = proofs
        self._records = records
        self._policies = policies
        self._clock = clock
        self._verify = verify
        self._look_at: datetime | None = None
        self._thread: threading.Thread | None = None

    def run(
        self, stopping: Callable[[], bool], on_claim: Callable[[], None] = lambda: None
    ) -> None:
        """Verify everything that drained and was not verified, until told to stop.

        Raises nothing that a source or the ledger may say: what was asked for is done by now.
        """
        try:
            while not stopping() and (run := self._claim()) is not None:
                on_claim()
                self._prove(run, stopping)
        except LedgerError as error:
            log.warning("no verification: %s", error)

    def beside(self, stopping: Callable[[], bool]) -> None:
        """Do the same in a thread of its own, if something is due and none is at it."""
        now = self._clock.now()
        if self._look_at is not None and now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY
        if self._thread is not None and self._thread.is_alive():
            return
        run = self._claim()
        if run is not None:
            self._thread = threading.Thread(
                target=self._prove_first, args=(run, stopping), name="verify", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Wait for the thread, which has been told to stop."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def _claim(self) -> Run | None:
        versions = {name: policy.version for name, policy in self._policies.items()}
        return self._proofs.claim(versions, self._clock.now(), _LEASE)

    def _prove_first(self, run: Run, stopping: Callable[[], bool]) -> None:
        try:
            self._prove(run, stopping)
            self.run(stopping)
        except LedgerError as error:
            log.warning("no verification: %s", error)
        except (
            Exception
        ):  # a fault of ours must not end as silence; the lease keeps it from looping
            log.exception("a verification failed in a way nobody foresaw")

    def _prove(self, run: Run, stopping: Callable[[], bool]) -> None:
        if not run.eligible:
            # Its own scan has found nothing that is past the cutoff: that is the proof.
            known = self._records.verification(run.policy)
            if known is None or known.at < run.created_at:
                found = Verification(run.created_at, 0, None, 0)
                self._records.save_verification(run.policy, found)
            self._proofs.close(run)
            return
        until = self._clock.now() + BUDGET
        about = {"run_id": run.run_id, "policy": run.policy}
        try:
            overdue = self._verify(
                self._policies[run.policy], lambda: stopping() or self._clock.now() >= until
            )
            log.info("verified: %d overdue", overdue, extra=about)
        except Stopped:
            if stopping():
                return  # another process may claim it once the lease has run out
            log.info("a verification takes too long; the last one stands", extra=about)
        except (LedgerError, PlanRefused, StoreError) as error:
            log.warning("not verified: %s", error, extra=about)
        self._proofs.close(run)
