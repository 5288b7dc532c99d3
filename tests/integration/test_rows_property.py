"""Rows of any table, whatever happens to them and to the workers: what goes is what the policy lets
go, all of it, once, and nothing is unaccounted for at any moment."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings

from bestbefore.domain.rows import Effect
from bestbefore.domain.run import Run
from support.forks import Forks
from support.row_databases import RowDatabase
from support.row_grounds import AGE, Ground
from support.row_keepers import after, goes
from support.row_lives import LAPSED, Life
from support.row_worlds import RowWorld, worlds

GENERATIONS = 20
"""Plans after which nothing may be left: where a database cannot ask recursively, long chains of
rows go over several."""


class Story:
    """What is done to one world, and what has to hold meanwhile."""

    def __init__(self, ground: Ground, life: Life, forks: Forks) -> None:
        self.ground = ground
        self.world = ground.world
        self.life = life
        self.forks = forks
        life.begin(ground.url, ground.policy, self.world.cutoff + AGE)
        self.audit = life.audit
        self.seen = dict(ground.values())

    @property
    def cutoff(self) -> datetime:
        return self.life.clock.now() - AGE

    def plan(self) -> Run:
        """What may go is planned, and nothing else."""
        before = self.ground.everything()
        run = self.life.plan()
        assert self.ground.everything() == before, "a plan changed something"
        return run

    def change(self, which: str) -> None:
        self.ground.change(getattr(self.world, which))
        self.seen |= self.ground.values()

    @contextmanager
    def only_what_may_go(self) -> Iterator[None]:
        """Whatever goes meanwhile may, and takes along what is to go with it, and no more."""
        before, cutoff = self.ground.content(), self.cutoff
        yield
        now = self.ground.content()
        gone = before.rows.keys() - now.rows.keys()
        assert gone <= goes(self.world, before, cutoff), "went, and should have stayed"
        assert now == after(self.world, before, gone)
        self.check()

    def crash(self) -> None:
        """Have a worker work, and crash."""
        crash = self.world.crash
        if crash is None:
            return
        file = self.life.pack(crash)
        child = self.forks.start("support.row_lives:work", [file], cwd=self.life.state.parent)
        status = child.wait(120)
        assert status == 0 or (crash.killed and status == -signal.SIGKILL), child.said()
        self.life.clock.step(LAPSED)

    def drain(self) -> None:
        report = self.life.drain(self.world.threads)
        assert not report.dead, self.audit.rows("SELECT error FROM operations")
        assert not report.left, report

    def deliver_again(self) -> None:
        """All that has a record, and it changes nothing."""
        before = self.ground.everything()
        ended = self.audit.rows(
            "SELECT o.id, o.operation_id FROM operations o JOIN row_batches b ON b.operation = o.id"
            " WHERE b.seconds IS NOT NULL AND o.outcome NOT IN ('protected', 'changed')"
        )
        for row, id_ in ended:
            end = self.life.deliver(row, id_)
            assert isinstance(end, Effect), end
            assert end.replayed
        assert self.ground.everything() == before, "a second delivery changed something"

    def check(self) -> None:
        """What has to hold at any moment."""
        there, archived = self.ground.values(), self.ground.archived()
        records = self.ground.records()
        assert records.archived == len(archived)
        assert len(self.ground.rows) == len(there) + records.deleted + records.archived
        assert there.keys().isdisjoint(archived)
        assert there.keys() <= self.ground.rows.keys()
        for tag, values in archived.items():
            assert values == self.seen[tag], "archived as something else"
        assert self.audit.problems() == []

    def check_end(self) -> None:
        """What has to hold once nothing is left to do."""
        assert goes(self.world, self.ground.content(), self.cutoff) == set()
        records = self.ground.records()
        (told,) = self.audit.rows(
            "SELECT coalesce(sum(deleted), 0), coalesce(sum(archived), 0) FROM row_batches"
        )
        own = self.audit.rows("SELECT name, n FROM run_tallies WHERE kind = 'dependents'")
        along = sum(n for name, n in own if name.endswith(f".{self.world.names.table}"))
        assert (told[0] + along, told[1]) == (records.deleted, records.archived)


def live(ground: Ground, life: Life, forks: Forks) -> None:
    """A plan, what others do, a crash, more of it, a second delivery, plans until all is gone."""
    story = Story(ground, life, forks)
    may = goes(story.world, ground.content(), story.world.cutoff)
    run = story.plan()
    assert run.rows == len(may)
    story.change("before_work")
    with story.only_what_may_go():
        story.crash()
    story.change("after_crash")
    with story.only_what_may_go():
        story.drain()
    story.deliver_again()
    for _ in range(GENERATIONS):
        story.life.clock.step(timedelta(hours=1))
        if not story.plan().planned:
            break
        with story.only_what_may_go():
            story.drain()
    else:
        raise AssertionError("it never ends")
    story.deliver_again()
    story.check_end()


@pytest.mark.timeout(600)
def test_exactly_what_the_policy_lets_go_is_gone(
    row_database: RowDatabase, forks: Forks, tmp_path: Path
) -> None:
    @settings(
        max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "20")),
        deadline=None,
        derandomize="CI" in os.environ,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds(row_database.kind))
    def property_(world: RowWorld) -> None:
        note(repr(world))
        with Ground(row_database, world).made() as ground:
            live(ground, life, forks)

    with closing(Life(tmp_path)) as life:
        property_()
