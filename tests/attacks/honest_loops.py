"""What an honest client does all the time: four loops, each on a connection of its own.

Every loop counts its rounds and remembers its longest wait. What is answered otherwise than an honest client may expect
is a refusal: an error code that no client repeats, a connection that was closed, a record that is not what was written.
What was acknowledged is kept, to be looked for after a restart.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol.records.record import records_of
from tests.attacks import wire
from tests.attacks.wire import RETRIED, RETRY_S, Link

TOPIC = "honest"
TRANSACTIONAL_TOPIC = "honest-transactions"
TRANSACTIONAL_ID = "honest-producer"
GROUP = "honest-group"
SESSION_MS = 45_000


class Refused(Exception):
    """An honest client was treated as none should be."""


@dataclass
class Tally:
    """What one loop has seen."""

    rounds: int = 0
    waits_ms: list[float] = field(default_factory=list)
    acknowledged: dict[int, str] = field(default_factory=dict)
    """offset → value; the group's loop keeps its last committed offset under 0."""
    refused: str = ""

    def begin(self) -> None:
        """Forget the warm-up but for what was acknowledged."""
        self.rounds = 0
        self.waits_ms.clear()


def expect(code: int, what: str) -> None:
    if code != ErrorCode.NONE:
        raise Refused(f"{what}: {ErrorCode(code).name}")


class Loop:
    """One connection, one kind of rounds. `prepare` may repeat what clients repeat at a start; a round may not."""

    pause_s = 0.004

    def __init__(self, bootstrap: str, run: str) -> None:
        self.link = Link(bootstrap)
        self.run = run
        self.tally = Tally()
        self.number = 0

    def prepare(self) -> None: ...

    def round(self) -> None: ...

    def finish(self) -> None: ...

    def counted_round(self) -> None:
        self.number += 1
        began = time.perf_counter()
        self.round()
        self.tally.waits_ms.append(1000 * (time.perf_counter() - began))
        self.tally.rounds += 1

    def value(self) -> str:
        return f"{self.run}-{self.number}"


class Probe(Loop):
    """Metadata of one topic: touches no disk, so its longest wait is about the longest turn of the broker."""

    def prepare(self) -> None:
        wire.make_topic(self.link, TOPIC)

    def round(self) -> None:
        topic = self.link.request(wire.metadata(TOPIC), 9).topics[0]
        expect(topic.error_code, "Metadata")


class Writer(Loop):
    """A record is written with acks=all and read again."""

    def prepare(self) -> None:
        wire.make_topic(self.link, TOPIC)

    def round(self) -> None:
        batch = wire.batch_of([self.value().encode()])
        code, offset = wire.produced(self.link.request(wire.produce(TOPIC, batch), 9))
        expect(code, "Produce")
        self.tally.acknowledged[offset] = self.value()
        _expect_record(self.link, TOPIC, offset, self.value(), committed=False)


class Transactor(Loop):
    """A transaction of one record is committed and read by a read_committed consumer."""

    def prepare(self) -> None:
        wire.make_topic(self.link, TRANSACTIONAL_TOPIC)
        self.producer = wire.initialised(self.link, TRANSACTIONAL_ID)
        self.sequence = 0

    def round(self) -> None:
        adding = wire.add_partitions(TRANSACTIONAL_ID, self.producer, {TRANSACTIONAL_TOPIC: [0]})
        added = wire.retried(self.link, adding, 3, wire.first_partition_error)
        expect(wire.first_partition_error(added), "AddPartitionsToTxn")
        producer_id, epoch = self.producer
        batch = wire.batch_of(
            [self.value().encode()],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        request = wire.produce(TRANSACTIONAL_TOPIC, batch, transactional_id=TRANSACTIONAL_ID)
        error, offset = wire.produced(self.link.request(request, 9))
        expect(error, "Produce in a transaction")
        self.sequence += 1
        expect(self.link.request(wire.end_transaction(TRANSACTIONAL_ID, self.producer), 3).error_code, "EndTxn")
        self.tally.acknowledged[offset] = self.value()
        _expect_record(self.link, TRANSACTIONAL_TOPIC, offset, self.value(), committed=True)


class Member(Loop):
    """The only member of a group: heartbeats, and offsets that are committed and read again."""

    pause_s = 0.01

    def prepare(self) -> None:
        wire.wait_for_coordinator(self.link, GROUP, 0)
        self.member_id, code = "", ErrorCode.MEMBER_ID_REQUIRED
        deadline = time.monotonic() + RETRY_S
        while code in RETRIED | {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}:
            joined = self.link.request(_join(self.member_id), 5)
            self.member_id, code = joined.member_id or self.member_id, ErrorCode(joined.error_code)
            if time.monotonic() > deadline:
                raise Refused(f"JoinGroup: {code.name} for {RETRY_S:.0f} s")
        expect(code, "JoinGroup")
        self.generation = joined.generation_id
        assignment = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")
        syncing = SyncGroupRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id, assignments=[assignment]
        )
        expect(self.link.request(syncing, 3).error_code, "SyncGroup")

    def round(self) -> None:
        beating = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        expect(self.link.request(beating, 3).error_code, "Heartbeat")
        offset = max(int(self.tally.acknowledged.get(0, "0")), committed_offset(self.link)) + 1
        committing = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=self.run
        )
        commit = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[committing])],
        )
        expect(self.link.request(commit, 7).topics[0].partitions[0].error_code, "OffsetCommit")
        self.tally.acknowledged[0] = str(offset)
        if committed_offset(self.link) != offset:
            raise Refused("OffsetFetch: not the offset that was committed")

    def finish(self) -> None:
        """Leaves, so that nobody waits for it after a restart."""
        leaving = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
        expect(self.link.request(leaving, 3).error_code, "LeaveGroup")


LOOPS: dict[str, Callable[[str, str], Loop]] = {
    "probe": Probe,
    "writer": Writer,
    "member": Member,
    "transactor": Transactor,
}


def committed_offset(link: Link) -> int:
    """What the group has committed; -1 if nothing. Waits while its coordinator loads."""
    asking = OffsetFetchRequest(
        group_id=GROUP, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])], require_stable=False
    )
    answered = wire.retried(link, asking, 7, wire.whole_error)
    expect(answered.error_code, "OffsetFetch")
    return int(answered.topics[0].partitions[0].committed_offset)


def _join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="only", metadata=b"")],
    )


def _expect_record(link: Link, topic: str, offset: int, value: str, *, committed: bool) -> None:
    """The record at an offset, waited for while its transaction is not ended yet."""
    asking = wire.fetch(topic, offset, max_wait_ms=1000, committed=committed)
    found = None
    for _ in range(60):
        partition = link.request(asking, 11).responses[0].partitions[0]
        expect(partition.error_code, "Fetch")
        if partition.records:
            found = next(record.value for record in records_of(partition.records) if record.offset == offset)
            break
    if found != value.encode():
        raise Refused(f"Fetch: {found!r} at {topic}-0@{offset}, where {value} was acknowledged")
