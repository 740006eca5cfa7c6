"""What Prometheus scrapes: Kafka's names, numbers that are right, and the pages that name them."""

import asyncio
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from broker.http.metrics import groups, store
from broker.http.metrics.collecting import LONGEST_REST_S, METRICS, MOST_TIMES_REST, Rest
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from protocol.messages.group_offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tallystick.client.client import Client
from tallystick.inspection.lag import lags
from tests.harness import metrics_page
from tests.harness.confluent import admin, make_topic, read_all, wait_until, write
from tests.harness.http import ask
from tests.server.wire import Wire

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana" / "tallystick.json"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running
        assert "Traceback" not in running.process.log.read_text()


def scraped(broker: Broker) -> Samples:
    answer = ask(f"{broker.http_url}/metrics")
    assert answer.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def produce(broker: Broker, topic: str, records: bytes, acks: int = 1) -> int:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    with Wire(broker) as wire:
        answer = wire.ask(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), 9)
    return int(answer.responses[0].partition_responses[0].error_code)  # type: ignore[attr-defined]


def test_records_bytes_and_requests_are_counted(broker: Broker) -> None:
    make_topic(broker.bootstrap, "counted")
    before = scraped(broker)
    batch = build_batch([NewRecord(key=None, value=b"x" * 100, timestamp_ms=0)] * 3)
    assert [produce(broker, "counted", batch, acks) for acks in (1, -1)] == [0, 0]
    assert produce(broker, "counted", batch[:30] + struct.pack(">H", 0xFFFF) + batch[32:]) != 0
    assert len(read_all(broker.bootstrap, "counted")) == 6
    after = scraped(broker)
    for name, grown in (
        ("kafka_server_brokertopicmetrics_messagesin_total", 6),
        ("kafka_server_brokertopicmetrics_bytesin_total", 2 * len(batch)),
        ("kafka_server_brokertopicmetrics_bytesout_total", 2 * len(batch)),
    ):
        assert value(after, name, topic="counted") == grown, name
    grown = {
        name: value(after, f"kafka_server_brokertopicmetrics_{name}")
        - value(before, f"kafka_server_brokertopicmetrics_{name}")
        for name in ("totalproducerequests_total", "failedproducerequests_total")
    }
    assert grown == {"totalproducerequests_total": 3, "failedproducerequests_total": 1}
    errors = [labels for name, labels in after if name == "kafka_network_requestmetrics_errors_total"]
    refused = {dict(one)["error"] for one in errors if dict(one)["request"] == "Produce"}
    assert refused & {"CORRUPT_MESSAGE", "INVALID_RECORD"} and "NONE" in refused
    assert value(after, "kafka_log_log_logendoffset", topic="counted", partition="0") == 6


def test_stages_of_requests_are_timed(broker: Broker) -> None:
    make_topic(broker.bootstrap, "timed")
    samples: Samples = {}

    def one_is_timed() -> bool:
        """Of many requests at once only some are."""
        write(broker.bootstrap, "timed", [b"x"] * 20)
        samples.update(scraped(broker))
        return value(samples, "tallystick_request_seconds_count", request="Produce", stage="total") >= 1

    wait_until(one_is_timed, "a Produce that is timed")
    timed = {
        stage: value(samples, "tallystick_request_seconds_count", request="Produce", stage=stage)
        for stage in ("queue", "local", "remote", "send", "total")
    }
    assert len(set(timed.values())) == 1
    spent = {stage: value(samples, "tallystick_request_seconds_sum", request="Produce", stage=stage) for stage in timed}
    parts = sum(spent.values()) - spent["total"]
    assert parts == pytest.approx(spent["total"])
    assert spent["remote"] > 0  # each waited for its sync
    assert value(samples, "kafka_log_logflushstats_logflushrateandtimems_count") >= 1
    quantiles = [
        value(samples, "kafka_network_requestmetrics_totaltimems", request="Produce", quantile=quantile)
        for quantile in ("0.5", "0.99", "0.999")
    ]
    assert 0 < quantiles[0] <= quantiles[1] <= quantiles[2]


