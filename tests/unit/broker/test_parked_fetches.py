"""A fetch that waits is answered as one that did not have to (KAFKA-5376)."""

import asyncio
from typing import Any

from broker.api.api_families import load_handlers
from broker.api.context import RequestContext
from broker.api.services import Services
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.broker.test_fetch import append
from tests.unit.transactions.node_rig import CONNECTION, ask, end, in_a_node, init, partitions_of, produce

READ_COMMITTED = 1


def test_a_fetch_that_waited_for_an_abort_lists_it(tmp_path: Any) -> None:
    """I30: the records become readable by the very marker that aborts them."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        waiting = asyncio.ensure_future(ask(node, request, 11))
        done, _ = await asyncio.wait([waiting], timeout=0.01)
        assert not done and len(node.waiting) == 1
        await end(node, identity, commit=False)
        answer = await waiting
        response = answer.responses[0].partitions[0]
        assert response.last_stable_offset == partitions_of(node)[0].end_offset == 2
        assert response.records
        aborted = [(entry.producer_id, entry.first_offset) for entry in response.aborted_transactions]
        assert aborted == [(identity.producer_id, 0)]

    in_a_node(story, tmp_path)


class Looks:
    """What a request is charged for: the time since it `began`, until it is `fetched`."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def fetch_limit(self, wanted_bytes: int) -> int:
        return wanted_bytes

    def begin(self) -> None:
        self.done.append("began")

    def fetched(self, size_bytes: int) -> int:
        self.done.append(f"fetched {size_bytes}")
        return 0


def test_who_waited_is_charged_for_the_time_of_each_look(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        looks: Any = Looks()
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=60_000, min_bytes=200, session_epoch=-1, topics=topics)
        context = RequestContext(CONNECTION, 1, 11, 1, "test").charged(looks)
        waiting = load_handlers()[1].handler(node, context, request)
        size = 0
        for began in (1, 2):
            assert looks.done == ["began"] * (began - 1) and not waiting.done()
            size += append(partitions_of(node)[0])
            while len(looks.done) < began:
                await asyncio.sleep(0)
        await waiting
        assert looks.done == ["began", "began", f"fetched {size}"]

    in_a_node(story, tmp_path)
