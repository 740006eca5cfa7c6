"""What a reader asks for beside partitions and positions (KIP-74), and whether the answers keep to it.

Rule 1. An answer has at most `max_bytes`, a partition in it at most `partition_max_bytes`; but the first partition that
has anything has one batch, whatever its size.
Rule 2. The partitions of a full fetch stand in the order in which they were asked for.
Rule 3. Less than `min_bytes` is answered when `max_wait_ms` are over and not before, but for errors and the broker's
end.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from protocol.messages.fetch import FetchRequest
from protocol.records.batch import headers_in
from tallystick.client.reading import joined
from tests.simulation.world import World

MARGIN_S = 0.003
"""Clocks of the broker count whole milliseconds."""


class Limits:
    """Of one reader."""

    def __init__(self, world: World, name: str, max_bytes: int) -> None:
        random = Random(f"limits of {name} in {world.plan.seed}")
        self._random = random if random.random() < 0.4 else None
        self._max_bytes = max_bytes
        self._world = world
        self._asked_at = 0.0
        self._of_partition: dict[tuple[str | bytes, int], int] = {}
        """What was last asked for of each; a fetch session remembers it."""

    def draw(self, request: FetchRequest) -> None:
        """Set those of a request that is about to be sent."""
        for topic in request.topics:
            for partition in topic.partitions:
                partition.partition_max_bytes = self._drawn(self._max_bytes)
                for name in (topic.topic, topic.topic_id):
                    self._of_partition[name, partition.partition] = partition.partition_max_bytes
        request.max_bytes = self._drawn(2 * self._max_bytes)
        self._asked_at = self._world.scheduler.now

    def _drawn(self, usual: int) -> int:
        return usual if self._random is None else self._random.choice((1, 70, 200, 1000, usual))

    def wrong(self, request: FetchRequest, answer: Any, ended: bool) -> Iterator[str]:
        """Sentences about an answer; `ended`: the broker has ended, or begun to, since it was asked."""
        total, first, refused = 0, True, False
        for topic in answer.responses:
            for found in topic.partitions:
                refused = refused or bool(found.error_code)
                data = joined(found)
                if not data:
                    continue
                name = f"{topic.topic or self._world.topic_names.get(topic.topic_id)}-{found.partition_index}"
                wanted = self._of_partition[topic.topic or topic.topic_id, found.partition_index]
                room = min(wanted, request.max_bytes - total)
                if len(data) > room and not (first and _batches(data) == 1):
                    yield f"{len(data)} bytes of {name} where {room} were asked for"
                total, first = total + len(data), False
        if not request.session_id and _answered(answer) != _asked(request, by_id=not _names(answer)):
            yield "partitions came in another order than they were asked for"
        waited_s = self._world.scheduler.now - self._asked_at
        least = min(request.min_bytes, request.max_bytes)
        at_once = waited_s < request.max_wait_ms / 1000 - MARGIN_S
        if total < least and at_once and request.topics and not (refused or ended):
            yield f"{total} bytes after {waited_s:.3f} s where {least} were asked for, or {request.max_wait_ms} ms"


def _batches(data: bytes) -> int:
    return sum(1 for _ in headers_in(data))


def _names(answer: Any) -> bool:
    return any(topic.topic for topic in answer.responses)


def _answered(answer: Any) -> list[tuple[str | bytes, int]]:
    return [
        (topic.topic or topic.topic_id, one.partition_index) for topic in answer.responses for one in topic.partitions
    ]


def _asked(request: FetchRequest, *, by_id: bool) -> list[tuple[str | bytes, int]]:
    places = [(topic, one.partition) for topic in request.topics for one in topic.partitions]
    return [(topic.topic_id if by_id else topic.topic, index) for topic, index in places]
