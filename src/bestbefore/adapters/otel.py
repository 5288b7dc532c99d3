"""Traces by OpenTelemetry (an extra), sent by OTLP over HTTP to where its own variables say."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, use_span

from bestbefore.ports.tracing import Attribute

_trace: ContextVar[int | None] = ContextVar("trace", default=None)


def trace_id(run_id: str) -> int:
    """The trace of a run: 128 bits of a hash, so that nothing has to be stored or sent along."""
    return int(sha256(f"bestbefore run {run_id}".encode()).hexdigest()[:32], 16)


class _RunIds(RandomIdGenerator):
    """Every span of a run is a root of the run's one trace: there is no process that outlives
    the run and could hold a span open around all of them."""

    def generate_trace_id(self) -> int:
        chosen = _trace.get()
        return super().generate_trace_id() if chosen is None else chosen


def provider(environ: Mapping[str, str]) -> TracerProvider:
    """What gives out spans; nothing of the process is made to use it."""
    named = "OTEL_SERVICE_NAME" in environ or "service.name" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": "bestbefore"})
    return TracerProvider(resource=resource, id_generator=_RunIds())


class OtelTracer:
    """`bestbefore.ports.tracing.Tracer` on a provider."""

    def __init__(self, spans: TracerProvider) -> None:
        self._provider = spans
        self._tracer = spans.get_tracer("bestbefore")

    @contextmanager
    def span(self, name: str, run_id: str, **attributes: Attribute) -> Iterator["_Span"]:
        named = {f"bestbefore.{key}": value for key, value in attributes.items()}
        named["bestbefore.run_id"] = run_id
        chosen = _trace.set(trace_id(run_id))
        try:
            span = self._tracer.start_span(name, context=Context(), attributes=named)
        finally:
            _trace.reset(chosen)
        with use_span(span, end_on_exit=True):
            yield _Span(span)

    def close(self) -> None:
        self._provider.shutdown()


class _Span:
    """`bestbefore.ports.tracing.Span`."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def say(self, **attributes: Attribute) -> None:
        for name, value in attributes.items():
            self._span.set_attribute(f"bestbefore.{name}", value)


def connect(environ: Mapping[str, str]) -> OtelTracer:
    """A tracer that sends in the background."""
    spans = provider(environ)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(spans)
