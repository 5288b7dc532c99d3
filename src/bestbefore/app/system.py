"""The wiring: what one process has of everything that its configuration names."""

import getpass
import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state.access import SqlAccess, SqlAnswers, SqlDeliveries
from bestbefore.adapters.state.controls import SqlControls
from bestbefore.adapters.state.copies import SqlArchives
from bestbefore.adapters.state.dashboard import SqlBacklogs, SqlSessions
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.dead_letters import SqlDeadLetters
from bestbefore.adapters.state.endpoints import SqlEndpointMemory
from bestbefore.adapters.state.gates import SqlGates
from bestbefore.adapters.state.holds import SqlHolds
from bestbefore.adapters.state.measures import SqlMeasures
from bestbefore.adapters.state.outbox import SqlOutbox
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.previews import SqlPreviews
from bestbefore.adapters.state.proofs import SqlProofs
from bestbefore.adapters.state.queue import StateQueue
from bestbefore.adapters.state.records import SqlRecords
from bestbefore.adapters.state.rerouting import SqlRerouting
from bestbefore.adapters.state.slots import SqlSlots
from bestbefore.adapters.state.strays import SqlStrays
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.adapters.state.upkeep import SqlUpkeepLedger
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.app import brokers
from bestbefore.app.clock import SystemClock
from bestbefore.app.connecting import Tables, connect_store, connect_tables
from bestbefore.app.governed import governed
from bestbefore.app.proving import Proving
from bestbefore.app.schedule import Schedule
from bestbefore.app.settings import DatabaseSettings, Settings, StoreSettings, load
from bestbefore.app.tracing import Traced, tracer
from bestbefore.app.upkeep import Upkeep
from bestbefore.app.working import Working
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Held
from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.sizing import RECENT, Batches
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.files import FileStore
from bestbefore.ports.ledger import LedgerError, PolicyEdited
from bestbefore.ports.objects import StoreError
from bestbefore.ports.queue import Queue
from bestbefore.ports.rows import RowRestorer
from bestbefore.ports.stores import Store
from bestbefore.ports.threads import Threads
from bestbefore.ports.transport import Broker
from bestbefore.stages.archive import Depot
from bestbefore.stages.carry import Carried
from bestbefore.stages.plan import Planned, Planner
from bestbefore.stages.prompt import finish
from bestbefore.stages.row_scan import RowSurvey
from bestbefore.stages.scan import ObjectSurvey
from bestbefore.stages.survey import PlanRefused, Survey
from bestbefore.stages.ticker import Ticker
from bestbefore.stages.trigger import choose_slot
from bestbefore.stages.work import Options

_MOST_REMEMBERED = 100
"""Batches that a database is asked about, to tell whether it was restored."""


class UnknownPolicy(LookupError):
    """No policy of that name in the configuration. The message lists those there are."""


