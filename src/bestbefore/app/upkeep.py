"""Keeping the ledger small, in pieces of a few seconds, when there is nothing else to do.

What `bestbefore.ports.upkeep` says about the order is carried out here.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from bestbefore.app import evidence
from bestbefore.domain.failure import Failure
from bestbefore.domain.identity import instant
from bestbefore.domain.retention import Age
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.upkeep import Pass, UpkeepLedger, UpkeepTakenOver
from bestbefore.read.documents import Document, event_document
from bestbefore.read.operations import evidence_document
from bestbefore.stages.patience import worth_another_try

log = logging.getLogger(__name__)

EVERY = timedelta(days=1)
"""How long after one pass the next one begins."""

LONGEST = timedelta(minutes=10)
"""How long a process that has done its work stays for upkeep; the next one goes on."""

_LEASE = timedelta(minutes=5)
_LOOK_EVERY = timedelta(minutes=1)
_AFTER_AN_ERROR = timedelta(hours=1)
_FILE = 10_000
"""Operations in one file."""

_CHUNK = 500
_SHORTEST_REST = timedelta(milliseconds=5)
_OPERATIONS, _EVENTS = "operations", "events"
_Item = TypeVar("_Item")


class _NoAnswer(Exception):
    """A database does not answer now. The message says what is in it still."""


class Upkeep:
    """One process's share of upkeep. Without *keep* it never does anything.

    *forget* has the database of a policy forget batches that were pruned.
    """

    def __init__(
        self,
        ledger: UpkeepLedger,
        folder: Path,
        keep: Age | None,
        clock: Clock,
        forget: Callable[[str, Sequence[bytes]], Failure | None],
    ) -> None:
        self._ledger = ledger
        self._forget = forget
        self._folder = folder
        self._keep = keep
        self._clock = clock
        self._look_at: datetime | None = None

    def run(
        self, stopping: Callable[[], bool], on_piece: Callable[[], None] = lambda: None
    ) -> None:
        """Do what is due, for as long as `LONGEST` and until told to stop.

        Raises nothing: whoever calls has done what it was asked for.
        """
        end = self._clock.now() + LONGEST
        try:
            while not stopping() and self._clock.now() < end and self.piece():
                on_piece()
        except LedgerError as error:
            log.warning("upkeep: %s", error)

    def piece(self) -> bool:
        """Do a bounded piece if one is due. Returns whether to ask again at once."""
        if self._keep is None:
            return False
        now = self._clock.now()
        if self._look_at is not None and now < self._look_at:
            return False
        held = self._ledger.claim(now, EVERY, _LEASE)
        if held is None:
            self._look_at = now + _LOOK_EVERY
            return False
        try:
            self._go_on(held, self._keep.before(now), now)
        except UpkeepTakenOver as error:
            log.info("upkeep: %s", error)
        except evidence.EvidenceError as error:
            log.warning("upkeep: %s; what is not exported stays in the ledger", error)
            return self._failed(held, str(error), now)
        except _NoAnswer as error:
            log.warning("upkeep: %s; it is asked again in an hour", error)
            return self._failed(held, str(error), now)
        return True

    def _failed(self, held: Pass, error: str, now: datetime) -> bool:
        self._ledger.failed(held, error, now)
        self._look_at = now + _AFTER_AN_ERROR
        return False

    def _go_on(self, held: Pass, before: datetime, now: datetime) -> None:
        if held.export is not None:
            # Whoever had this pass before was killed: first what it exported and did not prune.
            self._prune(held, held.export, before)
            self._ledger.done(held, held.looked_at, finished=False, now=now)
            return
        old = self._ledger.old_operations(held.looked_at, before, _FILE, now)
        if old.upto is not None:
            self._export(
                held, _OPERATIONS, [evidence_document(*one) for one in old.operations], before, now
            )
            self._ledger.done(held, old.upto, finished=False, now=now)
            return
        events = self._ledger.old_events(before, _FILE)
        self._export(held, _EVENTS, [event_document(event) for event in events], before, now)
        finished = len(events) < _FILE
        self._ledger.done(held, held.looked_at, finished=finished, now=now)

    def _export(
        self, held: Pass, kind: str, documents: Sequence[Document], before: datetime, now: datetime
    ) -> None:
        if not documents:
            return
        stamp = instant(now).replace("-", "").replace(":", "")
        name = f"{now:%Y-%m-%d}/{kind}-{stamp}-{secrets.token_hex(4)}{evidence.SUFFIX}"
        self._ledger.expect(held, name, now, _LEASE)
        evidence.write(self._folder / name, documents)
        self._prune(held, name, before)

    def _prune(self, held: Pass, name: str, before: datetime) -> None:
        """Prune what the file *name* lists, and nothing else."""
        path = self._folder / name
        listed = evidence.read(path)
        if listed is None:
            evidence.discard(path)  # it never became whole, so nothing of it was pruned
            return
        events = path.name.startswith(_EVENTS)
        left: set[str] = set()
        for some in _chunks(listed):
            now = self._clock.now()
            if events:
                rows = [line["event"] for line in some]
                self._ledger.prune_events(held, rows, before, now, _LEASE)
            else:
                ids = [bytes.fromhex(line["operation_id"]) for line in some]
                self._ledger.prune_operations(held, ids, before, now, _LEASE)
                self._forget_batches(held, some, left)
            # Others want to write, too: half of the time is theirs.
            took = self._clock.now() - now
            self._clock.sleep(max(took, _SHORTEST_REST).total_seconds())

    def _forget_batches(self, held: Pass, pruned: Sequence[Document], left: set[str]) -> None:
        """Have their databases forget the batches among *pruned*.

        One that does not answer is waited for, but not longer than a day: the ledger would grow
        meanwhile. The records of policies in *left* stay where they are, for good.
        """
        batches: dict[str, list[bytes]] = {}
        for line in pruned:
            if line["batch"] is not None and line["policy"] not in left:
                batches.setdefault(line["policy"], []).append(bytes.fromhex(line["operation_id"]))
        for policy, ids in batches.items():
            failure = self._forget(policy, ids)
            if failure is None:
                continue
            said = f"policies.{policy}: completion records of pruned batches stay: {failure.error}"
            if worth_another_try(failure) and self._clock.now() - held.began < EVERY:
                raise _NoAnswer(said)
            log.warning("upkeep: %s", said)
            left.add(policy)


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
