"""That logs are out of the collector's sight once there are many, and freed without it."""

import asyncio
import gc
from pathlib import Path
from weakref import ref

from broker.api.services import Services
from broker.upkeep.long_lived import MANY, LongLived
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import topic, with_node


def is_in_sight(thing: object) -> bool:
    return any(one is thing for one in gc.get_objects())


def test_many_new_logs_are_frozen_and_stay_so_when_a_topic_is_deleted() -> None:
    async def story(node: Services) -> None:
        keeping = asyncio.create_task(LongLived(node.topics).keep_out_of_sight())
        await asyncio.sleep(0)
        await node.topics.create([topic("few", 3)])
        for _ in range(5):
            await asyncio.sleep(0)
        few = node.topics.by_name("few")
        assert is_in_sight(few), "a collection of few takes no time"
        await node.topics.create([topic("many", MANY)])
        while is_in_sight(few) or is_in_sight(node.topics.by_name("many")):
            await asyncio.sleep(0)
        await node.topics.delete([DeleteTopicState(name="few")])
        assert not is_in_sight(node.topics.by_name("many"))
        keeping.cancel()

    try:
        with_node(story)
    finally:
        gc.unfreeze()


def test_logs_of_a_topic_that_grows_are_frozen_too() -> None:
    async def story(node: Services) -> None:
        keeping = asyncio.create_task(LongLived(node.topics).keep_out_of_sight())
        await node.topics.create([topic("t", 1)])
        await node.topics.grow([CreatePartitionsTopic(name="t", count=MANY, assignments=None)])
        for _ in range(5):
            await asyncio.sleep(0)
        assert not is_in_sight(node.topics.partition("t", 1))
        keeping.cancel()

    try:
        with_node(story)
    finally:
        gc.unfreeze()


def test_a_deleted_topic_is_freed_without_the_collector(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("t", 2)])
        await node.topics.wait_until_open()
        found = node.topics.by_name("t")
        assert found is not None
        parts = [found, *found.partitions.opened()]
        left = [ref(one) for one in (*parts, *(one.log for one in parts[1:]), *(one.derived for one in parts[1:]))]
        del found, parts
        gc.collect()
        gc.disable()
        try:
            await node.topics.delete([DeleteTopicState(name="t")])
            for _ in range(1000):
                await asyncio.sleep(0)
            assert [one() for one in left if one() is not None] == []
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            ours = [type(one) for one in gc.garbage if type(one).__module__.startswith(("broker", "storage"))]
            assert ours == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    with_node(story, folder=tmp_path)
