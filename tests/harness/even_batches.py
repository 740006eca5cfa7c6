"""Records in batches of a size that is known: where segments begin and index entries stand follows from it.

A client that gathers records sends fewer of them now and then.
"""

import asyncio
from collections.abc import Sequence

from protocol.records.record import NewRecord, build_batch
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.client.errors import check


def write_in_batches(bootstrap: str, topic: str, values: Sequence[bytes], each: int) -> None:
    """Into partition 0, `each` in a batch; keys are the first eight bytes."""
    asyncio.run(_write(bootstrap, topic, values, each))


async def _write(bootstrap: str, topic: str, values: Sequence[bytes], each: int) -> None:
    client = await Client.connect(bootstrap)
    try:
        for begin in range(0, len(values), each):
            records = [NewRecord(value, value[:8], now_ms()) for value in values[begin : begin + each]]
            check((await client.produce(topic, 0, build_batch(records))).error_code)
    finally:
        await client.close()
