"""The wiring: the only functions that know vendor names are `_store` and `connect_tables`."""

import gc
import getpass
import itertools
import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bestbefore.adapters.objects.directory import (
    DirectoryDeleter,
    DirectoryFiles,
    DirectoryLister,
)
from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state.access import SqlAccess, SqlAnswers, SqlDeliveries
from bestbefore.adapters.state.controls import SqlControls
from bestbefore.adapters.state.copies import SqlArchives
from bestbefore.adapters.state.dashboard import SqlBacklogs, SqlSessions
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.dead_letters import SqlDeadLetters
from bestbefore.adapters.state.endpoints import SqlEndpointMemory
from bestbefore.adapters.state.holds import SqlHolds
from bestbefore.adapters.state.measures import SqlMeasures
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.proofs import SqlProofs
from bestbefore.adapters.state.queue import StateQueue
from bestbefore.adapters.state.records import SqlRecords
from bestbefore.adapters.state.slots import SqlSlots
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.adapters.state.upkeep import SqlUpkeepLedger
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.app.clock import SystemClock
from bestbefore.app.formats import row_format
from bestbefore.app.proving import Proving
from bestbefore.app.schedule import Schedule
from bestbefore.app.settings import DatabaseSettings, Settings, StoreSettings, load
from bestbefore.app.throttle import gate
from bestbefore.app.tracing import Traced, tracer
from bestbefore.app.upkeep import Upkeep
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Held
from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.sizing import RECENT, Batches
from bestbefore.domain.throttle import Window
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.files import FileStore
from bestbefore.ports.ledger import LedgerError, PolicyVersion, WorkLedger
from bestbefore.ports.objects import ObjectCopier, ObjectDeleter, ObjectLister, StoreError
from bestbefore.ports.queue import Queue
from bestbefore.ports.rows import RowDeleter, RowFiler, RowReader, RowRestorer
from bestbefore.read.documents import Document
from bestbefore.read.measures import Measure, measures
from bestbefore.read.redaction import redacted
from bestbefore.read.state import state_document
from bestbefore.read.status import status_document
from bestbefore.stages.archive import Depot
from bestbefore.stages.attempt import Attempts
from bestbefore.stages.deliver import Delivery
from bestbefore.stages.dispatch import dispatch
from bestbefore.stages.plan import Planned, Planner
from bestbefore.stages.prompt import finish
from bestbefore.stages.row_archive import RowArchiving
from bestbefore.stages.row_attempt import RowAttempts
from bestbefore.stages.row_scan import RowSurvey
from bestbefore.stages.scan import ObjectSurvey
from bestbefore.stages.survey import PlanRefused, Survey
from bestbefore.stages.ticker import Ticker
from bestbefore.stages.trigger import choose_slot
from bestbefore.stages.work import Attempting, Handles, Options, Worker

_SPACE_AGAIN = timedelta(seconds=30)
"""How long a worker that nobody has to start again leaves a full disk alone."""

_STEP_SECONDS = 0.5
_MOST_REMEMBERED = 100
"""Batches that a database is asked about, to tell whether it was restored."""


class UnknownPolicy(LookupError):
    """No policy of that name in the configuration. The message lists those there are."""


