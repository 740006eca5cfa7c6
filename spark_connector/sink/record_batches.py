"""A task's rows as record batches, each with the partition it goes to.

Rule 1. Rows are gathered until each partition may have a full record batch. Spark hands ten thousand on at a time: over
        four partitions that is a few hundred kilobytes for each, over four hundred a few kilobytes, too little for a
        request and for a codec.
Rule 2. Rows that say nothing of their partition go there together, up to a full batch, and the next ones to the next.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from spark_connector.sink.columns import rows_by_topic
from spark_connector.sink.encode import Encoder
from spark_connector.sink.settings import SinkSettings
from tallystick.client.background import now_ms

Addressed = tuple[tuple[str, int], bytearray]
"""A record batch, and the topic and partition it goes to."""


def record_batches(
    rows: Iterable[pa.RecordBatch], settings: SinkSettings, partitions_of: Callable[[str], int], first_turn: int
) -> Iterator[list[Addressed]]:
    """Batches for a sender, some at a time. `partitions_of` says how many a topic has; `first_turn` where rows without
    key and partition begin.
    """
    encoder = Encoder(settings.codec, settings.batch_bytes, turn=first_turn)
    known: dict[str, int] = {}

    def enough_bytes() -> int:
        return min(settings.batch_bytes * max(1, sum(known.values())), settings.room_bytes // 2)

    for arrived in gathered(rows, enough_bytes):
        for topic, part in rows_by_topic(arrived, settings.topic):
            if topic not in known:
                known[topic] = partitions_of(topic)
            says_where = {"key", "partition"} & set(part.schema.names)
            for piece in (part,) if says_where else pieces(part, settings.batch_bytes):
                batches = encoder.batches(piece, known[topic], now_ms())
                yield [((topic, partition), batch) for partition, batch in batches]


def gathered(rows: Iterable[pa.RecordBatch], enough_bytes: Callable[[], int]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of `enough_bytes` or more, but for the last. None is empty."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for arrived in rows:
        if not arrived.num_rows:
            continue
        waiting.append(arrived)
        size += arrived.nbytes
        if size >= enough_bytes():
            yield _together(waiting)
            waiting, size = [], 0
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def pieces(rows: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows in pieces of about so many bytes."""
    count = max(1, rows.num_rows * most_bytes // max(1, rows.nbytes))
    for begin in range(0, rows.num_rows, count):
        yield rows.slice(begin, count)
