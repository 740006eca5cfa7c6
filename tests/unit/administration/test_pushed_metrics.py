"""What becomes of metrics that clients push (KIP-714): read, kept, bounded, and written for Prometheus."""

import asyncio
import gzip
from pathlib import Path

import pytest

from broker.api import client_metrics, otlp
from broker.api.client_metrics import FILE, ClientMetrics
from broker.api.otlp import BadMetrics, Point, decoder, prometheus_lines
from broker.api.services import Services
from protocol.records import compression
from tests.unit.administration.telemetry_rig import (
    BAD_RECORD,
    LIMIT,
    NONE,
    THROTTLED,
    TOO_LARGE,
    Client,
    Clock,
    same,
    stopped_clock,
    told,
)

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped_clock(monkeypatch)


def pushed(*, values: int = 1) -> bytes:
    """A gauge of so many values, and one of each other kind."""
    data = metrics_pb2.MetricsData()
    resource = data.resource_metrics.add()
    scope = resource.scope_metrics.add()
    gauge = scope.metrics.add(name="org.apache.kafka.producer.rate")
    for number in range(values):
        point = gauge.gauge.data_points.add(as_double=number + 0.5)
        point.attributes.add(key="node.id").value.int_value = number
        point.attributes.add(key="topic").value.string_value = 'a"b\\\n'
    scope.metrics.add(name="total").sum.data_points.add(as_int=7)
    scope.metrics.add(name="empty").gauge.data_points.add()
    scope.metrics.add(name="nothing")
    for kind in ("histogram", "exponential_histogram", "summary"):
        getattr(scope.metrics.add(name=kind), kind).data_points.add(sum=2.5, count=3)
    return bytes(data.SerializeToString())


DISTRIBUTIONS = [
    Point(f"{kind}.{part}", (), value)
    for kind in ("histogram", "exponential_histogram", "summary")
    for part, value in (("sum", 2.5), ("count", 3.0))
]
EXPECTED = [
    Point("org.apache.kafka.producer.rate", (("node.id", "0"), ("topic", 'a"b\\\n')), 0.5),
    Point("total", (), 7.0),
    *DISTRIBUTIONS,
]


