"""Records gathered into batches: none is larger than its topic takes, whatever is in it."""

import asyncio
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.record import NewRecord, records_of
from tallystick.client.lease import Partition
from tallystick.client.sender import Totals
from tallystick.records.input_lines import Parsed
from tallystick.records.writer import RecordWriter

MOST = 600
DATA = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=9).map(tuple)
RECORDS = st.lists(st.builds(NewRecord, DATA, DATA, st.integers(0, 1 << 40), HEADERS), max_size=60)


class Taken:
    """What a sender was given."""

    def __init__(self) -> None:
        self.totals: dict[Partition, Totals] = {}
        self.batches: list[tuple[Partition, bytearray]] = []

    async def offer(self, batches: Iterable[tuple[Partition, bytearray]]) -> None:
        self.batches += batches

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        pass


@settings(max_examples=40, deadline=None)
@given(RECORDS, st.integers(1, 4))
def test_batches_are_no_larger_than_they_may_be(records: list[NewRecord], partitions: int) -> None:
    async def story() -> None:
        for record in records:
            await writer.write(Parsed(record, None))
        await writer.flush()

    sender = Taken()
    writer = RecordWriter(sender, "t", partitions, transactional=False, batch_bytes=MOST - 61)
    asyncio.run(story())
    found = [list(records_of(batch, 0)) for _, batch in sender.batches]
    for (_, batch), its in zip(sender.batches, found, strict=True):
        assert len(batch) <= MOST or len(its) == 1, (len(batch), len(its))
    written = sorted((one.key or b"", one.value or b"", one.timestamp_ms) for one in records)
    assert sorted((one.key or b"", one.value or b"", one.timestamp_ms) for its in found for one in its) == written
