"""Everything a broker does beside transactions, done once by one client, so that every other fault point is passed.

What a chore was promised by an answer is looked at after the crash (`promises_kept`).
"""

import asyncio
import time
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from protocol.messages.topics import DeleteTopicsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import GROUP, Client
from tallystick.client.errors import check
from tallystick.client.reading import read_all

BUSY = {
    "log.cleaner.backoff.ms": "10",
    "log.retention.check.interval.ms": "10",
    "log.flush.offset.checkpoint.interval.ms": "10",
}
"""Housekeeping without a rest."""
KEYED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
SHORT = {"retention.ms": "1", "segment.ms": "1"}
KEYS, ROUNDS = 3, 4
DOOMED = "doomed"


class Chores:
    """See the head of this file."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.latest: dict[bytes, set[bytes]] = {}
        """key → the values that may be its latest: the last acknowledged one, and what was sent after it."""
        self.committed: set[int] = set()
        """The offsets at which the plain group may stand."""
        self.deleted = False

    async def run(self, client: Client) -> None:
        """All of it, in order. What the broker dies in is left half done."""
        await self._make_topics(client)
        await self._commit_offsets(client)
        await self._join(client)
        await self._fill(client)
        await self._delete(client)

    async def _make_topics(self, client: Client) -> None:
        for name, configs in (("keyed", KEYED), ("short", SHORT), (DOOMED, {})):
            await client.create_topic(name, 1, configs)
            self.topics.append(name)

    async def _commit_offsets(self, client: Client) -> None:
        for offset in (1, 2):
            self.committed.add(offset)
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset, committed_metadata=None
            )
            topic = OffsetCommitRequestTopic(name="keyed", partitions=[partition])
            request = OffsetCommitRequest(group_id="plain", member_id="", topics=[topic])
            answer = await (await client.coordinator("plain", GROUP)).ask(request, 8)
            check(answer.topics[0].partitions[0].error_code)
            self.committed = {offset}

    async def _join(self, client: Client) -> None:
        coordinator = await client.coordinator("members", GROUP)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        # The group waits for a SyncGroup as long as for a member that is gone: a later member joins again.
        while error == ErrorCode.UNKNOWN_MEMBER_ID:
            answer = await coordinator.ask(_join_request(""), 3)
            check(answer.error_code)
            request = SyncGroupRequest(
                group_id="members", generation_id=answer.generation_id, member_id=answer.member_id, assignments=[]
            )
            error = (await coordinator.ask(request, 2)).error_code
        check(error)

    async def _fill(self, client: Client) -> None:
        """Each round is a segment of its own: its records are a second younger than those before."""
        began_ms = int(time.time() * 1000) - 60_000
        for number in range(ROUNDS):
            for topic in ("keyed", "short"):
                values = {b"k%d" % key: b"%d-%d" % (number, key) for key in range(KEYS)}
                if topic == "keyed":
                    for key, value in values.items():
                        self.latest.setdefault(key, set()).add(value)
                records = [
                    NewRecord(key=key, value=value, timestamp_ms=began_ms + 1000 * number)
                    for key, value in values.items()
                ]
                check((await client.produce(topic, 0, build_batch(records))).error_code)
                if topic == "keyed":
                    self.latest = {key: {value} for key, value in values.items()}

    async def _delete(self, client: Client) -> None:
        self.topics.remove(DOOMED)
        request = DeleteTopicsRequest(topic_names=[DOOMED], timeout_ms=10_000)
        check((await client.ask(request, 5)).responses[0].error_code)
        self.deleted = True

    async def promises_kept(self, client: Client) -> None:
        """What was answered holds, and what was not answered can be done now."""
        for name in self.topics:
            await client.topic(name)
        if "keyed" in self.topics and self.latest:
            found: dict[bytes, bytes] = {}
            for record in await read_all(client, "keyed", 0):
                assert record.key is not None and record.value is not None
                found[record.key] = record.value
            acknowledged = {key for key, values in self.latest.items() if len(values) == 1}
            assert acknowledged <= set(found) and all(value in self.latest[key] for key, value in found.items())
        if self.committed:
            assert await _committed(client) in self.committed | ({-1} if self.committed == {1} else set())
        metadata = await client.metadata([DOOMED])
        if self.deleted:
            assert metadata.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again = Chores()
        if metadata.topics[0].error_code == ErrorCode.NONE:
            await again._delete_only(client)
        await client.create_topic(DOOMED)
        assert await read_all(client, DOOMED, 0) == []
        await again._join(client)

    async def _delete_only(self, client: Client) -> None:
        self.topics.append(DOOMED)
        await self._delete(client)


def _join_request(member: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="members",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=100,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


async def _committed(client: Client) -> int:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="plain", topics=None)], require_stable=True)

    async def attempt() -> Any:
        answer = (await (await client.coordinator("plain", GROUP)).ask(request, 8)).groups[0]
        check(answer.error_code)
        return answer

    answer = await client.patiently(attempt)
    offsets = [one.committed_offset for topic in answer.topics for one in topic.partitions]
    return int(offsets[0]) if offsets else -1


async def until_it_dies(client: Client) -> None:
    """Housekeeping needs a while."""
    while not client.seed.is_lost:
        await asyncio.sleep(0.005)
