"""What every place for pauses and breakers has to do.

Subclass `ControlsContract` in a test module and give it the fixture ``sides`` of a
`bestbefore.contracts.ledger.LedgerContract`.
"""

from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, ME, SLOT, Sides
from bestbefore.ports.controls import Controls

_SECOND = timedelta(seconds=1)


class ControlsContract:
    """Pauses end, and a breaker is asked about ever more rarely."""

    @pytest.fixture
    def controls(self, sides: Sides) -> Controls:
        return sides.controls

    def test_pauses_hold_until_they_end_or_are_lifted(self, controls: Controls) -> None:
        controls.pause("exports", "audit", None, ME, SLOT)
        controls.pause(None, "incident", SLOT + DAY, ME, SLOT)

        assert {pause.policy for pause in controls.pauses(SLOT)} == {"exports", None}
        assert {pause.policy for pause in controls.pauses(SLOT + DAY)} == {"exports"}
        assert controls.resume_work("exports", ME, SLOT)
        assert not controls.resume_work("exports", ME, SLOT)
        assert {pause.policy for pause in controls.pauses(SLOT)} == {None}

    def test_a_breaker_is_probed_after_30_seconds_and_then_ever_more_rarely(
        self, controls: Controls
    ) -> None:
        controls.trip("s", "expired", SLOT)
        controls.trip("s", "still expired", SLOT + timedelta(seconds=1))

        probes = [n for n in range(3_000) if controls.claim_probe("s", SLOT + n * _SECOND)]

        assert probes == [30, 90, 210, 450, 930, 1_530, 2_130, 2_730]
        (breaker,) = controls.breakers()
        assert (breaker.reason, breaker.opened_at) == ("still expired", SLOT)
        controls.reset("s")
        assert controls.breakers() == []
        assert not controls.claim_probe("s", SLOT + DAY)
