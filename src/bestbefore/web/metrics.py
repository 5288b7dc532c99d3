"""Measures in Prometheus' text format."""

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from bestbefore.read.measures import Measure


def exposition(measures: Sequence[Measure]) -> tuple[bytes, str]:
    """The body of an answer to a scrape, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Measured(measures))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Measured(Collector):
    """Collects what was measured already: nothing is kept between two scrapes."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        yield from map(_metric, self._measures)


def _metric(measure: Measure) -> Metric:
    family = measure.family
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, buckets, total in measure.histograms:
            named = [(_bound(bound), float(n)) for bound, n in buckets]
            histogram.add_metric(labels, named, total)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for sample in measure.samples:
        metric.add_metric(sample.labels, float(sample.value))
    return metric


def _bound(seconds: float) -> str:
    return "+Inf" if math.isinf(seconds) else str(seconds)
