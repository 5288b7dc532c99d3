"""What every store of holds has to do. To run it over one::

class TestMyHolds(HoldsContract):
    @pytest.fixture
    def holds(self) -> Holds: ...     # empty
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.hold import Hold, Scope
from bestbefore.ports.holds import Holds
from bestbefore.ports.ledger import LedgerError

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
OF_POLICY = Hold(Scope(policy="exports"), "audit", None, "eve@here", NOW)
OF_PREFIX = Hold(
    Scope(store="s", place="http://s", bucket="bucket", prefix="exports/größe/"),
    "court case 7",
    NOW + HOUR,
    "ann@here",
    NOW + timedelta(seconds=1),
)


class HoldsContract:
    """Inherit, and give a ``holds`` fixture."""

    def test_what_was_added_is_in_force_as_it_was_given(self, holds: Holds) -> None:
        assert list(holds.in_force(NOW)) == []
        holds.add(OF_PREFIX)
        holds.add(OF_POLICY)
        assert list(holds.in_force(NOW)) == [OF_POLICY, OF_PREFIX]

    def test_the_same_hold_again_is_one_hold(self, holds: Holds) -> None:
        holds.add(OF_POLICY)
        holds.add(replace(OF_POLICY, by="somebody@else", at=NOW + HOUR))
        assert list(holds.in_force(NOW)) == [OF_POLICY]

    def test_another_reason_is_another_hold_that_ends_by_itself(self, holds: Holds) -> None:
        """Else the second person's removal would end the first one's protection."""
        other = replace(OF_POLICY, reason="court case 7", at=NOW + HOUR)
        holds.add(OF_POLICY)
        holds.add(other)
        holds.remove(other.hold_id, "ann@here", NOW + HOUR)
        assert list(holds.in_force(NOW)) == [OF_POLICY]

    def test_its_end_comes_by_itself(self, holds: Holds) -> None:
        holds.add(OF_PREFIX)
        assert list(holds.in_force(NOW + HOUR - timedelta(microseconds=1))) == [OF_PREFIX]
        assert list(holds.in_force(NOW + HOUR)) == []

    def test_a_removed_hold_is_gone_and_can_be_added_again(self, holds: Holds) -> None:
        holds.add(OF_POLICY)
        assert holds.remove(OF_POLICY.hold_id, "ann@here", NOW) == OF_POLICY
        assert list(holds.in_force(NOW)) == []
        holds.add(OF_POLICY)
        assert list(holds.in_force(NOW)) == [OF_POLICY]

    @pytest.mark.parametrize("hold_id", ["0123456789ab", "", OF_PREFIX.hold_id])
    def test_what_is_not_in_force_cannot_be_removed(self, holds: Holds, hold_id: str) -> None:
        holds.add(OF_PREFIX)
        with pytest.raises(LedgerError, match="no such hold in force"):
            holds.remove(hold_id, "ann@here", NOW + HOUR)
