"""A metric of a scrape as a family of prometheus_client.

PERF: that is imported at the first scrape, not at the start of the server.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from mlxctl.ir.distribution import Distribution

if TYPE_CHECKING:
    from prometheus_client import Metric

# The value of the only label, or the values of all labels.
Labels = TypeVar("Labels", bound=str | tuple[str, ...])
Value = TypeVar("Value", float, Distribution)


def counter(name: str, text: str, value: float | Mapping[Labels, float], *labels: str) -> "Metric":
    """Return a counter: a number, or numbers by label values."""
    from prometheus_client.metrics_core import CounterMetricFamily

    family = CounterMetricFamily(f"mlxctl_{name}", text, labels=labels)
    for values, number in _by_labels(value):
        family.add_metric(values, number)
    return family


def gauge(name: str, text: str, value: float | Mapping[Labels, float], *labels: str) -> "Metric":
    """Return a gauge: a number, or numbers by label values."""
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(f"mlxctl_{name}", text, labels=labels)
    for values, number in _by_labels(value):
        family.add_metric(values, number)
    return family


def histogram(
    name: str, text: str, value: Distribution | Mapping[Labels, Distribution], *labels: str
) -> "Metric":
    """Return a histogram: a distribution, or distributions by label values."""
    from prometheus_client.metrics_core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    family = HistogramMetricFamily(f"mlxctl_{name}", text, labels=labels)
    for values, distribution in _by_labels(value):
        buckets = [(str(floatToGoString(bound)), number) for bound, number in distribution.cumulative()]  # type: ignore[no-untyped-call]
        family.add_metric(values, buckets, distribution.total)
    return family


def _by_labels(value: Value | Mapping[Labels, Value]) -> Iterable[tuple[tuple[str, ...], Value]]:
    if not isinstance(value, Mapping):
        return [((), value)]
    return [((labels,) if isinstance(labels, str) else labels, each) for labels, each in value.items()]
