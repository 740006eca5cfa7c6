"""DescribeLogDirs and AlterReplicaLogDirs: the folder, what is in it, and where nothing can be moved to."""

import os
from pathlib import Path
from typing import Any

import pytest

from broker.api.services import Services
from broker.disk.local_files import LocalFiles
from protocol.codec import encode_bytes
from protocol.errors import ErrorCode
from protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from protocol.records.record import NewRecord, build_batch
from storage.files import Space
from tests.unit.cluster.cluster_rig import handle, with_node

GONE, UNKNOWN = ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SPACE = Space(1000, 300)


async def topics_with_a_record(node: Services) -> int:
    """`t` and `u` of two partitions each, and one record in `t-1`. Returns its size."""
    for name in ("t", "u"):
        await node.topics.auto_create_all([name])
    partition = node.topics.partition("t", 1)
    assert partition is not None
    batch = build_batch([NewRecord(value=b"v" * 100, timestamp_ms=1)])
    partition.append(memoryview(batch), transactional_id=None, now_ms=1)
    return len(batch)


def topic(name: str, *sizes: tuple[int, int]) -> DescribeLogDirsTopic:
    partitions = [
        DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
        for index, size in sizes
    ]
    return DescribeLogDirsTopic(name=name, partitions=partitions)


async def described(node: Services, version: int, *wanted: tuple[str, list[int]], everything: bool = False) -> Any:
    topics = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in wanted]
    return await handle(node, DescribeLogDirsRequest(topics=None if everything else topics), version)


@pytest.mark.parametrize("version", range(1, 6))
def test_the_folder_its_file_system_and_the_size_of_each_log(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFiles, "space", lambda files: SPACE)

    async def story(node: Services) -> tuple[Any, int]:
        size = await topics_with_a_record(node)
        return await described(node, version, everything=True), size

    answer, size = with_node(story, folder=tmp_path)
    assert answer == DescribeLogDirsResponse(
        throttle_time_ms=0,
        error_code=0,
        results=[
            DescribeLogDirsResult(
                error_code=0,
                log_dir=str(tmp_path),
                topics=[topic("t", (0, 0), (1, size)), topic("u", (0, 0), (1, 0))],
                total_bytes=1000,
                usable_bytes=300,
                is_cordoned=False,
            )
        ],
    )
    assert size == sum(path.stat().st_size for path in (tmp_path / "t-1").glob("*.log"))
    assert len(encode_bytes(answer, version)) > 0


def test_what_is_not_there_is_left_out_and_what_is_named_twice_is_described_once(tmp_path: Path) -> None:
    async def story(node: Services) -> list[Any]:
        await topics_with_a_record(node)
        asked = [
            [("ghost", [0]), ("u", []), ("t", [7, -1, 0]), ("t", [0])],
            [("t", [1]), ("t", [0, 0])],
            [],
        ]
        return [(await described(node, 5, *wanted)).results[0].topics for wanted in asked]

    ghosts, twice, nothing = with_node(story, folder=tmp_path)
    assert ghosts == [topic("t", (0, 0))]
    assert [[one.partition_index for one in found.partitions] for found in twice] == [[0, 1]]
    assert nothing == []


def test_a_path_is_told_from_the_root_and_a_broker_in_memory_has_no_file_system() -> None:
    async def story(node: Services) -> Any:
        await topics_with_a_record(node)
        return await described(node, 5, ("t", [0]))

    (found,) = with_node(story, settings={"log.dirs": "some/where"}).results
    assert found.log_dir == os.path.join(os.getcwd(), "some/where")
    assert (found.total_bytes, found.usable_bytes) == (-1, -1)


def test_a_file_system_that_does_not_say_its_size_is_of_unknown_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def space(files: LocalFiles) -> Space:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(LocalFiles, "space", space)

    async def story(node: Services) -> Any:
        return await described(node, 5)

    (found,) = with_node(story, folder=tmp_path).results
    assert (found.error_code, found.total_bytes, found.usable_bytes) == (0, -1, -1)


def test_the_space_is_that_of_the_file_system_for_who_is_not_root(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    try:
        space, found = files.space(), os.statvfs(tmp_path)
    finally:
        files.close()
    assert space.total_bytes == found.f_blocks * found.f_frsize
    assert 0 < space.usable_bytes <= found.f_bfree * found.f_frsize


def moving(path: str, *topics: tuple[str, list[int]]) -> AlterReplicaLogDir:
    named = [AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics]
    return AlterReplicaLogDir(path=path, topics=named)


def moved(name: str, *results: tuple[int, int]) -> AlterReplicaLogDirTopicResult:
    partitions = [AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index, code in results]
    return AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)


@pytest.mark.parametrize("version", (1, 2))
def test_partitions_stay_in_the_folder_they_are_in_and_there_is_no_other(version: int, tmp_path: Path) -> None:
    own, other = str(tmp_path), "/no/such"

    async def story(node: Services) -> list[Any]:
        await topics_with_a_record(node)
        asked = [
            [moving(own, ("t", [0, 1, 9, -1]), ("ghost", [0]))],
            [moving(other, ("t", [0, 9]), ("ghost", [0]))],
            [moving(own + "/", ("t", [0])), moving("", ("u", [0]))],
            [moving(other, ("t", [1, 0])), moving(own, ("t", [0, 0]), ("u", []))],
            [],
        ]
        return [await handle(node, AlterReplicaLogDirsRequest(dirs=dirs), version) for dirs in asked]

    expected = [
        [moved("t", (0, 0), (1, 0), (9, UNKNOWN), (-1, UNKNOWN)), moved("ghost", (0, UNKNOWN))],
        [moved("t", (0, GONE), (9, GONE)), moved("ghost", (0, GONE))],
        [moved("t", (0, GONE)), moved("u", (0, GONE))],
        [moved("t", (1, GONE), (0, 0))],
        [],
    ]
    answers = with_node(story, folder=tmp_path)
    assert answers == [AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results) for results in expected]
