"""Traces from the trigger to the effect, around stages that know nothing of them.

Off, and nothing imported, unless OpenTelemetry's own variables name where spans go.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from bestbefore.domain.failure import Failure
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.run import run_id as named
from bestbefore.ports.ledger import Operation, Settlement, Span, WorkLedger
from bestbefore.ports.queue import Queue
from bestbefore.ports.tracing import Tracer
from bestbefore.stages.plan import Planned, Planner
from bestbefore.stages.work import Attempting, Result

log = logging.getLogger(__name__)

_WHERE = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def tracer(environ: Mapping[str, str]) -> Tracer | None:
    """Where spans go, if *environ* says so."""
    wanted = any(environ.get(name) for name in _WHERE)
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not wanted or off or environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    # Imported here: the vendor's client is an extra.
    try:
        from bestbefore.adapters.otel import connect
    except ImportError as error:
        log.warning('no traces: they need %s, pip install "bestbefore[otel]"', error.name)
        return None
    return connect(environ)


class Traced:
    """What of one system is traced. *name_of* gives the name of a run by its row."""

    def __init__(self, tracer: Tracer, name_of: Callable[[int], str]) -> None:
        self._tracer = tracer
        self._name_of = lru_cache(maxsize=1024)(name_of)

    def planner(self, planner: Planner) -> Planner:
        fields = {name: getattr(planner, name) for name in Planner.__dataclass_fields__}
        return _Planner(**fields, tracer=self._tracer)

    def attempts(self, attempts: Attempting) -> Attempting:
        return _Attempts(attempts, self._tracer, self._name_of)

    def ledger(self, ledger: WorkLedger) -> WorkLedger:
        return _Ledger(ledger, self._tracer, self._name_of)

    def queue(self, queue: Queue) -> Queue:
        return _Queue(queue, self._tracer, self._name_of)

    def close(self) -> None:
        self._tracer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner(Planner):
    """A planner whose plans are spans; previews are not, as they are no run."""

    tracer: Tracer

    def plan(
        self, policy: Policy, slot: datetime, trigger: Trigger, *, approved: bool = False
    ) -> Planned:
        name = named(policy.name, policy.version, slot)
        with self.tracer.span("plan", name, policy=policy.name, trigger=trigger.value) as span:
            planned = Planner.plan(self, policy, slot, trigger, approved=approved)
            span.say(repeated=planned.repeated, state=planned.run.state.value)
            span.say(scanned=planned.run.scanned, planned=planned.run.planned)
            return planned

    def go_on(self, policy: Policy, run: Run) -> Run | None:
        with self.tracer.span("plan", run.run_id, policy=policy.name, resumed=True) as span:
            planned = Planner.go_on(self, policy, run)
            if planned is not None:
                span.say(state=planned.state.value)
                span.say(scanned=planned.scanned, planned=planned.planned)
            return planned


class _Attempts:
    def __init__(self, attempts: Attempting, tracer: Tracer, name_of: Callable[[int], str]) -> None:
        self._attempts = attempts
        self._tracer = tracer
        self._name_of = name_of

    def make(self, policy: Policy, operations: Sequence[Operation]) -> Iterable[Result]:
        if policy.about_rows:
            return self._one_by_one(policy, operations)
        run, n = operations[0].run, len(operations)
        with self._tracer.span(
            "batch", self._name_of(run), policy=policy.name, operations=n
        ) as span:
            results = list(self._attempts.make(policy, operations))
            failures = Counter(r.failure_class.value for r in results if isinstance(r, Failure))
            span.say(**{f"failures.{failure_class}": n for failure_class, n in failures.items()})
        return results

    def _one_by_one(self, policy: Policy, operations: Sequence[Operation]) -> Iterator[Result]:
        """Each is a batch of its own, begun when it is asked for."""
        results = iter(self._attempts.make(policy, operations))
        for operation in operations:
            about = {"policy": policy.name, "operation_id": operation.operation_id.hex()}
            with self._tracer.span("batch", self._name_of(operation.run), **about) as span:
                result = next(results)
                if isinstance(result, Failure):
                    span.say(**{f"failures.{result.failure_class}": 1})
            yield result


class _Others:
    """Everything else of what is traced, as it is."""

    def __init__(self, traced: Any, tracer: Tracer, name_of: Callable[[int], str]) -> None:
        self._traced = traced
        self._tracer = tracer
        self._name_of = name_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._traced, name)


class _Ledger(_Others):
    def record(self, settlements: Sequence[Settlement], by: str, now: datetime) -> list[Operation]:
        runs = Counter(settlement.operation.run for settlement in settlements)
        with ExitStack() as spans:  # one transaction, seen from each run
            for run, n in runs.items():
                spans.enter_context(self._tracer.span("record", self._name_of(run), operations=n))
            late: list[Operation] = self._traced.record(settlements, by, now)
            return late


class _Queue(_Others):
    def publish(self, span: Span, now: datetime) -> int:
        with self._tracer.span("dispatch", self._name_of(span.run)) as dispatched:
            published: int = self._traced.publish(span, now)
            dispatched.say(published=published)
            return published
