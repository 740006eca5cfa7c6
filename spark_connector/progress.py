"""The control topic: one compacted topic with the last committed batch of every sink and query.

    key    sinkId|queryId                        Spark's query id lives in the checkpoint: a new checkpoint starts anew
    value  JSON {"v": 1, "batch": n, ...}        see `Marker`
    partition  murmur2(key) % 16, always         the topic is made with that many; more do no harm

The sink id names the writer: a query may have several (`sink.identity`), each with markers of its own.

Rule 1. A marker is written in the transaction of its batch, and in no other way.
Rule 2. It is read only after a lease was taken on the sink's transactional id. From then on every earlier transaction
        of the sink is decided and its end marker written.
Rule 3. It is read up to the high watermark, not to the last stable offset, and the reader itself separates committed
        from aborted by the end markers: another sink's open transaction in the same partition holds the last stable
        offset in front of our own marker, and a reader that stopped there would take a committed batch for a lost one.
Rule 4. What is no marker was written by somebody else: it is passed over with a warning. A marker that cannot be read,
        of a newer connector for one, is an error for its own sink and query, and for no other.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from protocol.records.batch import headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import NewRecord, build_batch, records_of
from spark_connector.errors import UnsafeProgressTopic
from spark_connector.murmur2 import murmur2
from tallystick.client.background import now_ms
from tallystick.client.client import EARLIEST, LATEST, Client
from tallystick.client.errors import KafkaError
from tallystick.client.lease import judge, persistently
from tallystick.client.reading import joined

PARTITIONS = 16
VERSION = 1
_log = logging.getLogger("spark_connector")
_TOPIC = 2
"""Resource type of DescribeConfigs."""
_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}


@dataclass(frozen=True, slots=True)
class Marker:
    """What is known of the last committed batch of a query."""

    batch: int
    source: list[str] = field(default_factory=list)
    """The offsets up to which the batch read its sources, as Spark's checkpoint has them."""
    records: dict[str, dict[str, int]] = field(default_factory=dict)
    """Records written, by topic and partition."""
    written_ms: int = 0
    topics: list[str] | None = None
    """Where the writer was told to write; empty where each row said so; None in older markers."""

    def to_bytes(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Marker":
        """Raises `UnsafeProgressTopic` for what we did not write: going on could double a batch."""
        try:
            known: Mapping[str, Any] = json.loads(data)
            if known["v"] != VERSION:
                raise UnsafeProgressTopic(
                    f"a marker of version {known['v']}: written by a newer connector, use that one"
                )
            topics = known.get("topics")
            return cls(int(known["batch"]), known["source"], known["records"], known["written_ms"], topics)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnsafeProgressTopic(f"the control topic holds something that is no marker: {data[:80]!r}") from error

    def is_of(self, topic: str | None) -> bool:
        """Whether it may be of a writer with this option `topic`. Without the topics what was written must do."""
        if self.topics is not None:
            return self.topics == ([] if topic is None else [topic])
        return topic is None or set(self.records) <= {topic}


def progress_key(sink_id: str, query_id: str) -> str:
    """`query_id` is Spark's for a stream, `job:<jobId>` for a batch job."""
    return f"{sink_id}|{query_id}"


class ProgressTopic:
    """The control topic of one cluster, as one process sees it. Keeps what it has read, and where it is."""

    def __init__(self, client: Client, topic: str, patience_s: float) -> None:
        self.client = client
        self.topic = topic
        self._patience_s = patience_s
        self._topic_id = b""
        self._positions: dict[int, int] = {}
        self._markers: dict[str, Marker] = {}
        self._unreadable: dict[str, UnsafeProgressTopic] = {}
        """By key, why its last committed marker cannot be read."""
        self._undecided: dict[int, dict[int, list[tuple[str, Marker | UnsafeProgressTopic | None]]]] = {}
        """By partition and producer id: keys and markers whose transaction has not been seen to end."""

    def partition_of(self, key: str) -> int:
        return (murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS

    async def last(self, key: str) -> Marker | None:
        """The last committed marker of a key. Only right after a lease on the sink's id was taken (rule 2).

        Raises `UnsafeProgressTopic` where that cannot be known.
        """
        partition = self.partition_of(key)
        await self._catch_up([partition])
        for waiting in self._undecided.get(partition, {}).values():
            if any(named == key for named, _ in waiting):
                raise UnsafeProgressTopic(
                    f"a marker of {key} in {self.topic}-{partition} is neither committed nor aborted after the fence"
                )
        if key in self._unreadable:
            raise self._unreadable[key]
        return self._markers.get(key)

    async def of_query(self, query: str) -> dict[str, Marker | None]:
        """By sink id, what every sink of a query has committed last; None where that is not known yet. For choosing a
        sink id before a lease is taken, and for nothing else (rule 2): the topic is read as a whole.
        """
        await self._catch_up(range(PARTITIONS))
        waiting = [key for book in self._undecided.values() for named in book.values() for key, _ in named]
        found: dict[str, Marker | None] = {}
        for key in (*waiting, *self._unreadable, *self._markers):
            sink_id, _, of = key.rpartition("|")
            if of == query:
                found[sink_id] = self._markers.get(key)
        return found

    async def committed(self) -> dict[str, Marker]:
        """All markers that are committed now, by key; none where the topic is not there. For callers that only look: no
        lease is taken, so a commit may be under way.
        """
        (found,) = (await self.client.metadata([self.topic])).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        for partition in range(min(PARTITIONS, len(found.partitions))):
            await persistently(self.client, partial(self._read_on, partition), patience_s=self._patience_s)
        return dict(self._markers)

    def batch(self, key: str, marker: Marker) -> tuple[tuple[str, int], bytearray]:
        """The marker as a record batch for a `Sender`, and where it goes."""
        record = NewRecord(key=key.encode(), value=marker.to_bytes(), timestamp_ms=now_ms())
        return (self.topic, self.partition_of(key)), bytearray(build_batch([record], transactional=True))

    async def _catch_up(self, partitions: Iterable[int]) -> None:
        """Read these to their ends, and make the topic if there is none. One that was deleted since the last look is
        made anew, too; what it knew is lost, and so is what is known of it here.
        """
        try:
            await self._read(partitions)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            _log.warning("the control topic %s was deleted, with its markers: it is made anew", self.topic)
            self.client.forget()
            self._topic_id = b""
            self._forget()
            await self._read(partitions)

    async def _read(self, partitions: Iterable[int]) -> None:
        await persistently(self.client, self.ensure, patience_s=self._patience_s)
        for partition in partitions:
            await persistently(self.client, partial(self._read_on, partition), patience_s=self._patience_s)

    async def ensure(self) -> None:
        """Make the topic if it is not there; refuse one that forgets. Asked once per process and topic."""
        if self._topic_id:
            current = (await self.client.topic(self.topic)).topic_id
            if current == self._topic_id:
                return
            self._forget()
        (found,) = (await self.client.metadata([self.topic])).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create()
        await self._check_policy()
        self._topic_id = (await self.client.topic(self.topic)).topic_id

    def _forget(self) -> None:
        self._positions.clear()
        self._markers.clear()
        self._unreadable.clear()
        self._undecided.clear()

    async def _create(self) -> None:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in _CONFIGS.items()]
        topic = CreatableTopic(
            name=self.topic, num_partitions=PARTITIONS, replication_factor=-1, assignments=[], configs=configs
        )
        answer: CreateTopicsResponse = await self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        if answer.topics[0].error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            judge(answer.topics[0].error_code, answer.topics[0].error_message)

    async def _check_policy(self) -> None:
        asked = DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=self.topic, configuration_keys=["cleanup.policy"]
        )
        answer: DescribeConfigsResponse = await self.client.ask(DescribeConfigsRequest(resources=[asked]))
        judge(answer.results[0].error_code, answer.results[0].error_message)
        policy = {config.name: config.value for config in answer.results[0].configs}.get("cleanup.policy")
        partitions = len((await self.client.topic(self.topic)).partitions)
        if policy != "compact" or partitions < PARTITIONS:
            raise UnsafeProgressTopic(
                f"{self.topic} has cleanup.policy={policy} and {partitions} partitions: with anything but 'compact' "
                f"and {PARTITIONS} it forgets markers, and a batch could be written twice; correct it or name another "
                "one in option progressTopic"
            )

    async def _read_on(self, partition: int) -> None:
        """Read from where we are to the high watermark of now."""
        bounds = (self.client.offset_at(self.topic, partition, which) for which in (EARLIEST, LATEST))
        start, end = await asyncio.gather(*bounds)
        position = max(start, self._positions.get(partition, 0))
        while position < end:
            fetched = await self.client.fetch(self.topic, partition, position, max_wait_ms=500)
            judge(fetched.error_code)
            data = joined(fetched)
            for place, header in headers_in(data):
                if header.next_offset > position:
                    if header.is_transactional:
                        self._take(partition, data, place, header.producer_id, header.is_control)
                    else:
                        _log.warning(
                            "%s-%d holds records of no transaction, they are passed over", self.topic, partition
                        )
                    position = header.next_offset
            self._positions[partition] = position

    def _take(self, partition: int, data: bytes, place: int, producer_id: int, is_control: bool) -> None:
        undecided = self._undecided.setdefault(partition, {})
        if not is_control:
            for record in records_of(data, place):
                undecided.setdefault(producer_id, []).extend(_entry(record.key, record.value))
            return
        ended = read_end_transaction(data, place)
        decided = undecided.pop(producer_id, [])
        if ended is not None and ended.commit:
            for key, marker in decided:
                self._markers.pop(key, None)
                self._unreadable.pop(key, None)
                if isinstance(marker, Marker):
                    self._markers[key] = marker
                elif marker is not None:
                    self._unreadable[key] = marker


def _entry(key: bytes | None, value: bytes | None) -> list[tuple[str, Marker | UnsafeProgressTopic | None]]:
    """A record of the topic with its key; nothing where it was not written by a sink (rule 4)."""
    name = (key or b"").decode(errors="replace")
    if "|" not in name:
        _log.warning("the control topic holds a record that no sink has written, it is passed over: %r", name[:80])
        return []
    try:
        return [(name, None if value is None else Marker.from_bytes(value))]
    except UnsafeProgressTopic as error:
        _log.warning("the marker of %s cannot be read: %s", name, error)
        return [(name, error)]