class System:
    """One process's view of everything its configuration names."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        stores: Callable[[StoreSettings, Clock, EndpointMemory], Store],
        tables: Callable[[DatabaseSettings], Tables],
        *,
        patient: bool = True,
        broker: Callable[[Settings], Broker] = brokers.connect,
        database: Callable[[str], Database] = Database,
        threads: Threads = ThreadPoolExecutor,
        edited: Callable[[PolicyEdited], None] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.calendar: Calendar = CronCalendar()
        self.spread: Callable[[], float] = random.SystemRandom().random
        self.worker_name = f"{socket.gethostname()}:{os.getpid()}{'' if patient else ':http'}"
        self.person = person()
        self._patient = patient
        self._make_store = stores
        self._stores: dict[str, Store] = {}
        self._make_tables = tables
        self._tables: dict[str, Tables] = {}
        self._make_broker = broker
        self._make_database = database
        self.threads = threads
        self._broker: Broker | None = None
        self._carried: Carried | None = None
        self._lock = threading.Lock()
        self.working = Working(self)
        self.database = database(settings.state.url)
        self.database.give_up_when(lambda: not patient)
        self.database.prepare()
        self.plans = SqlPlanLedger(self.database)
        self.work = SqlWorkLedger(self.database)
        self.controls = SqlControls(self.database)
        self.throttles = SqlThrottles(self.database)
        self.embedded = StateQueue(self.database)
        self.outbox = SqlOutbox(self.database)
        self.rerouting = SqlRerouting(self.database)
        self.dead_letters = SqlDeadLetters(self.database)
        self.strays = SqlStrays(self.database)
        self.archives = SqlArchives(self.database)
        self.records = SqlRecords(self.database)
        self.previews = SqlPreviews(self.database)
        self.measuring = SqlMeasures(self.database)
        self.proofs = SqlProofs(self.database)
        self.holds = SqlHolds(self.database)
        self.access = SqlAccess(self.database)
        self.deliveries = SqlDeliveries(self.database)
        self.answers = SqlAnswers(self.database)
        self.sessions = SqlSessions(self.database)
        self.backlogs = SqlBacklogs(self.database)
        self.gates = SqlGates(self.database)
        slots = SqlSlots(self.database, self.calendar)
        self.schedule = Schedule(slots, self.controls, self.calendar, settings, clock, threads)
        self._endpoints = SqlEndpointMemory(self.database)
        self.upkeep_ledger = SqlUpkeepLedger(self.database)
        self.upkeep = Upkeep(
            self.upkeep_ledger,
            settings.evidence,
            settings.state.keep,
            clock,
            self._forget_batches,
        )
        self.traced: Traced | None = None
        self.proving = Proving(self.proofs, self.records, settings.policies, clock, self._verify)
        self._check_policies(edited)

    def _check_policies(self, edited: Callable[[PolicyEdited], None] | None) -> None:
        """Refuse policies that were edited under one version, or tell *edited* of each."""
        policies = self.settings.policies.values()
        if edited is None:
            self.plans.check_policies(policies)
            return
        for policy in policies:
            try:
                self.plans.check_policies([policy])
            except PolicyEdited as error:
                edited(error)

    def connect(self) -> None:
        """Have every store and database ready to be used; raises LedgerError where the library that
        one needs is missing."""
        if self.settings.queue.is_elsewhere:
            _ = self.broker
        for name in self.settings.stores:
            with suppress(StoreError):  # whoever needs it hears of it; the others go on
                self.store(name)
        for name in self.settings.databases:
            self.tables(name)

    def impatient(self) -> "System":
        """The same with connections of its own, that waits for no state database that is out of
        reach: for whoever has to answer at once."""
        return System(
            self.settings,
            self.clock,
            self._make_store,
            self._make_tables,
            patient=False,
            broker=self._make_broker,
            database=self._make_database,
            threads=self.threads,
        )

    def probe(self) -> None:
        """Raise LedgerError unless the state database is there and of this process's schema."""
        self.database.probe()

    def policy(self, name: str) -> Policy:
        """The policy called *name*; raises UnknownPolicy."""
        try:
            return self.settings.policies[name]
        except KeyError:
            known = ", ".join(sorted(self.settings.policies)) or "none"
            raise UnknownPolicy(
                f"{self.settings.path}: there is no policy {name}; policies are: {known}"
            ) from None

    def store(self, name: str) -> Store:
        """The store called *name*, connected on first use."""
        with self._lock:  # threads that archive open stores as well
            if name not in self._stores:
                self._stores[name] = self._make_store(
                    self.settings.stores[name], self.clock, self._endpoints
                )
            return self._stores[name]

    def tables(self, name: str) -> Tables:
        """The database called *name*, connected on first use."""
        with self._lock:
            if name not in self._tables:
                self._tables[name] = self._make_tables(self.settings.databases[name])
            return self._tables[name]

    @property
    def broker(self) -> Broker | None:
        """Who carries the commands, connected on first use; None where the state database does.

        Raises LedgerError where what it takes is not installed.
        """
        with self._lock:
            if self._broker is None and self.settings.queue.is_elsewhere:
                self._broker = self._make_broker(self.settings)
            return self._broker

    @property
    def carried(self) -> Carried | None:
        """The queue over that broker."""
        broker = self.broker
        with self._lock:
            if self._carried is None and broker is not None:
                self._carried = Carried(
                    self.outbox,
                    self.embedded,
                    broker.transport,
                    self.strays,
                    self.clock,
                    lambda: self.spread(),
                    self.worker_name,
                    self.settings.queue.lease,
                )
            return self._carried

    @property
    def queue(self) -> Queue:
        """What workers take commands from."""
        return self.carried or self.embedded

    def survey(self, policy: Policy) -> Survey:
        """What looks at the source of *policy*."""
        if policy.about_rows:
            return RowSurvey(self.tables(policy.connection).reader, self.recent, self.threads)
        return ObjectSurvey(self.store(policy.connection).lister, self.threads)

    def recent(self, policy: Policy) -> Batches:
        """The last row batches of *policy* that were worked on."""
        return self.records.durations(policy.name, RECENT)

    def depot(self, name: str) -> Depot:
        """The store called *name*, to copy into; raises LedgerError where there is none that can
        copy."""
        if name not in self.settings.stores:
            raise LedgerError(
                f"stores.{name}: expected this store, as copies are in it or go there"
            )
        store = self.store(name)
        if store.copier is None:
            raise LedgerError(f"stores.{name}: a store of this kind makes no copies")
        return Depot(store.lister, store.copier)

    def files(self, name: str) -> FileStore:
        """The store called *name*, for files of rows; raises LedgerError where there is none that
        can hold them."""
        if name not in self.settings.stores:
            raise LedgerError(f"stores.{name}: expected this store, as files of rows are in it")
        files = self.store(name).files
        if files is None:
            raise LedgerError(f"stores.{name}: a store of this kind holds no files of rows")
        return files

    def restorer(self, name: str) -> RowRestorer:
        """What brings rows back into the database called *name*; raises LedgerError where there is
        none."""
        if name not in self.settings.databases:
            raise LedgerError(f"databases.{name}: expected this database, as rows came from there")
        restorer = self.tables(name).restorer
        if restorer is None:
            raise LedgerError(f"databases.{name}: nothing here brings rows back")
        return restorer

    def planner(
        self,
        policy: Policy,
        on_page: Callable[[Run], None] = lambda _: None,
        stopping: Callable[[], bool] = lambda: False,
        by: str | None = None,
    ) -> Planner:
        """A planner for *policy*'s source, in the name of *by* or else of who runs this."""
        self.give_up_when(stopping)
        planner = Planner(
            self.plans,
            self.survey(policy),
            self.clock,
            self.spread,
            by or self.person,
            on_page,
            stopping,
            self.held,
            lambda policy: self.records.completed_batches(policy.name, _MOST_REMEMBERED),
            self.governed,
            self._keep_preview,
        )
        return planner if self.traced is None else self.traced.planner(planner)

    def _keep_preview(self, policy: Policy, run: Run) -> None:
        # Imported here, as it asks this very system.
        from bestbefore.app.previewing import keep_preview

        keep_preview(self, policy, run)

    def place(self, policy: Policy) -> str:
        """Where the store or the database of *policy* is."""
        settings = self.settings.databases if policy.about_rows else self.settings.stores
        return settings[policy.connection].place

    def held(self, policy: Policy) -> Held:
        """The holds that concern *policy* right now."""
        return Held.among(self.holds.in_force(self.clock.now()), policy, self.place(policy))

    def governed(self, policy: Policy, slot: datetime) -> Policy:
        """*policy* with what the policies of other tables remove at *slot*."""
        return governed(policy, slot, self.settings.policies, self.place, self._is_idle)

    def _is_idle(self, policy: Policy) -> bool:
        """Whether *policy* removes nothing now: it is paused, or all of it is on hold."""
        paused = {pause.policy for pause in self.controls.pauses(self.clock.now())}
        return bool(paused & {policy.name, None}) or self.held(policy).over("") is not None

    def give_back(self) -> None:
        """Let others have at once what this process was sent and will not work on."""
        if self._carried is not None:
            self._carried.give_back()

    def ticker(self, stopping: Callable[[], bool]) -> Ticker:
        """What sees the slots of every schedule come, and fires them."""

        def plan(policy: Policy, slot: datetime) -> bool:
            planner = replace(self.planner(policy, stopping=stopping), by=self.worker_name)
            return planner.plan(policy, slot, Trigger.SCHEDULE).run.complete

        return self.schedule.ticker(plan, stopping)

    def slot(self, policy: Policy, wanted: datetime | None, trigger: Trigger) -> datetime:
        """The slot that *trigger* means, *wanted* if that was said; raises SlotRefused."""
        early = self.settings.schedule.early_tolerance
        return choose_slot(
            policy, wanted, self.calendar, self.plans, self.clock.now(), trigger, early
        )

    def _verify(self, policy: Policy, stopping: Callable[[], bool]) -> int:
        # Imported here, as it asks this very system.
        from bestbefore.app.questions import verification

        overdue: int = verification(self, policy, lambda _: None, stopping)["overdue"]
        return overdue

    def _forget_batches(self, name: str, operations: Sequence[bytes]) -> Failure | None:
        """Have the database of the policy *name* forget those of *operations* that the ledger has
        forgotten."""
        policy = self.settings.policies.get(name)
        if policy is None or not policy.about_rows:
            said = "nobody knows where they are, as there is no such policy of rows any more"
            return Failure(FailureClass.MALFORMED, said)
        known = self.plans.known(operations)
        forgotten = [id_ for id_ in operations if id_ not in known]
        try:
            deleter = self.tables(policy.connection).deleter
        except LedgerError as error:  # its driver is not installed here
            return Failure(FailureClass.MALFORMED, str(error))
        return deleter.forget(policy.rows, forgotten)

    def give_up_when(self, stopping: Callable[[], bool]) -> None:
        self.database.give_up_when(lambda: stopping() or not self._patient)

    @contextmanager
    def scratch(self) -> Iterator["Scratch"]:
        """A ledger that is thrown away, on disk so that memory stays flat."""
        with tempfile.TemporaryDirectory(prefix="bestbefore-") as folder:
            database = Database(f"sqlite:///{Path(folder) / 'scratch.db'}")
            try:
                database.make_anew()
                yield Scratch(SqlPlanLedger(database), SqlRecords(database), SqlPreviews(database))
            finally:
                database.dispose()

    def close(self) -> None:
        """Close every connection: to the broker, to stores and databases, to the state database."""
        self.give_back()
        if self._broker is not None:
            self._broker.close()
        self.proving.close()
        for store in self._stores.values():
            store.close()
        for tables in self._tables.values():
            tables.close()
        if self.traced is not None:
            self.traced.close()
        self.database.dispose()

    def run(
        self,
        policy: Policy,
        slot: datetime,
        options: Options,
        *,
        approved: bool,
        on_page: Callable[[Run], None],
        on_progress: Callable[[Report], None],
        stopping: Callable[[], bool],
    ) -> tuple[Planned, Report]:
        """Plan *slot* and work on it side by side until nothing of the policy can be done.

        Raises what planning raises, once the batches in hand are finished.
        """
        planner = self.planner(policy, on_page, stopping)
        attempts: list[Planned | Exception] = []

        def plan() -> bool:
            if attempts:
                return self.plan_on(stopping, only=policy.name)
            try:
                attempts.append(planner.plan(policy, slot, Trigger.RUN, approved=approved))
            except Exception as error:
                attempts.append(error)
                raise
            return True

        def ended() -> bool:
            return stopping() or any(isinstance(attempt, Exception) for attempt in attempts)

        report = self.working.worker(options, ended, on_progress, policy.name, plan).run()
        match attempts:
            case [Exception() as error, *_]:
                raise error
            case [Planned() as planned, *_]:
                return planned, report
            case _:
                raise PlanRefused(f"policies.{policy.name}: stopped before anything was planned")

    def answer(
        self,
        policy: Policy,
        slot: datetime,
        trigger: Trigger,
        options: Options,
        *,
        stopping: Callable[[], bool],
        by: str | None = None,
        on_page: Callable[[Run], None] = lambda _: None,
        on_work: Callable[[Run], None] = lambda _: None,
    ) -> tuple[Planned, Report | None]:
        """Plan *slot*, and delete at once what of it is small enough to be waited for.

        It is done in the name of *by*, or else of who runs this; *on_work* hears that deleting
        begins. What was done then is in the report. Raises what planning raises.
        """
        planned = self.planner(policy, on_page, stopping, by).plan(policy, slot, trigger)

        def work(late: Callable[[], bool]) -> Report:
            on_work(planned.run)
            worker = self.working.worker(
                options, lambda: stopping() or late(), only=policy.name, plan_on=lambda: False
            )
            try:
                return worker.run()
            finally:
                # What else this process does goes on waiting for the state database.
                self.give_up_when(stopping)

        return planned, finish(policy, planned.run, self.clock, work)

    def plan_on(self, stopping: Callable[[], bool], only: str | None = None) -> bool:
        """Continue plans whose planner is gone. Returns whether there was one.

        One that cannot go on keeps none of the others; what it raised is raised at the end.
        """
        self.schedule.look_now_and_then()
        went_on = False
        failed: Exception | None = None
        for run in self.plans.unfinished(self.clock.now()):
            policy = self.settings.policies.get(run.policy)
            if policy is None or policy.version != run.policy_version:
                continue
            if only in (None, run.policy):
                try:
                    planner = replace(self.planner(policy, stopping=stopping), by=self.worker_name)
                    went_on |= planner.go_on(policy, run) is not None
                except (LedgerError, PlanRefused, StoreError) as error:
                    failed = failed or error
        if failed is not None:
            raise failed
        return went_on


@dataclass(frozen=True, slots=True)
class Scratch:
    """A ledger for one drawing, and what can be read of it."""

    plans: SqlPlanLedger
    records: SqlRecords
    previews: SqlPreviews


def open_system(
    path: Path,
    environ: Mapping[str, str],
    edited: Callable[[PolicyEdited], None] | None = None,
) -> System:
    """Read the configuration, connect to the state database and upgrade its schema.

    Raises ConfigError and LedgerError; of a policy that was edited under one version it only tells
    *edited*, where that is given. Stores are connected when they are first used.
    """
    settings = load(path, environ)
    system = System(settings, SystemClock(), connect_store, connect_tables, edited=edited)
    if (spans := tracer(environ)) is not None:
        system.traced = Traced(spans, system.records.name_of)
    return system


def person() -> str:
    """Who acts, for the record: the login name and the host."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
