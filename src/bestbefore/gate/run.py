"""Play the scenarios, one after the other, each in scratch places that are made and removed."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from bestbefore.app.scratch import scratch_queue, scratch_state, scratch_table
from bestbefore.app.settings import Settings
from bestbefore.app.system import System
from bestbefore.gate.environment import environment
from bestbefore.gate.grounds import PREFIX, ObjectGround, RowGround
from bestbefore.gate.scenario import (
    Broken,
    Evidence,
    Ground,
    NotApplicable,
    Scenario,
    Verdict,
)
from bestbefore.gate.scenarios import SCENARIOS
from bestbefore.gate.setup import Setup, ShiftedClock
from bestbefore.gate.stage import POLICY, Rights, Stage
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.records import OperationFilter
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import TransportFailed
from bestbefore.read.documents import Document

AnyGround = ObjectGround | RowGround
NOWHERE: Sequence[None] = (None,)

_LEASE = timedelta(seconds=60)
_ALL = 100_000
_AT_A_TIME = 500


class GateRefused(Exception):
    """The gate cannot begin: something of its scratch names is there, or there is nothing to try.
    The message says what, and the remedy."""


class UnknownScenario(LookupError):
    """No scenario of that name. The message lists those there are."""


class _Interrupted(BaseException):
    """A person wants no more, in the middle of a scenario."""


@dataclass(frozen=True, slots=True)
class Part:
    """One scenario on one place; ``ground`` is None where the configuration has none for it."""

    scenario: Scenario
    ground: AnyGround | None


def chosen(only: Collection[str]) -> Sequence[Scenario]:
    """The scenarios called *only*, or those of a promise (P3); all where nothing is said. Raises
    UnknownScenario."""
    known = {scenario.name for scenario in SCENARIOS} | {s.promise for s in SCENARIOS}
    if unknown := sorted(set(only) - known):
        names = ", ".join(scenario.name for scenario in SCENARIOS)
        raise UnknownScenario(f"there is no scenario {unknown[0]}; scenarios are: {names}")
    return [s for s in SCENARIOS if not only or s.name in only or s.promise in only]


class Gate:
    """One run of the gate over what *system* is configured with."""

    def __init__(self, system: System, rights: Rights | None = None) -> None:
        self._system = system
        self._settings: Settings = system.settings
        _check(rights, self._settings)
        self._rights = rights
        self._interruptible = False
        self.not_removed: Verdict | None = None
        """Where something of scratch could not be removed in the end: that, as a failure."""
        self._clock = ShiftedClock()
        self._state = scratch_state(self._settings)
        self._queue: ScratchQueue | None = scratch_queue(self._settings)
        if self._settings.queue.is_elsewhere and self._queue is None:
            raise GateRefused(
                f"queue.kind {self._settings.queue.kind}: this adapter, of another package, makes "
                "no scratch queue, and the gate never uses the real one; expected one of ours"
            )
        self._objects = list(self._buckets())
        self._rows = [
            RowGround(scratch_table(database), name, self._clock)
            for name, database in self._settings.databases.items()
            if rights is None or name not in rights.denied
        ]
        _refuse_protection_of_its_keys(self._settings)
        if not self._objects and not self._rows:
            raise GateRefused(
                f"{self._settings.path}: expected a policy over a store, or a database, to try the "
                "promises on; there is none"
            )

    def _buckets(self) -> Iterator[ObjectGround]:
        """The buckets that policies are about, each once for what is done with its versions."""
        denied = () if self._rights is None else self._rights.denied
        seen = set()
        for policy in self._settings.policies.values():
            about = (policy.connection, policy.container, policy.versions)
            if policy.about_rows or policy.connection in denied or about in seen:
                continue
            seen.add(about)
            store = self._system.store(policy.connection)
            if store.files is not None:
                yield ObjectGround(
                    store, policy.connection, policy.container, policy.versions, self._clock
                )

    def environment(self) -> Document:
        """What this is about. Raises what the ports raise."""
        tables = {ground.name: ground.table for ground in self._rows}
        return environment(self._system, self._state, tables)

    def parts(self, scenarios: Sequence[Scenario]) -> list[Part]:
        """What there is to play of *scenarios*, in order."""
        return [
            Part(scenario, ground)
            for scenario in scenarios
            for ground in self._grounds(scenario.ground) or NOWHERE
        ]

    def _grounds(self, ground: Ground) -> Sequence[AnyGround]:
        every: list[AnyGround] = [*self._objects, *self._rows]
        match ground:
            case Ground.OBJECTS:
                return self._objects
            case Ground.ROWS:
                return self._rows
            case Ground.EITHER:
                return every[:1]

    # -- scratch ---------------------------------------------------------------------------------

    def leftovers(self) -> list[str]:
        """What of the scratch names is there. Raises what the ports raise."""
        found = [self._state.name] if self._state.exists() else []
        if self._queue is not None and self._queue.exists():
            found.append(self._queue.name)
        found += [ground.place for ground in self._objects if not ground.is_empty()]
        found += [place for ground in self._rows for place in ground.leftovers()]
        return found

    def clean(self) -> list[str]:
        """Remove what a gate that was killed left, and give the right to delete back, where there
        is a command for that; returns what was removed. Raises what the ports raise, and Broken."""
        grounds: list[AnyGround] = [*self._objects, *self._rows]
        if self._rights is not None:
            for ground in grounds:
                self._rights.give_back(ground)
        found = self.leftovers()
        if self._state.exists():
            self._state.prove()
        self._remove()
        return found

    def refuse_leftovers(self) -> None:
        """Raise GateRefused where something of the scratch names is there already."""
        if found := self.leftovers():
            raise GateRefused(
                f"{'; '.join(found)}: expected nothing of that name, as the gate writes and "
                "deletes there; a gate that was killed may have left it: look, and then remove it "
                "with `bestbefore gate --clean`"
            )

    def _remove(self) -> None:
        """Remove all of the scratch names; goes on where one place fails, and raises then."""
        with ExitStack() as stack:
            stack.callback(self._state.remove)
            for rows in self._rows:
                stack.callback(rows.table.close)
                stack.callback(self._clear, rows)
            for objects in self._objects:
                stack.callback(self._clear, objects)
            if self._queue is not None:
                stack.callback(self._queue.remove)

    # -- playing ---------------------------------------------------------------------------------

    def play(
        self,
        scenarios: Sequence[Scenario],
        stopping: Callable[[], bool],
        on_begin: Callable[[Part], None] = lambda _: None,
        on_end: Callable[[Verdict], None] = lambda _: None,
    ) -> list[Verdict]:
        """Play *scenarios* on every place they are about, until *stopping*; then there are fewer
        verdicts than `parts`. Raises GateRefused where scratch is there already; removes its own
        whatever happens."""
        self.refuse_leftovers()
        self._state.create()
        verdicts: list[Verdict] = []
        try:
            self._refuse_what_stays()
            if self._queue is not None:
                self._queue.create()
            for part in self.parts(scenarios):
                if stopping():
                    break
                on_begin(part)
                verdicts.append(self._played(part, stopping))
                on_end(verdicts[-1])
        except _Interrupted:
            pass
        finally:
            self._remove_or_say()
        return verdicts

    def _refuse_what_stays(self) -> None:
        for ground in self._objects:
            try:
                ground.prove()
            except StoreError as error:
                raise GateRefused(
                    f"{ground.place}: an object that was written there could not be removed again: "
                    f"{error}; have this user put and delete there, in a bucket without a lock by "
                    "default"
                ) from error

    def _remove_or_say(self) -> None:
        try:
            self._remove()
        except (LedgerError, StoreError, TransportFailed) as error:
            self.not_removed = Verdict(
                _REMOVAL, "", False, f"{error}; look, and then `bestbefore gate --clean`", (), 0.0
            )

    def interrupt(self) -> None:
        """End the scenario that is playing, whatever it waits for. For the handler of a signal that
        has made ``stopping`` true; what is being removed meanwhile is removed to its end."""
        if self._interruptible:
            raise _Interrupted

    @contextmanager
    def _until(self, stopping: Callable[[], bool]) -> Iterator[None]:
        """What is done within can be interrupted at any instruction."""
        self._interruptible = True
        try:
            if stopping():
                raise _Interrupted
            yield
        finally:
            self._interruptible = False

    def _played(self, part: Part, stopping: Callable[[], bool]) -> Verdict:
        began = time.monotonic()
        evidence = Evidence()
        place = "" if part.ground is None else part.ground.place
        ok: bool | None = True
        reason = None
        if part.ground is None:
            wanted = f"the configuration has no {_WANTED[part.scenario.ground]}"
            return Verdict(part.scenario, place, None, wanted, (), 0.0)
        try:
            with self._staged(part.ground, evidence, stopping) as stage, self._until(stopping):
                part.scenario.play(stage)
        except NotApplicable as why:
            ok, reason = None, str(why)
        except Broken as broken:
            ok, reason = False, str(broken)
        except Exception as error:  # noqa: BLE001  (a scenario that cannot go on has not passed)
            ok, reason = False, f"{type(error).__name__}: {error}"
        return Verdict(part.scenario, place, ok, reason, evidence.facts, time.monotonic() - began)

    @contextmanager
    def _staged(
        self, ground: AnyGround, evidence: Evidence, stopping: Callable[[], bool]
    ) -> Iterator[Stage]:
        """A world of its own: an empty ledger, empty places, the right time."""
        self._clock.ahead = timedelta(0)
        self._state.renew()
        held_until = 0.0
        try:
            if isinstance(ground, RowGround):
                ground.table.create()
            stage = Stage(
                Setup(self._settings, {}, _LEASE),
                ground,
                evidence,
                self._clock,
                self._rights,
                stopping,
            )
            try:
                yield stage
            finally:
                stage.close()
                held_until = stage.held_until
        finally:
            self._clock.ahead = timedelta(0)
            self._drain(held_until)
            self._clear(ground)

    def _clear(self, ground: AnyGround) -> None:
        """Remove all that scenarios leave there, while the scratch ledger still knows what."""
        if isinstance(ground, ObjectGround):
            ground.clear()
            return
        try:
            if self._state.exists() and ground.table.exists():
                self._forget(ground)
        finally:
            ground.table.remove()

    def _forget(self, ground: RowGround) -> None:
        """Have the user's database forget the batches of the scratch ledger: by their ids, as to
        look for them in a table of millions would lock it from end to end."""
        system = Setup(self._settings, {}, _LEASE).open()
        try:
            every = system.records.operations(OperationFilter(policy=POLICY), _ALL)
            ids = [operation.operation_id for operation in every if operation.batch is not None]
            deleter = system.tables(ground.name).deleter
            for start in range(0, len(ids), _AT_A_TIME):
                failure = deleter.forget(ground.source(), ids[start : start + _AT_A_TIME])
                if failure is not None:
                    raise StoreError(failure)
        finally:
            system.close()

    def _drain(self, held_until: float) -> None:
        """Empty the scratch queue, so that no scenario sees another one's messages: those as well
        that processes have which were killed, until *held_until*."""
        if self._queue is None:
            return
        broker = self._queue.connect()
        try:
            if broker.transport.capabilities.leases:
                while (left := held_until - time.monotonic()) > 0:
                    wait = timedelta(seconds=min(left, 1.0))
                    broker.transport.ack(broker.transport.receive(100, _LEASE, wait))
            queues = [broker.transport, *([broker.dead_letters] if broker.dead_letters else [])]
            for queue in queues:
                while found := queue.receive(100, _LEASE, timedelta(seconds=0)):
                    queue.ack(found)
        finally:
            broker.close()


def _refuse_protection_of_its_keys(settings: Settings) -> None:
    """Raise GateRefused where a policy's protection would count the gate's keys: they are young,
    and so could stand for what is not to go."""
    for policy in settings.policies.values():
        if policy.keeps_some and PREFIX.startswith(policy.objects.prefix):
            raise GateRefused(
                f"policies.{policy.name} covers {PREFIX} of {policy.container}, and keeps "
                "generations or the newest: what the gate writes there would count among them; "
                "give it a narrower prefix, or try a configuration with another bucket"
            )


def _check(rights: Rights | None, settings: Settings) -> None:
    """Raise GateRefused unless what may not delete is there, beside something that may."""
    denied = () if rights is None else rights.denied
    every = {name: one.place for name, one in settings.stores.items()}
    every |= {name: one.place for name, one in settings.databases.items()}
    able = {place for name, place in every.items() if name not in denied}
    for name in denied:
        if name not in every:
            raise GateRefused(
                f"{settings.path}: there is no store or database {name}; expected one whose "
                f"credentials may not delete; there are: {', '.join(sorted(every))}"
            )
        if every[name] not in able:
            raise GateRefused(
                f"{name} is at {every[name]}: expected another of the same place, whose "
                "credentials may delete, as the gate tries one in place of the other"
            )


_REMOVAL = Scenario(
    "removal", "P12", "All that the gate made is removed again", Ground.EITHER, lambda _: None
)

_WANTED = {
    Ground.OBJECTS: "policy over objects in a store that this can write to",
    Ground.ROWS: "database",
    Ground.EITHER: "store or database",
}
