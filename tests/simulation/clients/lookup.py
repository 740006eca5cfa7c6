"""Where a partition begins and ends."""

import asyncio
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.simulation.clients.session import Session
from tests.simulation.history import Place
from tests.simulation.plan_clients import CHURNED, SCRATCH

EARLIEST, LATEST = -2, -1


async def offset_at(session: Session, place: Place, timestamp: int, isolation: int) -> int | None:
    """ListOffsets, until it is answered; None where there is no such topic."""
    partition = ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=place[0], partitions=[partition])],
        timeout_ms=1000,
    )
    while True:
        found: Any = (await session.insist(request, 7)).topics[0].partitions[0]
        if not found.error_code:
            return int(found.offset)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and place[0] in (SCRATCH, CHURNED):
            return None
        await asyncio.sleep(0.01)
