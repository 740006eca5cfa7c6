"""The topics of a node: what is durable in the metadata log can be used, what is gone is gone, also over restarts."""

import asyncio
import shutil
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.api.services import Services
from broker.partitions.errors import AppendError
from broker.partitions.topic import Topic
from broker.partitions.topic_partitions import Partitions
from coordinator.cluster.topics import plan_growth
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import CreatePartitionsTopic, DeleteTopicState
from protocol.records.record import NewRecord, build_batch
from tests.harness.turns import Turns
from tests.unit.cluster.cluster_rig import handle, topic, with_node

ONE_RECORD = build_batch([NewRecord(key=b"k", value=b"v", timestamp_ms=1)])


def append(node: Services, name: str, index: int = 0) -> int:
    partition = node.topics.partition(name, index)
    assert partition is not None
    return partition.append_records(ONE_RECORD, now_ms=1)


async def created(node: Services, name: str, partitions: int = 2) -> Topic:
    (result,) = await node.topics.create([topic(name, partitions)])
    assert result.error_code == ErrorCode.NONE
    found = node.topics.by_id(result.topic_id)
    assert found is not None and found is node.topics.by_name(name)
    return found


async def deleted(node: Services, name: str) -> None:
    (result,) = await node.topics.delete([DeleteTopicState(name=name)])
    assert result.error_code == ErrorCode.NONE


def test_a_topic_can_be_written_when_its_creation_is_answered() -> None:
    async def story(node: Services) -> None:
        made = await created(node, "t")
        assert len(made.partitions.opened()) == 2, "nothing is left to be opened"
        assert append(node, "t", 1) == 0
        assert made.partitions[1].leader_epoch == node.epoch
        assert node.topics.partition("t", 2) is None
        assert node.topics.partition("t", -1) is None
        assert node.topics.partition_by_id(made.topic_id, 0) is made.partitions[0]

    with_node(story)


def test_a_topic_is_not_there_before_it_is_durable() -> None:
    """What a crash could take away is shown to nobody."""

    async def story(node: Services) -> None:
        creation = asyncio.ensure_future(node.topics.create([topic("t", 1)]))
        await asyncio.sleep(0)
        assert "t" in node.cluster.image.topics
        assert node.topics.by_name("t") is None
        await creation
        assert node.topics.by_name("t") is not None

    with_node(story)


def test_a_successor_that_grows_before_its_name_is_free_has_all_its_partitions() -> None:
    """Partitions that came after the first record were unknown until the next start."""

    async def story(node: Services) -> None:
        await created(node, "t", 1)
        out_of_the_way = asyncio.Event()

        async def wait(_: Topic) -> None:
            await out_of_the_way.wait()

        async def open_after(request: Awaitable[object]) -> int:
            await request
            found = node.topics.by_name("t")
            return 0 if found is None else len(found.partitions.opened())

        node.topics.before_reuse(wait)
        gone = asyncio.ensure_future(node.topics.delete([DeleteTopicState(name="t")]))
        work = [asyncio.ensure_future(open_after(node.topics.create([topic("t", 1)])))]
        while "t" not in node.cluster.image.topics or node.topics.by_name("t") is not None:
            await asyncio.sleep(0)
        more = CreatePartitionsTopic(name="t", count=3, assignments=None)
        work.append(asyncio.ensure_future(open_after(node.topics.grow([more]))))
        while node.cluster.image.topics["t"].partition_count < 3 or node.cluster.image.changes:
            await asyncio.sleep(0)
        assert node.topics.by_name("t") is None
        out_of_the_way.set()
        await gone
        assert await asyncio.gather(*work) == [3, 3]

    with_node(story)


