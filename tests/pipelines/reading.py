"""Whole topics, their ends, markers and group offsets, as confluent-kafka sees them: a client that is not ours."""

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from spark_connector.progress import Marker
from tallystick.demo.parts import CLIENT
from tests.pipelines.pipeline import Topic

PROGRESS_TOPIC = "__spark_sink_progress"
_SECONDS = 30.0


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({**CLIENT, "bootstrap.servers": bootstrap})


def make_topics(bootstrap: str, topics: Iterable[Topic]) -> list[str]:
    """Make the topics; returns the names of those that were there already, and makes none then."""
    asker = admin(bootstrap)
    wanted = list(topics)
    found = asker.list_topics(timeout=_SECONDS).topics
    taken = [topic.name for topic in wanted if topic.name in found]
    if not taken:
        new = [NewTopic(topic.name, topic.partitions, 1, config=dict(topic.config)) for topic in wanted]
        for future in asker.create_topics(new).values():
            future.result(_SECONDS)
    return taken


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    found = admin(bootstrap).list_topics(topic, timeout=_SECONDS).topics[topic].partitions or {}
    return sorted(found)


class Ends:
    """The ends of a topic's partitions, requested again and again; a broker may die and come back meanwhile."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._admin = admin(bootstrap)
        self._partitions = partitions_of(bootstrap, topic)

    def look(self, *, committed: bool) -> dict[int, int] | None:
        """The last stable offsets, or the high watermarks; None when they are unknown."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in self._partitions}  # type: ignore[no-untyped-call]
        try:
            answers = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=5.0)
            return {where.partition: future.result(_SECONDS).offset for where, future in answers.items()}
        except KafkaException:
            # The client requests with the leader epoch it last saw, which a restart has made old; a new one has none.
            self._admin = admin(self._bootstrap)
            return None

    def wait(self, *, committed: bool) -> dict[int, int]:
        """The same from a broker that serves, or is about to."""
        deadline = time.monotonic() + _SECONDS
        while True:
            found = self.look(committed=committed)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"the ends of {self._topic}"))
            time.sleep(0.1)


def records_undecided(bootstrap: str, topic: str) -> int:
    """How many offsets readers of committed records are held back from."""
    ends = Ends(bootstrap, topic)
    return sum(ends.wait(committed=False).values()) - sum(ends.wait(committed=True).values())


def read_topic(bootstrap: str, topic: str, *, committed: bool = True) -> Iterator[Message]:
    """Every record, from the beginning to where the isolation level ends."""
    partitions = partitions_of(bootstrap, topic)
    reader = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in partitions])
    unread = set(partitions)
    try:
        while unread:
            for message in reader.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition() if message.partition() is not None else -1)
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        reader.close()


def markers_of(bootstrap: str, sink_id: str) -> list[Marker]:
    """The committed markers of a sink, in the order in which they were written."""
    found = []
    for message in read_topic(bootstrap, PROGRESS_TOPIC):
        key, value = message.key() or b"", message.value()
        if value is not None and key.decode().startswith(f"{sink_id}|"):
            found.append(Marker.from_bytes(value))
    return found


def group_offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """What a group has committed; partitions without are left out."""
    reader = Consumer({**CLIENT, "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        wanted = [TopicPartition(topic, number) for number in partitions_of(bootstrap, topic)]
        found = reader.committed(wanted, timeout=_SECONDS)
        return {where.partition: where.offset for where in found if where.offset >= 0}
    finally:
        reader.close()
