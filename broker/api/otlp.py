"""Metrics as OpenTelemetry writes them (OTLP), read with its own library, the extra `telemetry`; and as Prometheus
reads them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from broker.config.sources import ConfigError

MOST_POINTS = 10_000
"""How many of one push are looked at."""
LONGEST_TEXT = 1000
"""Of a name, or of a value of an attribute."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class BadMetrics(Exception):
    """Not what it says it is."""


class Point(NamedTuple):
    """One value of one metric. Of a distribution there are two, its sum and its count."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float


Decode = Callable[[bytes], list[Point]]


def decoder() -> Decode:
    """What reads a push; `BadMetrics` where it cannot be read. Raises `ConfigError` where the library is missing."""
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ModuleNotFoundError as missing:
        raise ConfigError(f"Metrics of clients need {missing.name}: pip install 'tallystick[telemetry]'.") from None

    def decode(data: bytes) -> list[Point]:
        try:
            message = MetricsData.FromString(data)
        except DecodeError as error:
            raise BadMetrics(str(error)) from None
        found: list[Point] = []
        for point in _points(message):
            found.append(point)
            if len(found) >= MOST_POINTS:
                break
        return found

    return decode


def _points(message: Any) -> Iterator[Point]:
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _points_of(metric)


def _points_of(metric: Any) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    name = metric.name[:LONGEST_TEXT]
    for point in getattr(metric, kind).data_points:
        attributes = tuple((one.key[:LONGEST_TEXT], _text(one.value)) for one in point.attributes)
        if kind in ("gauge", "sum"):
            if value := point.WhichOneof("value"):
                yield Point(name, attributes, float(getattr(point, value)))
        else:
            yield Point(f"{name}.sum", attributes, float(point.sum))
            yield Point(f"{name}.count", attributes, float(point.count))


def _text(value: Any) -> str:
    """Of an attribute; of one that is made of several, nothing."""
    kind = value.WhichOneof("value")
    if kind in ("string_value", "bool_value", "int_value", "double_value"):
        return str(getattr(value, kind))[:LONGEST_TEXT]
    return ""


def prometheus_lines(points: Iterable[Point], labels: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Prometheus's text format: `name{label="value",…} number`. `labels` are those of the client, and win over
    attributes of the same name. A series is there once, with its last value: its readers would refuse the file."""
    common = dict(labels)
    series: dict[str, float] = {}
    for point in points:
        shown = common | {name: value for key, value in point.attributes if (name := _name(key)) not in common}
        pairs = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in shown.items())
        series[f"{_name(point.name)}{{{pairs}}}"] = point.value
    for name, value in series.items():
        yield f"{name} {value!r}\n"


def _name(text: str) -> str:
    """Of a metric or a label, as Prometheus allows it."""
    name = _NO_NAME.sub("_", text)
    return name if name and not name[0].isdigit() else f"_{name}"