def test_a_deleted_topic_is_gone_and_its_successor_is_empty(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        first = await created(node, "t")
        append(node, "t")
        results: list[str] = []
        node.topics.on_deleted(lambda gone: results.append(gone.name))
        await deleted(node, "t")
        assert results == ["t"] and node.topics.by_name("t") is None and node.topics.by_id(first.topic_id) is None
        assert first.partitions[0].discarded
        assert not (tmp_path / "t-0").exists()
        second = await created(node, "t")
        assert second.topic_id != first.topic_id
        assert second.partitions[0].end_offset == 0

    with_node(story, folder=tmp_path)


def test_deleting_and_making_at_once_leaves_the_new_topic_usable(tmp_path: Path) -> None:
    """A new topic appears only when the folders of its namesake are out of the way."""

    async def story(node: Services) -> None:
        for _ in range(5):
            first = await created(node, "t", 3)
            append(node, "t")
            gone = asyncio.ensure_future(node.topics.delete([DeleteTopicState(name="t")]))
            await asyncio.sleep(0)
            second = await created(node, "t", 2)
            await gone
            assert second.topic_id != first.topic_id and second.partitions[0].end_offset == 0
            append(node, "t")
            assert second.partitions[0].end_offset == 1
            await deleted(node, "t")

    with_node(story, folder=tmp_path)


def test_topics_settings_and_records_survive_a_restart(tmp_path: Path) -> None:
    async def first(node: Services) -> tuple[bytes, int]:
        (result,) = await node.topics.create([topic("t", 2, configs={"retention.ms": "5"})])
        append(node, "t", 1)
        await created(node, "gone")
        await deleted(node, "gone")
        return result.topic_id, node.epoch

    async def second(node: Services) -> None:
        found = node.topics.by_name("t")
        assert found is not None and found.topic_id == topic_id and len(found.partitions) == 2
        assert found.config.log.retention_ms == 5
        assert found.partitions[1].end_offset == 1
        assert node.epoch == epoch + 1
        append(node, "t", 1)
        assert found.partitions[1].log.latest_epoch() == epoch + 1
        assert node.topics.by_name("gone") is None

    topic_id, epoch = with_node(first, folder=tmp_path)
    with_node(second, folder=tmp_path)


def test_folders_of_deleted_topics_go_and_other_folders_stay(tmp_path: Path) -> None:
    """A crash between deletion and the renaming of folders; and data that this log knows nothing of."""

    async def first(node: Services) -> None:
        await created(node, "t")
        append(node, "t")
        await deleted(node, "t")

    async def nothing(node: Services) -> None:
        while (deletion := node.topics.sweep()) is not None:
            deletion()

    with_node(first, folder=tmp_path)
    (moved,) = tmp_path.glob("t-0.*-delete")
    moved.rename(tmp_path / "t-0")
    stranger = tmp_path / "stranger-0"
    stranger.mkdir()
    (stranger / "00000000000000000000.log").write_bytes(b"precious")
    (tmp_path / "notes-2024").mkdir()
    with_node(nothing, folder=tmp_path, settings={"log.segment.delete.delay.ms": "0"})
    assert not (tmp_path / "t-0").exists() and not list(tmp_path.glob("*-delete"))
    (kept,) = tmp_path.glob("stranger-0.*-stray")
    assert (kept / "00000000000000000000.log").read_bytes() == b"precious"
    assert (tmp_path / "notes-2024").exists()


def test_growing_keeps_what_is_there() -> None:
    async def story(node: Services) -> None:
        made = await created(node, "t", 1)
        append(node, "t")
        (result,) = await node.topics.grow([CreatePartitionsTopic(name="t", count=4, assignments=None)])
        assert result.error_code == ErrorCode.NONE
        assert node.topics.by_name("t") is made and len(made.partitions.opened()) == 4
        assert made.partitions[0].end_offset == 1 and append(node, "t", 3) == 0

    with_node(story)


def test_partitions_that_are_durable_are_known_to_be_closed_until_they_are_opened() -> None:
    """Requests that name them wait for them, whoever asked for them."""

    async def story(node: Services) -> None:
        made = await created(node, "t", 1)
        assert not node.topics.to_open.any_left
        wanted = plan_growth([CreatePartitionsTopic(name="t", count=3, assignments=None)])
        await node.cluster.ask(lambda machine, ticket: machine.create_partitions(ticket, wanted, node.topics.rules()))
        assert len(made.partitions) == 3 and node.topics.to_open.any_left
        await node.topics.wait_until_open([made])
        assert len(made.partitions.opened()) == 3 and not node.topics.to_open.any_left
        node.topics.to_open.give_up()
        await node.topics.grow([CreatePartitionsTopic(name="t", count=4, assignments=None)])
        assert len(made.partitions.opened()) == 3 and made.partitions.is_closed(3), "none is opened any more"

    with_node(story)


def test_closed_partitions_may_outlive_their_topic() -> None:
    async def story(node: Services) -> None:
        made = await created(node, "t", 1)
        partitions = made.partitions
        partitions.grow(2)
        del made
        await deleted(node, "t")
        assert partitions[1].refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_node(story)


def test_the_first_request_creates_the_topic_for_all() -> None:
    async def story(node: Services) -> None:
        results = await asyncio.gather(*(node.topics.auto_create_all(["t"]) for _ in range(5)))
        assert results == [{"t": ErrorCode.NONE}] * 5
        found = node.topics.by_name("t")
        assert found is not None and len(found.partitions) == 2
        refused = {"bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert await node.topics.auto_create_all(["bad name"]) == refused

    with_node(story)


def test_an_internal_topic_is_made_compacted_and_only_once() -> None:
    async def story(node: Services) -> None:
        first, second = await asyncio.gather(*(node.topics.ensure_internal("__consumer_offsets") for _ in range(2)))
        assert first is second and first.internal and len(first.partitions) == 3
        assert first.config.log.cleanup_compact and not first.config.log.cleanup_delete
        assert first.config.log.segment_bytes == 104857600
        assert len(node.groups.all()) == 3, "its coordinators are there"

    with_node(story)


def test_a_thousand_partitions_open_while_the_loop_breathes(tmp_path: Path) -> None:
    async def first(node: Services) -> None:
        await created(node, "wide", 200)

    async def second(node: Services) -> None:
        found = node.topics.by_name("wide")
        assert found is not None and not found.partitions.opened(), "a start waits for none of them"
        with pytest.raises(AppendError, match="NOT_LEADER_OR_FOLLOWER"):
            append(node, "wide", 150)
        await node.topics.to_open.wait_a_moment([(found, 150)])
        assert append(node, "wide", 150) == 0 and found.partitions.is_closed(199), "what is asked for is opened next"
        await node.topics.wait_until_open()
        assert len(found.partitions.opened()) == 200

    settings = {"tallystick.durability": "page-cache"}
    with_node(first, folder=tmp_path, settings=settings)
    with_node(second, folder=tmp_path, settings=settings, opened=False)


def test_producer_ids_come_from_blocks_and_are_never_the_same(tmp_path: Path) -> None:
    """The first block is fetched at start; ids of a block that was not used up are lost, never given again."""

    async def story(node: Services) -> list[int]:
        taken: list[int] = []
        while len(taken) < 2500:
            producer_id = node.producer_ids.take()
            if producer_id is None:
                await node.group_commit.wait_until_idle()
                continue
            taken.append(producer_id)
        return taken

    ids = [*with_node(story, folder=tmp_path), *with_node(story, folder=tmp_path)]
    assert ids == sorted(set(ids))


def test_no_log_is_opened_for_a_deleted_topic(tmp_path: Path) -> None:
    """A loop over its partitions across a wait would make folders without an owner."""

    async def story(node: Services) -> None:
        made = await created(node, "t", 1)
        made.partitions.grow(2)
        await deleted(node, "t")
        await node.topics.wait_until_open([made])
        await node.topics.to_open.wait_a_moment([(made, 1)])
        assert made.partitions.is_closed(1)
        assert not (tmp_path / "t-1").exists()

    with_node(story, folder=tmp_path)


def test_a_topic_made_again_survives_a_kill(tmp_path: Path) -> None:
    """Checkpoints of the deleted one would let its log begin behind what was acknowledged."""
    running, killed = tmp_path / "running", tmp_path / "killed"

    async def story(node: Services) -> None:
        first = await created(node, "t", 1)
        for _ in range(5):
            end_offset = append(node, "t") + 1
        await (first.partitions[0].committed(end_offset) or asyncio.sleep(0))
        first.partitions[0].delete_records(5)
        await node.checkpoints.write()
        await deleted(node, "t")
        second = await created(node, "t", 1)
        await (second.partitions[0].committed(append(node, "t") + 1) or asyncio.sleep(0))
        shutil.copytree(running, killed)

    async def after(node: Services) -> None:
        partition = node.topics.partition("t", 0)
        assert partition is not None
        assert (partition.log_start_offset, partition.end_offset) == (0, 1)

    with_node(story, folder=running)
    with_node(after, folder=killed)


def test_checkpoints_of_a_deleted_topic_do_not_match_its_namesake(tmp_path: Path) -> None:
    """A kill came after the deletion was durable and before the checkpoints were written."""
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")

    async def story(node: Services) -> None:
        assert "t 0 5" not in (tmp_path / "log-start-offset-checkpoint").read_text()
        await created(node, "t", 1)
        assert append(node, "t") == 0

    with_node(story, folder=tmp_path)


def test_a_partition_that_opens_does_not_look_at_all_others() -> None:
    class Counted(list[Any]):
        looks = 0

        def __getitem__(self, index: Any) -> Any:
            self.looks += 1
            return super().__getitem__(index)

        def __iter__(self) -> Iterator[Any]:
            for index in range(len(self)):
                yield self[index]

    partitions = Partitions(lambda index: cast(Any, None))
    partitions._slots = slots = Counted()
    partitions.grow(1_000)
    while (index := partitions.first_closed()) is not None:
        partitions.put(index, cast(Any, SimpleNamespace(index=index, offline=None)))
    assert len(partitions.opened()) == 1_000
    assert slots.looks < 10_000


def test_many_topics_are_created_grown_and_deleted_in_slices() -> None:
    async def story(services: Services) -> None:
        turns = Turns(services.environment)
        names = [f"t{number}" for number in range(300)]
        results = await services.topics.create([topic(name, 1) for name in names])
        assert [one.name for one in results] == names and not any(one.error_code for one in results)
        assert turns.waited > 10
        before = turns.waited
        growths = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
        assert not any(one.error_code for one in await services.topics.grow(growths, validate_only=True))
        assert turns.waited > before + 10
        before = turns.waited
        deleted = await services.topics.delete([DeleteTopicState(name=name) for name in names])
        assert [one.name for one in deleted] == names and not any(one.error_code for one in deleted)
        assert turns.waited > before + 10
        assert not services.topics.all()

    with_node(story)


def test_metadata_makes_as_many_topics_as_one_request_may() -> None:
    """Kafka makes none of 2 001 topics of four partitions: they are more than 10 000 records."""

    async def story(services: Services) -> None:
        names = [f"t{number}" for number in range(2_001)]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=bytes(16), name=name) for name in names],
            allow_auto_topic_creation=True,
        )
        answer = await handle(services, request, 12)
        assert {one.error_code for one in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert not services.topics.all()

    with_node(story, settings={"num.partitions": "4"})