def test_what_a_deleted_topic_counted_stays_in_all_together(broker: Broker) -> None:
    make_topic(broker.bootstrap, "leaving")
    write(broker.bootstrap, "leaving", [b"x"] * 10)
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    before = scraped(broker)
    assert value(before, name, topic="leaving") == 10
    client = admin(broker.bootstrap)
    client.delete_topics(["leaving"])["leaving"].result(60)
    after = scraped(broker)
    assert (name, frozenset({("topic", "leaving")})) not in after
    assert value(after, name) >= value(before, name)


def test_groups_of_all_protocols_are_counted(broker: Broker) -> None:
    make_topic(broker.bootstrap, "grouped")
    members = {"member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0, "subscribed_topic_names": ["grouped"]}
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=None)
    offsets = OffsetCommitRequestTopic(name="grouped", partitions=[offset])
    led = ConsumerGroupHeartbeatRequest(group_id="led", rebalance_timeout_ms=60_000, topic_partitions=[], **members)
    asked = (
        (OffsetCommitRequest(group_id="plain", member_id="", topics=[offsets]), 8),
        (led, 1),
        (ShareGroupHeartbeatRequest(group_id="shared", **members), 1),
    )
    before = value(scraped(broker), "tallystick_groups")
    with Wire(broker) as wire:
        wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["plain"]), 4)  # makes the topic of groups
        for request, version in asked:

            def is_taken(request: object = request, version: int = version) -> bool:
                """A coordinator may be loading."""
                return "error_code=0" in repr(wire.ask(request, version))

            wait_until(is_taken, repr(request))
    found = scraped(broker)
    assert value(found, "tallystick_groups") - before == len(asked)
    assert value(found, "kafka_coordinator_group_groupmetadatamanager_numgroups") == value(found, "tallystick_groups")


def commit(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=at, committed_metadata=None)
                for (name, index), at in offsets.items()
                if name == topic
            ],
        )
        for topic in dict.fromkeys(name for name, _ in offsets)
    ]
    with Wire(broker) as wire:
        wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)  # makes the topic of groups
        request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
        wait_until(lambda: "error_code=0" in repr(wire.ask(request, 8)), "the commit")