@dataclass(frozen=True, slots=True)
class Store:
    """The sides of one object store. Not every kind can copy, or holds files of rows."""

    lister: ObjectLister
    deleter: ObjectDeleter
    copier: ObjectCopier | None = None
    files: FileStore | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """The sides of one database."""

    reader: RowReader
    deleter: RowDeleter
    filer: RowFiler | None = None
    restorer: RowRestorer | None = None


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
        self._lock = threading.Lock()
        self._workers = itertools.count(1)
        self._database = Database(settings.state.url)
        self._database.give_up_when(lambda: not patient)
        self._database.prepare()
        self.plans = SqlPlanLedger(self._database)
        self.work = SqlWorkLedger(self._database)
        self.controls = SqlControls(self._database)
        self.throttles = SqlThrottles(self._database)
        self.queue = StateQueue(self._database)
        self.dead_letters = SqlDeadLetters(self._database)
        self.archives = SqlArchives(self._database)
        self.records = SqlRecords(self._database)
        self.measuring = SqlMeasures(self._database)
        self.proofs = SqlProofs(self._database)
        self.holds = SqlHolds(self._database)
        self.access = SqlAccess(self._database)
        self.deliveries = SqlDeliveries(self._database)
        self.answers = SqlAnswers(self._database)
        self.sessions = SqlSessions(self._database)
        self.backlogs = SqlBacklogs(self._database)
        slots = SqlSlots(self._database, self.calendar)
        self.schedule = Schedule(slots, self.controls, self.calendar, settings, clock)
        self._endpoints = SqlEndpointMemory(self._database)
        self._upkeep_ledger = SqlUpkeepLedger(self._database)
        self.upkeep = Upkeep(
            self._upkeep_ledger,
            settings.evidence,
            settings.state.keep,
            clock,
            self._forget_batches,
        )
        self.traced: Traced | None = None
        self.proving = Proving(self.proofs, self.records, settings.policies, clock, self._verify)
        self.plans.check_policies(settings.policies.values())

    def connect(self) -> None:
        """Have every store and database ready to be used; raises LedgerError where the library that
        one needs is missing."""
        for name in self.settings.stores:
            self.store(name)
        for name in self.settings.databases:
            self.tables(name)

    def impatient(self) -> "System":
        """The same with connections of its own, that waits for no state database that is out of
        reach: for whoever has to answer at once."""
        return System(self.settings, self.clock, self._make_store, self._make_tables, patient=False)

    def probe(self) -> None:
        """Raise LedgerError unless the state database is there and of this process's schema."""
        self._database.probe()

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

    def survey(self, policy: Policy) -> Survey:
        """What looks at the source of *policy*."""
        if policy.about_rows:
            return RowSurvey(self.tables(policy.connection).reader, self.recent)
        return ObjectSurvey(self.store(policy.connection).lister)

    @property
    def windows(self) -> Mapping[str, Window]:
        """When work may be begun, by the name of a database; without those that have no window."""
        databases = self.settings.databases
        return {name: of.window for name, of in databases.items() if of.window is not None}

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
        self._give_up_when(stopping)
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
        )
        return planner if self.traced is None else self.traced.planner(planner)

    def place(self, policy: Policy) -> str:
        """Where the store or the database of *policy* is."""
        settings = self.settings.databases if policy.about_rows else self.settings.stores
        return settings[policy.connection].place

    def held(self, policy: Policy) -> Held:
        """The holds that concern *policy* right now."""
        return Held.among(self.holds.in_force(self.clock.now()), policy, self.place(policy))

    def worker(
        self,
        options: Options,
        stopping: Callable[[], bool],
        on_progress: Callable[[Report], None] = lambda _: None,
        only: str | None = None,
        plan_on: Callable[[], bool] | None = None,
    ) -> Worker:
        """A worker for every policy of the configuration, or for *only* one."""
        self._give_up_when(stopping)
        if not options.drain:
            self._database.wait_for_space(lambda: self._waited_for_space(stopping))
        return Worker(self._handles(options, stopping, on_progress, only, plan_on), options)

    def deliver(
        self, operation_id: bytes, policy: str, options: Options, stopping: Callable[[], bool]
    ) -> None:
        """Work on one operation of *policy* that another queue has pushed, if it is due and may be
        begun now, until what came of it is recorded."""
        delivery = Delivery(self.work, self.queue, operation_id, self.clock)

        def over() -> bool:
            return delivery.over or stopping()

        handles = self._handles(options, over, lambda _: None, policy, lambda: False)
        alone = replace(
            handles,
            queue=delivery,
            publish=lambda _: 0,
            rest=delivery.rest,
            tidy=lambda: False,
        )
        Worker(alone, replace(options, concurrency=1)).run()

    def _handles(
        self,
        options: Options,
        stopping: Callable[[], bool],
        on_progress: Callable[[Report], None],
        only: str | None,
        plan_on: Callable[[], bool] | None,
    ) -> Handles:
        policies = self.settings.policies
        priorities = {name: policy.priority for name, policy in policies.items()}

        def plan_on_and_prove() -> bool:
            if not options.drain:  # who drains does it afterwards
                self.proving.beside(stopping)
            return self.plan_on(stopping)

        ledger: WorkLedger = self.work
        queue: Queue = self.queue
        if self.traced is not None:
            ledger, queue = self.traced.ledger(ledger), self.traced.queue(queue)

        def publish(versions: Sequence[PolicyVersion]) -> int:
            now = self.clock.now()
            return dispatch(self.work, queue, versions, priorities, now, options.lease)

        return Handles(
            ledger=ledger,
            controls=self.controls,
            queue=queue,
            sources=_Attempts(self),
            gate=gate(
                self.throttles,
                self.settings.databases,
                self.clock,
                # Several in one process have shares of their own.
                f"{self.worker_name}:{next(self._workers)}",
                options.lease,
                options.concurrency,
            ),
            policies=policies,
            clock=self.clock,
            spread=self.spread,
            by=self.worker_name,
            publish=publish,
            plan_on=plan_on or plan_on_and_prove,
            stopping=stopping,
            rest=lambda seconds: self._database.rest(seconds, self.clock.sleep),
            longest_rest=self._database.longest_rest,
            on_progress=on_progress,
            tidy=self.upkeep.piece,
            only=only,
        )

    def status(self) -> Document:
        """Is cleanup keeping up, and what stands in its way?"""
        return status_document(
            self.settings.policies,
            self.records,
            self.controls,
            self.calendar,
            self.holds,
            self.throttles,
            self.windows,
            self.schedule.slots,
            self.state(),
            self.clock.now(),
        )

    def _waited_for_space(self, stopping: Callable[[], bool]) -> bool:
        """Let the time pass until a full disk may be tried again; False once told to stop."""
        until = self.clock.now() + _SPACE_AGAIN
        while self.clock.now() < until and not stopping():
            self.clock.sleep(_STEP_SECONDS)
        return not stopping()

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

    def state(self) -> Document:
        """How large the ledger is, and what upkeep did about it."""
        settings = self.settings
        return state_document(
            self._upkeep_ledger, settings.state.keep, settings.evidence, self.clock.now()
        )

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

    def shown(self, document: Any) -> Any:
        """*document* as the API and the dashboard may show it: `[serve] redact_keys` decides."""
        return redacted(document) if self.settings.serve.redact_keys else document

    def measures(self, missed: Mapping[str, int]) -> Sequence[Measure]:
        """Everything there is to scrape. *missed* is how many slots of each policy nobody
        answered."""
        now, keep = self.clock.now(), self.settings.state.keep
        before = None if keep is None else keep.before(now)
        return measures(
            self.settings.policies,
            self.measuring,
            self.controls,
            self.throttles,
            self._upkeep_ledger.describe(before, now),
            missed,
            now,
        )

    def _give_up_when(self, stopping: Callable[[], bool]) -> None:
        self._database.give_up_when(lambda: stopping() or not self._patient)

    @contextmanager
    def scratch(self) -> Iterator["Scratch"]:
        """A ledger that is thrown away, on disk so that memory stays flat."""
        with tempfile.TemporaryDirectory(prefix="bestbefore-") as folder:
            database = Database(f"sqlite:///{Path(folder) / 'scratch.db'}")
            try:
                database.prepare()
                yield Scratch(SqlPlanLedger(database), SqlRecords(database))
            finally:
                database.dispose()

    def close(self) -> None:
        """Close every connection to the state database."""
        self.proving.close()
        if self.traced is not None:
            self.traced.close()
        self._database.dispose()

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

        report = self.worker(options, ended, on_progress, policy.name, plan).run()
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
            worker = self.worker(
                options, lambda: stopping() or late(), only=policy.name, plan_on=lambda: False
            )
            try:
                return worker.run()
            finally:
                # What else this process does goes on waiting for the state database.
                self._give_up_when(stopping)

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
                planner = replace(self.planner(policy, stopping=stopping), by=self.worker_name)
                try:
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


