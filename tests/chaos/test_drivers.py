"""A client that was fenced says so through its driver, at whatever step it learns it, and in no other way (I12)."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.client.client import Client
from tallystick.process import BrokerProcess
from tests.chaos.fenced import PARTITIONS, STEPS, TOPIC


async def _prepare(bootstrap: str) -> None:
    client = await Client.connect(bootstrap)
    await client.create_topic(TOPIC, PARTITIONS)
    await client.close()


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_a_fenced_producer_says_that_it_was_fenced(client: str, tmp_path: Path) -> None:
    """A worker ends on it. One that took it for something else would fight for the id, or fall."""
    broker = BrokerProcess(tmp_path)
    try:
        broker.start()
        asyncio.run(_prepare(broker.bootstrap))
        command = [sys.executable, "-m", "tests.chaos.fenced", client, broker.bootstrap]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        broker.close()
    assert ended.returncode == 0, ended.stderr[-3000:]
    said = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    assert list(said) == list(STEPS)
    assert {step: reason for step, reason in said.items() if "enced" not in reason} == {}