def transaction(broker: Broker, topic: str, name: str, count: int, end: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0
    if end == "commit":
        producer.commit_transaction()
    elif end == "abort":
        producer.abort_transaction()
    return producer


def lag_told(samples: Samples, name: str, group: str, topic: str) -> dict[int, float]:
    return {
        int(dict(labels)["partition"]): number
        for (of, labels), number in samples.items()
        if of == name and {("consumergroup", group), ("topic", topic)} <= labels
    }


def test_the_lag_of_groups_is_that_of_explain_lag(broker: Broker) -> None:
    """Neither markers nor what was aborted is a record behind, nor what is open yet."""
    topic, group = "lagging", "late"
    make_topic(broker.bootstrap, topic, 3)
    write(broker.bootstrap, topic, [b"x"] * 5, partition=0)
    transaction(broker, topic, "a", 3, "commit")
    transaction(broker, topic, "b", 4, "abort")
    write(broker.bootstrap, topic, [b"x"] * 2, partition=0)
    still_open = transaction(broker, topic, "c", 2, "")
    write(broker.bootstrap, topic, [b"x"], partition=0)
    write(broker.bootstrap, topic, [b"x"] * 3, partition=1)
    for at, behind in ((0, 10), (2, 8), (6, 4), (9, 2), (16, 0), (19, 0)):
        commit(broker, group, {(topic, 0): at, (topic, 1): 3})

        async def explained() -> list[int | None]:
            client = await Client.connect(broker.bootstrap)
            try:
                return [one.records for one in await lags(client, group)]
            finally:
                await client.close()

        for _ in range(2):  # the second is told what the first has counted
            samples = scraped(broker)
            records = lag_told(samples, "tallystick_consumergroup_lag_records", group, topic)
            assert records == {0: behind, 1: 0} == dict(enumerate(asyncio.run(explained()))), at
            assert lag_told(samples, "kafka_consumergroup_lag", group, topic) == {0: 19 - at, 1: 0}
            assert lag_told(samples, "kafka_consumergroup_current_offset", group, topic) == {0: at, 1: 3}
            assert value(samples, "kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 19 - at
    still_open.commit_transaction()
    commit(broker, group, {(topic, 0): 9})
    assert lag_told(scraped(broker), "tallystick_consumergroup_lag_records", group, topic)[0] == 5


def test_what_is_not_told_of_groups_is_counted(broker: Broker) -> None:
    """Offsets of a topic that was made anew, or of a partition that is not there, are no lag of anything."""
    make_topic(broker.bootstrap, "anew", 2)
    before = value(scraped(broker), "tallystick_consumergroup_partitions_not_told")
    commit(broker, "told", {("anew", 0): 0, ("anew", 1): 0})
    assert value(scraped(broker), "tallystick_consumergroup_partitions_not_told") == before
    client = admin(broker.bootstrap)
    client.delete_topics(["anew"])["anew"].result(60)
    make_topic(broker.bootstrap, "anew", 1)
    assert lag_told(scraped(broker), "kafka_consumergroup_lag", "told", "anew") == {}


def test_lines_of_groups_are_bounded_whatever_they_are_called() -> None:
    seen = groups.Look()
    for number in range(10_000):
        groups.note(seen, (f"{number}" + "g" * 32_000, "t" * 249, 0), 0, 1)
    assert len(seen.lines) < 20 and len(b"".join(one.text() for one in groups.families(seen))) < 2 << 20
    seen = groups.Look()
    for number in range(10_000):
        groups.note(seen, (f"g{number // 8}", "t", number % 8), 0, 1)
    assert len(seen.lines) == groups.MOST_PARTITIONS and len(seen.sums) == 1250
    assert len(b"".join(one.text() for one in groups.families(seen))) < 2 << 20


def test_an_open_transaction_is_seen(broker: Broker) -> None:
    make_topic(broker.bootstrap, "held")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "holder", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("held", b"x")
    assert producer.flush(60) == 0
    held = scraped(broker)
    assert value(held, "tallystick_open_transactions", at_least_seconds="0") == 1
    assert value(held, "tallystick_held_partitions") == 1
    assert value(held, "tallystick_last_stable_offset_lag", topic="held", partition="0") == 1
    producer.commit_transaction(60)
    ended = scraped(broker)
    assert value(ended, "tallystick_open_transactions", at_least_seconds="0") == 0
    assert value(ended, "kafka_server_brokertopicmetrics_messagesin_total", topic="held") == 1


def test_all_that_the_table_names_is_told_and_nothing_else(broker: Broker) -> None:
    """With the kinds that it says; so is what the dashboard asks for. It has a data folder, and no store."""
    make_topic(broker.bootstrap, "named")
    write(broker.bootstrap, "named", [b"x"])
    read_all(broker.bootstrap, "named")
    commit(broker, "named", {("named", 0): 0})
    text = ask(f"{broker.http_url}/metrics").text
    told = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    assert told == {one.name: one.kind.value for one in METRICS if one not in store.METRICS}
    samples = {line.partition(" ")[0].partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    asked = set(
        re.findall(r"\b(?:kafka|tallystick|process)_[a-z_]+", " ".join(expressions(json.loads(DASHBOARD.read_text()))))
    )
    assert len(asked) > 20
    assert asked - samples == set()


def expressions(dashboard: object) -> list[str]:
    """What a dashboard asks Prometheus for."""
    if isinstance(dashboard, dict):
        own = [dashboard["expr"]] if isinstance(dashboard.get("expr"), str) else []
        return [*own, *(found for one in dashboard.values() for found in expressions(one))]
    return [found for one in dashboard for found in expressions(one)] if isinstance(dashboard, list) else []


def test_the_page_of_metrics_is_current() -> None:
    assert metrics_page.TABLE.is_current(), "run `make docs`"


def test_between_scrapes_it_rests_in_proportion() -> None:
    rest = Rest()
    assert rest.left_s(now_s=100) == 0
    rest.begin(now_s=100, took_s=0.01)
    assert rest.left_s(now_s=100) == pytest.approx(MOST_TIMES_REST * 0.01)
    assert rest.left_s(now_s=115) == 0
    rest.begin(now_s=200, took_s=20)
    assert rest.left_s(now_s=200) == LONGEST_REST_S
