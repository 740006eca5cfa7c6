"""franz-go's share consumer (`tests/go/shares`): two members share a topic, give back, reject and accept."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.share.offsets import DescribeOffsetsGroup, DescribeShareGroupOffsetsRequest
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.conformance.go_programs import built
from tests.harness.broker import server
from tests.harness.confluent import make_topic, write

pytestmark = pytest.mark.other_languages
RECORDS, SECONDS, GROUP_RESOURCE = 90, 600, 32


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return built("./shares", tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = server(tmp_path / "broker")
    try:
        yield process.start()
    finally:
        process.close()


async def begin_at_the_start(broker: BrokerProcess, group: str) -> None:
    connection = await Connection.connect("127.0.0.1", broker.port)
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="share.auto.offset.reset", config_operation=0, value="earliest"
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
    )
    answer = await connection.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert answer.responses[0].error_code == 0
    connection.abort()


async def lags(broker: BrokerProcess, group: str) -> list[int]:
    connection = await Connection.connect("127.0.0.1", broker.port)
    asked = DescribeShareGroupOffsetsRequest(groups=[DescribeOffsetsGroup(group_id=group, topics=None)])
    answer = await connection.ask(asked, 1)
    connection.abort()
    return [one.lag for topic in answer.groups[0].topics for one in topic.partitions]


def test_franz_go_shares_records(program: Path, broker: BrokerProcess) -> None:
    make_topic(broker.bootstrap, "t", 2)
    asyncio.run(begin_at_the_start(broker, "g"))
    for partition in range(2):
        values = [b"%d" % number for number in range(partition, RECORDS, 2)]
        write(broker.bootstrap, "t", values, partition=partition)
    done = subprocess.run(
        [str(program), broker.bootstrap, "g", "t", str(RECORDS)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for line in done.stdout.splitlines():
        partition, offset, delivery, word = line.split()
        said.setdefault((int(partition), int(offset)), []).append((int(delivery), word))
    for (_, offset), told in said.items():
        last = "reject" if offset % 7 == 2 else "accept"
        assert told == ([(1, "release"), (2, last)] if offset % 3 == 1 else [(1, last)]), offset
    assert said.keys() == {(partition, offset) for partition in range(2) for offset in range(RECORDS // 2)}
    assert asyncio.run(lags(broker, "g")) == [0, 0]
