"""Who verifies a drained run, for outside adapters too: see `contracts.ledger`.

class TestMyProofs(ProofsContract):
    @pytest.fixture
    def proofs(self) -> Proofs: ...     # of the same ledger as ``sides``
"""

from dataclasses import replace

import pytest

from bestbefore.contracts.ledger_world import DAY, LEASE, ME, POLICY, SLOT, Ledger, Sides, capped
from bestbefore.ports.proofs import Proofs

VERSIONS = {POLICY.name: POLICY.version}


class ProofsContract:
    """One look per run, by one process."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_a_drained_run_is_claimed_by_one(self, ledger: Ledger, proofs: Proofs) -> None:
        run = ledger.plan("a")
        assert proofs.claim(VERSIONS, SLOT, LEASE) is None
        ledger.end()

        claimed = proofs.claim(VERSIONS, SLOT, LEASE)

        assert claimed == ledger.again(run)
        assert proofs.claim(VERSIONS, SLOT, LEASE) is None

    def test_a_claim_that_ran_out_is_free_and_a_closed_one_never(
        self, ledger: Ledger, proofs: Proofs
    ) -> None:
        ledger.plan("a")
        ledger.end()
        proofs.claim(VERSIONS, SLOT, LEASE)

        again = proofs.claim(VERSIONS, SLOT + LEASE, LEASE)
        assert again is not None
        proofs.close(again)

        assert proofs.claim(VERSIONS, SLOT + 400 * DAY, LEASE) is None

    def test_only_the_newest_released_run_is_worth_a_look(
        self, ledger: Ledger, proofs: Proofs
    ) -> None:
        ledger.plan("a")
        ledger.end()
        newer = ledger.plan("b", slot=SLOT + DAY)
        assert proofs.claim(VERSIONS, SLOT + DAY, LEASE) is None

        ledger.end(now=SLOT + DAY)
        ledger.plan("c", "d", of=capped(1), slot=SLOT + 2 * DAY)  # parked, so not released

        assert proofs.claim(VERSIONS, SLOT + 2 * DAY, LEASE) == ledger.again(newer)

    def test_another_version_of_the_policy_is_not_ours_to_verify(
        self, ledger: Ledger, proofs: Proofs
    ) -> None:
        ledger.plan("a", of=replace(POLICY, version="v2"))
        ledger.end()

        assert proofs.claim(VERSIONS, SLOT, LEASE) is None
        assert proofs.claim({}, SLOT, LEASE) is None

    def test_a_cancelled_run_is_not_verified(self, ledger: Ledger, proofs: Proofs) -> None:
        run = ledger.plan("a")
        ledger.plans.cancel(run.run_id, "a mistake", ME, SLOT)

        assert proofs.claim(VERSIONS, SLOT, LEASE) is None