@pytest.mark.parametrize("codec", range(5))
def test_the_last_that_a_client_pushed_is_kept(codec: int, clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        subscription = (await client.get(same(1))).subscription_id
        data = compression.compress(codec, pushed())
        assert await client.push(same(1), subscription, data, codec=codec) is NONE
        (found,) = node.client_metrics.latest().values()
        assert found.points == EXPECTED
        assert found.labels == (
            ("client_instance_id", "AQEBAQEBAQEBAQEBAQEBAQ"),
            ("client_id", "probe"),
            ("client_software_name", "probe-sw"),
            ("client_software_version", "1.2"),
            ("client_source_address", "127.0.0.1"),
            ("client_source_port", "4711"),
        )
        clock.now_ms += 300_000
        assert await client.push(same(1), subscription, b"", codec=codec) is NONE, "nothing new"
        assert node.client_metrics.latest() == {same(1): found}

    told(story, clock)


def test_what_cannot_be_read_or_is_too_large_is_refused(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        sound = pushed(values=60)
        small = gzip.compress(sound)
        assert len(small) < LIMIT < len(sound)
        cases = [(b"garbage", 0, BAD_RECORD), (sound, 0, TOO_LARGE), (small, 1, BAD_RECORD)]
        cases += [(b"\0\1junk", codec, BAD_RECORD) for codec in (1, 2, 3, 4)]
        for number, (data, codec, error) in enumerate(cases, 1):
            subscription = (await client.get(same(number))).subscription_id
            assert await client.push(same(number), subscription, data, codec=codec) is error
            assert await client.got(same(number)) is THROTTLED
        assert node.client_metrics.latest() == {}

    told(story, clock)


def test_what_is_kept_of_clients_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "MOST_POINTS_KEPT", 20)
    monkeypatch.setattr(client_metrics, "MOST_INSTANCES", 3)
    monkeypatch.setattr(otlp, "MOST_POINTS", 12)

    async def story(node: Services, client: Client) -> None:
        kept = node.client_metrics
        subscription = (await client.get(same(1))).subscription_id
        for number in (1, 2, 3):
            assert await client.push(same(number), subscription, pushed()) is NONE
        assert list(kept.latest()) == [same(2), same(3)], "eight points each, of twenty"
        assert await client.push(same(4), subscription, pushed(values=13)) is NONE
        assert [len(one.points) for one in kept.latest().values()] == [8, 12]
        assert len(kept._instances) == 3 and same(1) not in kept._instances
        clock.now_ms += 300_000
        assert await client.push(same(3), subscription, pushed(values=2)) is NONE
        assert [(one, len(kept.latest()[one].points)) for one in kept.latest()] == [(same(3), 9)]
        assert kept._points == 9
        for number in (5, 6):
            assert await client.got(same(number)) is NONE
        assert list(kept._instances) == [same(3), same(5), same(6)], "who was silent for longest went"

    told(story, clock)


def test_what_comes_while_the_broker_stops_is_not_written(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> None:
        raise AssertionError("written")

    async def story(node: Services, client: Client) -> None:
        monkeypatch.setattr(node.client_metrics, "_write", never)
        subscription = (await client.get(same(1))).subscription_id
        assert await client.push(same(1), subscription, pushed()) is NONE
        node.client_metrics.close()
        assert await client.push(same(2), (await client.get(same(2))).subscription_id, pushed()) is NONE
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    monkeypatch.setattr(client_metrics, "WRITTEN_AFTER_S", 0)
    told(story, clock, tmp_path)
    assert not (tmp_path / FILE).exists()


def test_the_last_values_are_written_for_prometheus(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_metrics, "WRITTEN_AFTER_S", 0)
    written = asyncio.Event()
    write = ClientMetrics._write

    async def write_and_tell(self: ClientMetrics) -> None:
        await write(self)
        written.set()

    monkeypatch.setattr(ClientMetrics, "_write", write_and_tell)

    async def story(node: Services, client: Client) -> None:
        client.name = 'quo"ted'
        subscription = (await client.get(same(1))).subscription_id
        assert await client.push(same(1), subscription, pushed()) is NONE
        await written.wait()

    told(story, clock, tmp_path)
    labels = (
        'client_instance_id="AQEBAQEBAQEBAQEBAQEBAQ",client_id="quo\\"ted",client_software_name="probe-sw",'
        'client_software_version="1.2",client_source_address="127.0.0.1",client_source_port="4711"'
    )
    assert (tmp_path / FILE).read_text().splitlines()[:2] == [
        f'org_apache_kafka_producer_rate{{{labels},node_id="0",topic="a\\"b\\\\\\n"}} 0.5',
        f"total{{{labels}}} 7.0",
    ]


def test_long_names_are_cut_and_attributes_of_parts_are_left_out() -> None:
    data = metrics_pb2.MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="n" * 5000)
    point = metric.gauge.data_points.add(as_int=1)
    point.attributes.add(key="k" * 5000).value.string_value = "v" * 5000
    point.attributes.add(key="parts").value.array_value.values.add(int_value=1)
    decode = decoder()
    (found,) = decode(data.SerializeToString())
    assert found == Point("n" * 1000, (("k" * 1000, "v" * 1000), ("parts", "")), 1.0)
    with pytest.raises(BadMetrics):
        decode(b"garbage")


def test_prometheus_is_told_no_name_that_it_refuses_and_each_series_once() -> None:
    points = [
        Point("a.b", (("node.id", "1"), ("node-id", "2"), ("client_id", "forged"), ("0", "x")), 1.5),
        Point("a:b", (("node_id", "2"), ("_0", "x")), 2.5),
        Point("", (), float("nan")),
        Point("5xx", (("", "\n"),), float("-inf")),
    ]
    assert list(prometheus_lines(points, (("client_id", "own"),))) == [
        'a_b{client_id="own",node_id="2",_0="x"} 2.5\n',
        '_{client_id="own"} nan\n',
        '_5xx{client_id="own",_="\\n"} -inf\n',
    ]
