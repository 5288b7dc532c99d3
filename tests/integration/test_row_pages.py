"""How the batches of a table reach the ledger while it is gone through."""

from pathlib import Path

from bestbefore.domain.run import Trigger
from support.shops import Shop


def test_workers_get_batches_before_the_whole_table_has_been_looked_at(tmp_path: Path) -> None:
    with Shop(tmp_path, policy={"batch_size": 1_000}) as shop:
        shop.fill(100_000)
        pages: list[tuple[int, int]] = []
        planner = shop.system.planner(
            shop.policy, lambda run: pages.append((run.scanned, run.waiting))
        )

        run = planner.plan(shop.policy, shop.clock.now(), Trigger.RUN, approved=True).run

        assert pages[0] == (50_000, 50)
        assert (run.scanned, run.planned) == (100_000, 100)
