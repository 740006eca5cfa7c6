"""A node that follows the metadata another one writes."""

import asyncio
from typing import Any, cast

from broker.coordination.cluster import Beginning, Cluster
from protocol.schema import Buffer
from tests.unit.cluster.cluster_rig import ClusterRig, topic
from tests.unit.cluster.test_several_brokers import cluster
from tests.unit.transactions.test_loading import Environment


class _Environment(Environment):
    def random_bytes(self, count: int) -> bytes:
        return bytes(count)


def written(rig: ClusterRig) -> list[Buffer]:
    return [batch for _, batch in rig.log.batches]


def test_what_comes_while_it_is_read_is_taken_in_once() -> None:
    """The end is looked at before what stands there is read, which may go on behind it by then."""

    async def story() -> None:
        rig = cluster()
        seen = rig.log.end_offset
        rig.create(topic("a", 2), topic("b", 1))
        follower = Cluster(None, cast(Any, _Environment()), on_written=lambda partition: None)
        follower.keep_leader_changes()
        await follower.begin_to_follow(Beginning(0))
        await follower.follow(written(rig), seen)
        assert follower.durable_offset == seen and not follower.image.by_id
        await follower.follow(written(rig), rig.log.end_offset)
        assert follower.durable_offset == rig.log.end_offset
        assert {one.name for one in follower.image.by_id.values()} == {"a", "b"}

    asyncio.run(story())
