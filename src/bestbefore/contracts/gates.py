"""What is remembered of the gate, for outside adapters too.

class TestMyGates(GatesContract):
    @pytest.fixture
    def gates(self) -> Gates: ...     # empty
"""

from datetime import UTC, datetime, timedelta

from bestbefore.ports.gates import GateRun, Gates

AT = datetime(2026, 7, 1, 2, 3, 4, 567_000, tzinfo=UTC)
HERE, THERE = b"h" * 32, b"t" * 32
PASSED = GateRun(HERE, AT, 21, 0, 3, "0.1.0", "mara@vm-1", 61.5)
FAILED = PASSED._replace(at=AT + timedelta(days=1), passed=20, failed=1)
SHOWED_NOTHING = PASSED._replace(at=AT + timedelta(days=2), passed=0)


class GatesContract:
    """The newest run, and the newest that passed, of each place."""

    def test_nothing_is_known_of_what_was_never_tried(self, gates: Gates) -> None:
        gates.remember(PASSED)

        assert gates.newest(THERE) is None
        assert gates.newest_passed(THERE) is None

    def test_a_run_comes_back_as_it_was(self, gates: Gates) -> None:
        gates.remember(PASSED)

        assert gates.newest(HERE) == gates.newest_passed(HERE) == PASSED

    def test_what_passed_is_found_behind_what_did_not(self, gates: Gates) -> None:
        for run in (PASSED, FAILED, SHOWED_NOTHING):
            gates.remember(run)

        assert gates.newest(HERE) == SHOWED_NOTHING
        assert gates.newest_passed(HERE) == PASSED

    def test_the_newest_is_what_was_remembered_last(self, gates: Gates) -> None:
        """Whatever a clock says that was turned back meanwhile."""
        gates.remember(FAILED)
        gates.remember(PASSED)

        assert gates.newest(HERE) == PASSED
