"""A partition that another node leads is read ahead as one of this node's is."""

import pytest

from broker.shared.reading import ahead
from tests.unit.across_nodes.followed import World, told
from tests.unit.across_nodes.rig import ME
from tests.unit.storage.batches import batch


def test_who_reads_on_far_behind_has_what_follows_brought_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "STRETCH_BYTES", 1)

    async def story(world: World) -> None:
        for _ in range(6):
            await world.commit(batch(1))
        partition = await world.read_at(0)
        partition.shared._here.shrink(6)
        for offset in (0, 1):
            away = partition.log.away(offset)
            assert away is not None
            await away
        await world.until(lambda: len(world.store.read_for_readers) == 3)
        assert world.store.read_for_readers == [0, 1, 2]
        world.leader = ME
        await world.until(lambda: partition.discarded)
        assert world.partitions._ahead.held_bytes == 0

    told(story)
