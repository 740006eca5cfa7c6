"""A metric: a name, a kind, labels, and what it means; and the values of one scrape, as Prometheus reads them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Exposed


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of a table. The names of counters end with `_total`."""

    name: str
    kind: Kind
    says: str
    labels: tuple[str, ...] = ()


class Family:
    """All values of one metric."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._exposed = Exposed(metric.name.removesuffix("_total"), metric.says, metric.kind.value)

    def add(self, value: float, *labels: str) -> None:
        """A value; `labels` in the order of the table, an empty one is left out."""
        self.add_part("", value, self._named(labels))

    def add_summary(self, count: int, total: float, quantiles: Iterable[tuple[float, float]], *labels: str) -> None:
        named = self._named(labels)
        for share, value in quantiles:
            self.add_part("", value, {**named, "quantile": f"{share:g}"})
        self.add_part("_count", count, named)
        self.add_part("_sum", total, named)

    def add_histogram(self, buckets: Iterable[tuple[str, int]], total: float, *labels: str) -> None:
        """`buckets` are cumulative, by their upper bound; the last one is `+Inf`."""
        named, count = self._named(labels), 0
        for bound, count in buckets:
            self.add_part("_bucket", count, {**named, "le": bound})
        self.add_part("_count", count, named)
        self.add_part("_sum", total, named)

    def add_part(self, suffix: str, value: float, labels: dict[str, str]) -> None:
        self._exposed.add_sample(self.metric.name + suffix, labels, value)

    def _named(self, labels: tuple[str, ...]) -> dict[str, str]:
        return {name: value for name, value in zip(self.metric.labels, labels, strict=True) if value}

    def text(self) -> bytes:
        """As a scrape has it; empty where there is no value."""
        return text_of(self._exposed) if self._exposed.samples else b""


def text_of(exposed: Exposed) -> bytes:
    """One metric as Prometheus's library writes it."""
    return generate_latest(cast(CollectorRegistry, _One(exposed)))


class _One:
    """What a registry is to the writer: something to collect from."""

    def __init__(self, exposed: Exposed) -> None:
        self.collect: Callable[[], Iterator[Exposed]] = lambda: iter((exposed,))
