"""What a plan relied on, and whether that still holds when its commands are carried out.

Between a plan and its execution, or the redrive of one of its dead letters, days can pass. What it
kept may be gone by then, and what it selected the only good copy that is left.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Spared
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.selection import GENERATION, KEEP_LAST, Listed, Selector, Verdict
from bestbefore.domain.skew import clock_problem
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Kept, Operation, WorkLedger
from bestbefore.ports.objects import KeyRange, ObjectLister, unfit
from bestbefore.stages import pointer

log = logging.getLogger(__name__)

_GOOD_FOR = timedelta(seconds=60)
_MOST_REMEMBERED = 100_000


class Pointed(NamedTuple):
    """What a pointer says: the generations it names, or why everything has to be kept."""

    named: frozenset[str]
    why_all: str | None


_NOTHING = Pointed(frozenset(), "it was not asked yet")


@dataclass(slots=True)
class Confirmed:
    """Answers about the runs of one store, each asked for at most once a minute.

    Safe to share between threads. Everything raises StoreError where the store cannot say.
    """

    lister: ObjectLister
    ledger: WorkLedger
    clock: Clock
    _places: dict[int, tuple[datetime, Failure | None]] = field(default_factory=dict)
    _generations: dict[int, tuple[datetime, frozenset[str]]] = field(default_factory=dict)
    _groups: dict[tuple[int, str], tuple[datetime, Mapping[str, str]]] = field(default_factory=dict)
    _pointers: dict[int, tuple[datetime, Pointed]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, policy: Policy, run: int) -> Failure | None:
        """Why nothing of *run* may be touched here, or None.

        A store of the same name that is another one, or a bucket that keeps versions by now, is
        not what the plan looked at.
        """
        with self._lock:
            now = self.clock.now()
            asked_at, failure = self._places.get(run, (now - 2 * _GOOD_FOR, None))
            if now - asked_at > _GOOD_FOR:
                failure = self._look_around(policy, run)
                self._places[run] = (now, failure)
            return failure

    def protected(
        self, policy: Policy, run: int, operations: Sequence[Operation]
    ) -> dict[int, Spared]:
        """By row, why those of *operations* stay that are, or may by now be, among the newest.

        An operation of a kept generation is protected, and so is every one once a kept generation
        holds no object any more; likewise for the last N of its group. So is what the pointer
        names by now, and everything where it names nothing that the plan saw.
        """
        source = policy.objects
        if not source.keeps_some:
            return {}
        selector = Selector.of(source, self.clock.now(), self.clock.now())
        protected: dict[int, Spared] = {}
        if source.current_pointer is not None:
            pointed = self._pointed(policy, run)
            for operation in operations:
                generation = selector.generation(operation.key)
                if pointed.why_all is not None:
                    protected[operation.row] = Spared(Verdict.POINTER, pointed.why_all)
                elif generation in pointed.named:
                    protected[operation.row] = Spared(
                        Verdict.POINTER, f"{source.current_pointer} names {generation}"
                    )
        if source.keep_generations or source.current_pointer is not None:
            kept = self._kept_generations(policy, selector, run)
            for operation in operations:
                generation = selector.generation(operation.key)
                if not kept or generation in kept:
                    why = f"{generation} is kept" if kept else "a kept one holds no object any more"
                    protected.setdefault(operation.row, Spared(GENERATION, why))
        if source.keep_last:
            objects = [o for o in operations if o.upload_id is None]
            groups = {o.row: selector.keep_last_group(o.key) for o in objects}
            last = self._kept_last(
                policy, selector, run, {g for g in groups.values() if g is not None}
            )
            for operation in objects:
                group = groups[operation.row]
                if group is not None and (not last[group] or _is_among(operation, last[group])):
                    why = "it is kept" if last[group] else "a kept one is not there any more"
                    protected.setdefault(operation.row, Spared(KEEP_LAST, why))
        return protected

    def _pointed(self, policy: Policy, run: int) -> Pointed:
        """What the policy's pointer says about the generations that the run's plan saw."""
        with self._lock:
            now = self.clock.now()
            asked_at, pointed = self._pointers.get(run, (now - 2 * _GOOD_FOR, _NOTHING))
            if now - asked_at > _GOOD_FOR:
                said = pointer.ask(self.lister, policy.objects) or Pointer("")
                seen = self.ledger.generations(run)
                pointed = Pointed(said.names(seen), said.why_all(seen))
                self._pointers[run] = (now, pointed)
                if pointed.why_all is not None:
                    about = {"policy": policy.name}
                    log.warning("everything is kept: %s", pointed.why_all, extra=about)
            return pointed

    def _look_around(self, policy: Policy, run: int) -> Failure | None:
        source = policy.objects
        facts = self.lister.describe(source.bucket)
        if problem := clock_problem(self.clock.now(), facts.server_time, facts.endpoint):
            # As a store would say it of a request that is signed by this clock.
            return Failure(FailureClass.CREDENTIALS, problem)
        planned, here = self.ledger.target(run), facts.target(source.bucket, source.prefix)
        if planned != here:
            problem = f"planned at {planned}, but this worker would delete at {here}"
        elif facts.versioning is not None and source.versions is None:
            problem = f"{here}: versioning was switched on ({facts.versioning}) after the plan"
        elif (changed := unfit(facts, source)) is not None:
            problem = f"{here} is not what it was when this was planned: {changed}"
        else:
            return None
        return Failure(FailureClass.MALFORMED, problem, whole_source=True)

    def _kept_generations(self, policy: Policy, selector: Selector, run: int) -> frozenset[str]:
        """The generations the run's plan kept, or none if one of them holds no object any more."""
        with self._lock:
            now = self.clock.now()
            asked_at, kept = self._generations.get(run, (now - 2 * _GOOD_FOR, frozenset()))
            if now - asked_at > _GOOD_FOR:
                planned = self.ledger.kept_generations(run)
                there = all(
                    self._holds_objects(policy, selector, name, prefix)
                    for name, prefix in planned.items()
                )
                kept = frozenset(planned) if there else frozenset()
                self._generations[run] = (now, kept)
            return kept

    def _holds_objects(
        self, policy: Policy, selector: Selector, generation: str, prefix: str
    ) -> bool:
        rest: KeyRange | None = KeyRange(None, None)
        while rest is not None:
            page = self.lister.page(policy.objects.bucket, prefix, rest)
            if any(selector.generation(item.key) == generation for item in page.items):
                return True
            rest = page.rest
        return False

    def _kept_last(
        self, policy: Policy, selector: Selector, run: int, groups: Iterable[str]
    ) -> dict[str, Mapping[str, str]]:
        """By group the keys the plan kept and how old what is under them was, or none if one of
        them is not there any more."""
        with self._lock:
            now = self.clock.now()
            known = {
                group: keys
                for group in groups
                for asked_at, keys in [self._groups.get((run, group), (now - 2 * _GOOD_FOR, None))]
                if keys is not None and now - asked_at <= _GOOD_FOR
            }
            asked = [group for group in groups if group not in known]
            planned = self.ledger.kept_last(run, asked) if asked else {}
            keys = sorted({kept.key for group in planned.values() for kept in group})
            found = self.lister.look(policy.objects.bucket, keys) if keys else {}
            if len(self._groups) > _MOST_REMEMBERED:
                self._groups.clear()
            for group in asked:
                there = all(
                    _still_counts(kept, found[kept.key], selector)
                    for kept in planned.get(group, ())
                )
                known[group] = (
                    {kept.key: instant(kept.last_modified) for kept in planned.get(group, ())}
                    if there
                    else {}
                )
                self._groups[run, group] = (now, known[group])
            return known


def _is_among(operation: Operation, kept: Mapping[str, str]) -> bool:
    """Whether *operation* is about one of the *kept*: of a key's versions only that one is."""
    since = kept.get(operation.key)
    if since is None or operation.version is None:
        return since is not None
    return instant(operation.last_modified) >= since


def _still_counts(kept: Kept, found: Listed | Failure | None, selector: Selector) -> bool:
    """Whether something as good as what was kept is still under its key."""
    return (
        isinstance(found, Listed)
        and instant(found.last_modified) >= instant(kept.last_modified)
        and selector.counts_for_keep_last(found)
    )
