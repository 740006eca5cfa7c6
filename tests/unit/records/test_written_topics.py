"""Partitions as they are written on a command line."""

import asyncio

import pytest

from protocol.errors import ErrorCode
from tallystick.cli.records import written_topics
from tallystick.cli.written_places import Named
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError
from tallystick.inspection.places import Place


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_partition_of_a_topic_that_one_may_read(monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> None:
    """That there is no topic of the whole name is told to nobody who has no right to it."""

    async def existing(client: Client, named: Named) -> list[Place]:
        if "orders" not in named:
            raise KafkaError(code, "orders-3")
        assert named["orders"] == {3}
        return [("orders", 3)]

    monkeypatch.setattr(written_topics, "existing", existing)
    client = object.__new__(Client)
    assert asyncio.run(written_topics.wanted_places(client, ["orders-3"])) == [("orders", 3)]
    with pytest.raises(KafkaError):
        asyncio.run(written_topics.wanted_places(client, ["payments-x"]))
