"""Each matter has a connection of its own, on which requests wait for nothing but their like."""

import asyncio

from broker.peers.port import PeerUnreachable
from protocol.messages.header import RequestHeader
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.peers.rig import Heard, Rig, play, written

HEARTBEAT, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS = 12, 24, 27


def test_no_marker_waits_behind_what_takes_long() -> None:
    """The other node works on the requests of a connection one behind the other."""
    markers = WriteTxnMarkersResponse(markers=[])

    def answer(header: RequestHeader, _: Heard) -> bytes:
        return written(header, markers) if header.request_api_key == WRITE_TXN_MARKERS else b""

    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        (change,) = rig.asking()
        adding = AddPartitionsToTxnRequest(transactions=[])
        addition = rig.loop.create_task(rig.peers.ask(2, adding, 5, AddPartitionsToTxnResponse))
        request = WriteTxnMarkersRequest(markers=[])
        for _ in range(2):
            assert await rig.peers.ask(2, request, 2, WriteTxnMarkersResponse) == markers
        asked = sorted([one.request_api_key for one in heard.requests] for heard in rig.connections)
        assert asked == [[HEARTBEAT], [ADD_PARTITIONS_TO_TXN], [WRITE_TXN_MARKERS] * 2]
        rig.addresses.clear()
        rig.peers.addresses_changed()
        problems = await asyncio.gather(change, addition, return_exceptions=True)
        assert [type(one) for one in problems] == [PeerUnreachable] * 2

    play(story)
