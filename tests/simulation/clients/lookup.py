"""Where a partition begins and ends."""

import asyncio
from typing import Any

from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.simulation.clients.session import Session
from tests.simulation.history import Place

EARLIEST, LATEST = -2, -1


async def offset_at(session: Session, place: Place, timestamp: int, isolation: int) -> int:
    """ListOffsets, until it is answered."""
    asked = ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=place[0], partitions=[asked])],
        timeout_ms=1000,
    )
    while True:
        found: Any = (await session.insist(request, 7)).topics[0].partitions[0]
        if not found.error_code:
            return int(found.offset)
        await asyncio.sleep(0.01)
