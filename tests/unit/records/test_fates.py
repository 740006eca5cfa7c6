"""What became of the transaction of a record, where the broker goes away while the log is read ahead."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from protocol.messages.fetch import PartitionData
from protocol.records.batch import read_header
from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tallystick.records.fates import Fate
from tallystick.records.reading_ahead import Fates


class Away:
    """A client whose broker is away for the first questions."""

    def __init__(self) -> None:
        self.retries = 0
        self.forgotten = 0

    async def in_time(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await work

    def forget(self) -> None:
        self.forgotten += 1

    async def fetch(self, topic: str, partition: int, offset: int) -> PartitionData:
        if self.forgotten < 2:
            raise ConnectionLost("it went away")
        assert (topic, partition, offset) == ("t", 0, 1)
        return PartitionData(partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=b"")


def test_a_broker_that_goes_away_is_waited_for() -> None:
    client = Away()
    batch = bytes(build_batch([NewRecord(b"v", None, 5, ())], transactional=True, compression=0))
    fates = Fates(cast(Client, client), ("t", 0))
    fates.see(batch)
    assert asyncio.run(fates.of(read_header(batch), 9)) is Fate.OPEN
    assert client.forgotten == 2
