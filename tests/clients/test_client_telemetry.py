"""An unmodified client pushes its metrics where it is asked to (KIP-714), and their last values are in a file."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from broker.api.client_metrics import FILE
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA
from tests.harness.confluent import make_topic, wait_until

pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
CLIENT_METRICS = 16


async def subscribe(bootstrap: str) -> None:
    """To all metrics, as often as can be."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.connect(host, int(port))
    try:
        configs = [
            IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
            for name, value in (("interval.ms", "100"), ("metrics", "*"))
        ]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=CLIENT_METRICS, resource_name="all", configs=configs
        )
        answer = await connection.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert [one.error_code for one in answer.responses] == [0]
    finally:
        await connection.close()


@pytest.mark.skipif(KAFKA, reason="a Kafka receives metrics where a plug-in does")
def test_librdkafka_pushes_what_is_subscribed_to(own_broker: Callable[..., BrokerProcess], name: str) -> None:
    process = own_broker(more={"tallystick.client.telemetry": "true"})
    process.start()
    make_topic(process.bootstrap, name, 1)
    asyncio.run(subscribe(process.bootstrap))
    written = process.data / FILE
    producer = Producer(
        {"bootstrap.servers": process.bootstrap, "client.id": name, "enable.metrics.push": True, "acks": "all"}
    )

    def is_told() -> bool:
        producer.produce(name, b"value")
        producer.flush(10)
        return written.exists() and f'client_id="{name}"' in written.read_text()

    wait_until(is_told, "no metrics were written")
    (line,) = [
        line
        for line in written.read_text().splitlines()
        if line.startswith("org_apache_kafka_producer_connection_creation_total{") and f'client_id="{name}"' in line
    ][:1]
    assert float(line.rpartition(" ")[2]) >= 0 and 'client_software_name="' in line
