"""Spans from the trigger to the effect: one trace per run, whoever works on it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bestbefore.adapters.otel import OtelTracer, provider
from bestbefore.app.tracing import Traced, tracer
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.run import Run
from support.shops import Shop
from support.worlds import World, failing, policy

EXPORTERS: list[InMemorySpanExporter] = []
"""One for each process of a test: one that ends closes its own."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    EXPORTERS.clear()
    with World(tmp_path, policy(), policy("other", store="t", prefix="other/")) as world:
        trace(world)
        yield world


def trace(world: World | Shop) -> None:
    spans = provider({})
    EXPORTERS.append(InMemorySpanExporter())
    spans.add_span_processor(SimpleSpanProcessor(EXPORTERS[-1]))
    world.system.traced = Traced(OtelTracer(spans), world.system.records.name_of)


def finished() -> Sequence[ReadableSpan]:
    return [span for exporter in EXPORTERS for span in exporter.get_finished_spans()]


def of(run: Run) -> Sequence[ReadableSpan]:
    """The spans of a run, by its trace id as the page says to compute it."""
    trace_id = int(sha256(f"bestbefore run {run.run_id}".encode()).hexdigest()[:32], 16)
    return [span for span in finished() if span.context.trace_id == trace_id]


def test_a_run_is_one_trace_from_the_trigger_to_the_effect(world: World) -> None:
    world.fill(3)
    run = world.plan()
    world.restart()  # another process works on it
    trace(world)
    world.work()

    spans = {span.name: dict(span.attributes or {}) for span in of(run)}

    assert list(spans) == ["plan", "dispatch", "batch", "record"]
    assert {attributes["bestbefore.run_id"] for attributes in spans.values()} == {run.run_id}
    assert spans["plan"]["bestbefore.planned"] == 3
    assert spans["dispatch"]["bestbefore.published"] == 3
    assert spans["batch"]["bestbefore.operations"] == 3
    assert spans["record"]["bestbefore.operations"] == 3
    assert len(finished()) == len(of(run))


def test_two_runs_are_two_traces(world: World) -> None:
    world.fill(2)
    world.fill(2, "t", "other/")
    one, other = world.plan(), world.plan("other")
    world.work()

    for run in (one, other):
        assert {span.name for span in of(run)} == {"plan", "dispatch", "batch", "record"}


def test_failures_are_told_and_no_span_names_a_key(world: World) -> None:
    world.fill(1)
    run = world.plan()
    world.store.refuse = failing(FailureClass.PERMISSION)
    world.work()

    batches = [dict(span.attributes or {}) for span in of(run) if span.name == "batch"]

    assert batches[0]["bestbefore.failures.permission"] == 1
    assert "000000.json" not in "".join(span.to_json() for span in finished())


def test_each_batch_of_rows_is_a_span(tmp_path: Path) -> None:
    EXPORTERS.clear()
    with Shop(tmp_path) as shop:
        trace(shop)
        shop.fill(25)
        run = shop.plan()
        shop.work()

    batches = [dict(span.attributes or {}) for span in of(run) if span.name == "batch"]
    assert len(batches) == run.planned
    assert len({batch["bestbefore.operation_id"] for batch in batches}) == run.planned


def test_a_plan_that_fails_fails_its_span(world: World) -> None:
    world.fill(1)
    world.store.versioning = "Enabled"  # and the policy does not say what goes there
    with pytest.raises(Exception, match="versions"):
        world.plan()

    (span,) = [s for s in finished() if s.name == "plan"]
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["unset", "disabled", "none"],
)
def test_without_a_place_to_send_them_to_there_are_no_traces(environ: dict[str, str]) -> None:
    assert tracer(environ) is None


def test_nothing_of_opentelemetry_is_imported_without_it() -> None:
    code = "import bestbefore.cli, sys; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
