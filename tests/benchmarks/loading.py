"""`python -m tests.benchmarks.loading`: how long Metadata waits while a node loads its coordinators.

--mb 300             of __consumer_offsets, over its 50 partitions     --rounds 3   starts after an orderly stop
--records 1          offsets in one commit                             --groups 20  in each partition, 20 offsets each
--topics 0           beside it, of 100 partitions each

A broker makes the topic and stops; the commits are put behind what is there, as if groups had made them. Then it is
started, and one connection requests Metadata, one at a time, until everything is loaded. What the loop's own
monitor says comes from the same time; `cpu` is how much of that the process computed. At the first start logs have no
snapshot of producers: they are replayed from their beginnings. It is measured, too, and so is how long the stop of a
start takes that is stopped at once.
"""

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from broker.coordination.key_partition import partition_for
from broker.disk.local_files import LocalFiles
from coordinator.groups.log_entries import committed_offset
from protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.records.record import NewRecord, build_batch
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.attacks.measures import stalls_of

PARTITIONS = 50
PARTITIONS_OF_TOPICS = 100
OFFSETS_PER_GROUP = 20
MEGABYTE = 1_000_000
PAUSE_S = 0.002
LOADED_LOOK_S = 0.1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.loading", description=__doc__)
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--topics", type=int, default=0)
    return parser.parse_args()


async def make_topics(process: BrokerProcess, topics: int) -> None:
    """FindCoordinator for a group creates `__consumer_offsets`."""
    connection = await Connection.connect("127.0.0.1", process.port)
    for number in range(topics):
        topic = CreatableTopic(
            name=f"t{number}", num_partitions=PARTITIONS_OF_TOPICS, replication_factor=1, assignments=[], configs=[]
        )
        await connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["first"])
    while (await connection.ask(request, 4)).coordinators[0].error_code:
        await asyncio.sleep(LOADED_LOOK_S)
    await connection.close()


def fill(data: Path, *, megabytes: int, groups: int, records: int) -> None:
    """Commits of all groups of a partition in turns, as many as are wanted."""
    files = LocalFiles(str(data))
    try:
        for index, ids in enumerate(group_ids(groups)):
            log = SegmentLog.open(
                files, f"__consumer_offsets-{index}", LogConfig(), now_ms=wall_ms, recovery=Recovery(clean=True)
            )
            commits = b"".join(commits_of(ids, records))
            for _ in range(max(1, megabytes * MEGABYTE // PARTITIONS // len(commits))):
                log.append(commits, leader_epoch=1)
            log.close()
    finally:
        files.close()


def group_ids(groups: int) -> list[list[str]]:
    """So many group ids for each partition."""
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for number in itertools.count():
        of_partition = found[partition_for(name := f"group-{number}", PARTITIONS)]
        if len(of_partition) < groups:
            of_partition.append(name)
            if all(len(ids) == groups for ids in found):
                return found
    raise AssertionError


def commits_of(ids: list[str], records: int) -> list[bytes]:
    made: list[bytes] = []
    for group_id in ids:
        offsets = [_offset(group_id, partition) for partition in range(OFFSETS_PER_GROUP)]
        made += [build_batch(offsets[first : first + records]) for first in range(0, OFFSETS_PER_GROUP, records)]
    return made


def _offset(group_id: str, partition: int) -> NewRecord:
    now_ms = wall_ms()
    record = committed_offset(
        group_id,
        "numbers",
        partition,
        offset=123_456,
        leader_epoch=0,
        metadata="",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=-1,
        topic_id=bytes(16),
    )
    return NewRecord(key=record.key, value=record.value, timestamp_ms=now_ms)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def waits_while_loading(process: BrokerProcess, starts: int) -> tuple[list[float], float]:
    """Milliseconds of each Metadata until the last group is known and all logs are open, and the seconds until then."""
    port = process.port
    connection, other = await Connection.connect("127.0.0.1", port), await Connection.connect("127.0.0.1", port)
    began = time.perf_counter()
    loaded = asyncio.get_running_loop().create_task(_until_loaded(other, process.log, starts))
    waits: list[float] = []
    while not loaded.done():
        started = time.perf_counter()
        await connection.ask(MetadataRequest(topics=[]), 12)
        waits.append(1000 * (time.perf_counter() - started))
        await asyncio.sleep(PAUSE_S)
    seconds = time.perf_counter() - began
    await connection.close()
    await other.close()
    return waits, seconds


async def _until_loaded(connection: Connection, log: Path, starts: int) -> None:
    while (await connection.ask(ListGroupsRequest(), 4)).error_code or whole_starts(log) < starts:
        await asyncio.sleep(LOADED_LOOK_S)


def whole_starts(log: Path) -> int:
    """How many starts have opened all logs."""
    return log.read_text().count(" logs are open ")


def measured(process: BrokerProcess) -> str:
    starts = whole_starts(process.log) + 1
    process.start()
    waits, seconds = asyncio.run(waits_while_loading(process, starts))
    times = psutil.Process(process.pid).cpu_times()
    stalls = stalls_of(process.pid, process.log)
    process.stop(seconds=300)
    return (
        f"loaded in {seconds:.1f} s (cpu of the process since its start {times.user + times.system:.1f} s); "
        f"Metadata {len(waits)} times, ms: min {min(waits):.2f}, median {statistics.median(waits):.2f}, "
        f"worst {max(waits):.1f}; turns over 20 ms: {stalls.turns}, over 100 ms: {stalls.over_100_ms}, "
        f"worst {stalls.worst_ms} ms ({stalls.ran})"
    )


def stop_of_a_start(process: BrokerProcess) -> str:
    process.start()
    started = time.perf_counter()
    process.stop(seconds=300)
    return f"SIGTERM as soon as it serves: {time.perf_counter() - started:.2f} s until it was gone"


def main() -> None:
    chosen = options()
    with tempfile.TemporaryDirectory(prefix="tallystick-loading-") as folder:
        process = BrokerProcess(Path(folder), options=["--durability", "page-cache"], start_seconds=300)
        try:
            process.start()
            asyncio.run(make_topics(process, chosen.topics))
            process.stop(seconds=60)
            fill(process.data, megabytes=chosen.mb, groups=chosen.groups, records=chosen.records)
            print(stop_of_a_start(process), flush=True)
            print("without snapshots:", measured(process), flush=True)
            for _ in range(chosen.rounds):
                print(measured(process), flush=True)
            for line in process.log.read_text().splitlines():
                if "kept busy" in line:
                    print(line)
        finally:
            process.close()


if __name__ == "__main__":
    main()
