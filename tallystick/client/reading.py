"""What a consumer makes of the bytes it fetched: records, without control records and, if wanted, without those of
aborted transactions. The broker sends whole batches; the reader leaves out what was not requested.
"""

from collections.abc import Iterator

from protocol.messages.fetch import AbortedTransaction, PartitionData
from protocol.records.aborting import Aborting
from protocol.records.batch import headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import Record, records_of
from protocol.schema import Buffer
from tallystick.client.client import LATEST, Client
from tallystick.client.errors import check


def visible_records(records: Buffer, aborted: list[AbortedTransaction] | None, from_offset: int) -> Iterator[Record]:
    """The records a consumer shows, from `from_offset` on. `aborted` None shows aborted ones as well."""
    aborting = Aborting(aborted or ())
    for position, header in headers_in(records):
        marker = read_end_transaction(records, position) if header.is_control else None
        is_aborted = aborting.take(header, ends=marker is not None and not marker.commit)
        if not header.is_control and not is_aborted:
            yield from (record for record in records_of(records, position) if record.offset >= from_offset)


def joined(fetched: PartitionData) -> bytes:
    """The record bytes of a fetched partition as one piece."""
    records = fetched.records
    if records is None:
        return b""
    return bytes(records) if isinstance(records, bytes | bytearray | memoryview) else b"".join(records)


async def read_all(client: Client, topic: str, partition: int, *, read_committed: bool = True) -> list[Record]:
    """Everything that is to be read in a partition now, from its start."""
    end = await client.offset_at(topic, partition, LATEST, read_committed=read_committed)
    shown: list[Record] = []
    offset = 0
    while offset < end:
        fetched = await client.fetch(topic, partition, offset, read_committed=read_committed)
        check(fetched.error_code)
        data = joined(fetched)
        aborted = fetched.aborted_transactions or [] if read_committed else None
        shown.extend(visible_records(data, aborted, offset))
        next_offset = max((header.next_offset for _, header in headers_in(data)), default=offset)
        if next_offset == offset:
            raise AssertionError(f"nothing to read at {offset}, though {topic}-{partition} ends at {end}")
        offset = next_offset
    return shown