class _Attempts(Mapping[str, Attempting]):
    """Attempts by the name of a store or database, connected on first use."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._made: dict[str, Attempting] = {}

    def __getitem__(self, name: str) -> Attempting:
        if name not in self._made:
            made = self._make(name)
            traced = self._system.traced
            self._made[name] = made if traced is None else traced.attempts(made)
        return self._made[name]

    def _make(self, name: str) -> Attempting:
        system = self._system
        if name in system.settings.databases:
            tables = system.tables(name)
            attempts = RowAttempts(
                tables.reader, tables.deleter, system.work, system.clock, system.worker_name,
                system.held,
            )  # fmt: skip
            if tables.filer is None:
                return attempts
            archiving = RowArchiving(
                tables.filer, system.work, system.clock, system.worker_name, system.files,
                row_format,
            )  # fmt: skip
            return replace(attempts, file=archiving.make)
        store = system.store(name)
        return Attempts(
            store.lister, store.deleter, system.work, system.clock, system.depot, system.held
        )

    def __iter__(self) -> Iterator[str]:
        return iter([*self._system.settings.stores, *self._system.settings.databases])

    def __len__(self) -> int:
        return len(list(iter(self)))


def collect_rarely() -> None:
    """Have the garbage collector of this process look for cycles less often.

    Commands come and go by the thousand and hold none: looking after every 700 new objects,
    Python's default, costs a seventh of a run's CPU time.
    """
    gc.freeze()
    gc.set_threshold(50_000)


def open_system(path: Path, environ: Mapping[str, str]) -> System:
    """Read the configuration, connect to the state database and upgrade its schema.

    Raises ConfigError and LedgerError. Stores are connected when they are first used.
    """
    system = System(load(path, environ), SystemClock(), _store, connect_tables)
    if (spans := tracer(environ)) is not None:
        system.traced = Traced(spans, system.records.name_of)
    return system


def _store(settings: StoreSettings, clock: Clock, memory: EndpointMemory) -> Store:
    if settings.root is not None:
        root = settings.root
        return Store(DirectoryLister(root), DirectoryDeleter(root), files=DirectoryFiles(root))
    # Imported here: the vendor's client is an extra, and takes a while to import.
    try:
        from bestbefore.adapters.objects import s3
    except ImportError as error:
        raise LedgerError(
            f'a store of kind "{settings.kind}" needs {error.name}: pip install "bestbefore[s3]"'
        ) from error
    there = s3.S3Settings(
        endpoint_url=settings.endpoint_url,
        region=settings.region,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
    )
    connection = s3.connect(there, clock, memory)
    return Store(
        s3.S3Lister(there, clock, connection=connection),
        s3.S3Deleter(there, clock, connection=connection),
        s3.S3Copier(there, clock, connection=connection),
        s3.S3Files(there, clock, connection=connection),
    )


def connect_tables(settings: DatabaseSettings) -> Tables:
    """Both sides of the tables of one database; raises LedgerError without its driver."""
    # Imported here: the driver is an extra.
    from bestbefore.adapters import rows

    try:
        reader, deleter = rows.connect(settings.url)
    except ImportError as error:
        raise LedgerError(
            f"databases.{settings.name} needs {error.name}: "
            f'pip install "bestbefore[{settings.extra}]"'
        ) from error
    return Tables(reader, deleter, deleter, rows.SqlRowRestorer(settings.url))


def person() -> str:
    """Who acts, for the record: the login name and the host."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
