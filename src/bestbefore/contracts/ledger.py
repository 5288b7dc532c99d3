"""What every ledger has to do, for outside adapters too.

Subclass `LedgerContract` in a test module and give it a fixture called ``sides``::

    @pytest.fixture
    def sides(tmp_path):
        yield Sides(plans=..., work=..., queue=..., dead_letters=..., records=..., upkeep=...,
                    controls=..., previews=...)

    class TestMyLedger(LedgerContract):
        pass
"""

from bestbefore.contracts.ledger_planning import PlanningContract
from bestbefore.contracts.ledger_results import ResultsContract
from bestbefore.contracts.ledger_world import Ledger, Sides

__all__ = ["Ledger", "LedgerContract", "Sides"]


class LedgerContract(ResultsContract, PlanningContract):
    """Planning, working and dead letters, whatever stores them."""
