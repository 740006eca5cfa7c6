"""Producer ids: each is handed out once in the life of a cluster (I01, KAFKA-20031)."""

from types import SimpleNamespace
from typing import Any

from broker.coordination.producer_ids import INCARNATION_SHIFT, IncarnationIds, ProducerIdSource
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.cluster.cluster_rig import ClusterRig


def source_of(rig: ClusterRig) -> ProducerIdSource:
    cluster: Any = SimpleNamespace(shard=rig.shard, epoch=1, image=rig.machine.image)
    return ProducerIdSource(cluster, 1)


def test_no_id_is_handed_out_before_its_block_is_durable() -> None:
    rig = ClusterRig(MemoryShardLog(durable=False))
    source = source_of(rig)
    assert [source.take(), source.take()] == [None, None]
    assert len(rig.log.batches) == 1, "one block is asked for"
    rig.log.sync()
    assert [source.take(), source.take()] == [0, 1]


def test_a_block_is_asked_for_until_there_is_one() -> None:
    """While the metadata are read, and where their log refuses it."""
    rig = ClusterRig()
    source = source_of(rig)
    rig.shard.reload()
    assert source.take() is None
    assert rig.shard.load_slice(1 << 20)
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [source.take() for _ in range(4)] == [None, None, 0, 1]


def test_the_next_block_is_requested_before_it_is_needed() -> None:
    source = source_of(ClusterRig())
    source.prefetch()
    assert [source.take() for _ in range(2_500)] == list(range(2_500))


def test_the_next_block_is_asked_for_when_nine_tenths_of_one_are_used() -> None:
    rig = ClusterRig(MemoryShardLog(durable=False))
    source = source_of(rig)
    source.prefetch()
    rig.log.sync()
    written = len(rig.log.batches)
    assert [source.take() for _ in range(900)] == list(range(900))
    assert len(rig.log.batches) == written
    assert [source.take() for _ in range(101)] == [*range(900, 1_000), None]
    assert len(rig.log.batches) == written + 1, "once"
    rig.log.sync()
    assert source.take() == 1_000


def test_unused_ids_are_lost_with_the_process() -> None:
    rig = ClusterRig()
    first = source_of(rig)
    first.prefetch()
    assert first.take() == 0
    again = source_of(rig.reloaded())
    again.prefetch()
    assert again.take() == 1000


def test_nodes_beside_others_have_ids_that_no_other_life_has() -> None:
    """They ask nobody for blocks, so that no question can be asked twice (KAFKA-20114)."""
    lives = [IncarnationIds(number) for number in (1, 2, 3)]
    taken = [one.take() for _ in range(1000) for one in lives]
    assert len(set(taken)) == 3000
    assert {number >> INCARNATION_SHIFT for number in taken if number is not None} == {1, 2, 3}
    lives[0]._used = (1 << INCARNATION_SHIFT) - 1
    last = lives[0].take()
    assert last is not None and last + 1 == 2 << INCARNATION_SHIFT, "the next one is another life's"
    assert lives[0].take() is None
