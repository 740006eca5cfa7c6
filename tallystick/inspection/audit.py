"""Whether a cluster keeps its promises, as far as a client can see: every record is read, and compared with itself.

1. *Whole*: all partitions of a transaction have the same end, those of its offsets included. What belongs to one
   transaction is known where its end raised the epoch (KIP-890, or a producer that was fenced): of one producer id and
   epoch there is one such end.
2. *Visible*: readers of committed records are shown what lies before the last stable offset and was not aborted, no
   more and no less: the end of each transaction in the log is held against the aborted transactions of the answers.
3. *Ended*: no transaction hangs, in the hands of no coordinator.
4. *In order*: offsets rise, and every batch is whole (its checksum).
5. *Offsets*: committed offsets of groups lie within their partitions.

What is still open is no finding. Nothing may be written meanwhile, or findings of it may be those of the moment.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from protocol.internal_topics import CONSUMER_OFFSETS
from protocol.records.batch import BatchHeader, check_crc, headers_in
from protocol.records.control import read_end_transaction
from protocol.records.record import records_of
from protocol.schema import Buffer
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.reading import joined, visible_records
from tallystick.inspection.groups import committed, listed
from tallystick.inspection.places import Ends, Place, ends_of, places
from tallystick.inspection.stuck import Cause, held

WITH_OFFSETS = ("classic", "consumer", "streams")
"""Kinds of groups that commit offsets."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise that is not kept."""

    promise: str
    place: Place | None
    sentence: str


@dataclass(frozen=True, slots=True)
class End:
    """The end of one transaction in one partition."""

    producer_id: int
    epoch: int
    """Of its records; the marker's may be higher."""
    raised: bool
    commit: bool
    place: Place
    offset: int


@dataclass(slots=True)
class _Raw:
    """What a partition holds, read without regard to transactions."""

    place: Place
    ends: list[End] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    shown: "array[int]" = field(default_factory=lambda: array("q"))
    """Offsets of records that were not aborted, in no order."""
    _open: "dict[int, tuple[int, array[int]]]" = field(default_factory=dict)

    def take(self, data: bytes, start: int, end: int) -> int:
        """The batches of one answer that lie before `end`; the offset behind them."""
        at = start
        for position, header in headers_in(data):
            if header.base_offset >= end:
                break
            if at > start and header.base_offset < at:
                self._find("in order", f"the batch at {header.base_offset} comes behind offset {at - 1}")
            if not check_crc(data, position, header):
                self._find("in order", f"the checksum of the batch at {header.base_offset} is wrong")
            self._one(data, position, header)
            at = header.next_offset
        return at

    def _one(self, data: Buffer, position: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = read_end_transaction(data, position)
            if marker is not None:
                self._end(header, commit=marker.commit)
            return
        offsets = array("q", (record.offset for record in records_of(data, position)))
        if header.is_transactional:
            _, known = self._open.setdefault(header.producer_id, (header.producer_epoch, array("q")))
            known.extend(offsets)
        else:
            self.shown.extend(offsets)

    def _end(self, marker: BatchHeader, *, commit: bool) -> None:
        found = self._open.pop(marker.producer_id, None)
        if found is None:
            return  # written again, or of a transaction without records here
        epoch, offsets = found
        raised = marker.producer_epoch > epoch
        self.ends.append(End(marker.producer_id, epoch, raised, commit, self.place, marker.base_offset))
        if commit:
            self.shown.extend(offsets)

    def visible(self, ends: Ends) -> set[int]:
        """What readers of committed records are to be shown. A transaction whose end a compaction took away was
        committed: records that were aborted went before it."""
        unended = [offset for _, offsets in self._open.values() for offset in offsets]
        return {offset for offset in (*self.shown, *unended) if ends.start <= offset < ends.last_stable_offset}

    def _find(self, promise: str, sentence: str) -> None:
        self.findings.append(Finding(promise, self.place, sentence))


async def audit(client: Client, topics: Sequence[str] | None = None) -> list[Finding]:
    """What is not as it was promised, of all topics that are not internal or of some; nothing where all is well."""
    wanted = await places(client, topics)
    ends = await ends_of(client, wanted)
    found: list[Finding] = []
    transactions: list[End] = []
    for place in wanted:
        raw = await _read(client, place, ends[place])
        found += raw.findings
        found += await _wrongly_visible(client, place, ends[place], raw)
        transactions += raw.ends
    offsets = [] if topics is not None else await _places_of_offsets(client)
    for place, its in (await ends_of(client, offsets)).items():
        transactions += (await _read(client, place, its)).ends
    found += torn(transactions)
    for one in await held(client, wanted):
        found += [
            Finding(
                "ended",
                one.place,
                f"the transaction of producer id {holder.producer_id} from offset "
                f"{holder.first_offset} on is in the hands of no coordinator",
            )
            for holder in one.holders
            if holder.cause is Cause.HANGING
        ]
    return found + (await _misplaced_offsets(client) if topics is None else [])


def torn(ends: Sequence[End]) -> list[Finding]:
    """Transactions that were committed in one partition and aborted in another."""
    first: dict[tuple[int, int], End] = {}
    found = []
    for end in ends:
        if not end.raised:
            continue  # the epoch goes on, and may have had many ends
        other = first.setdefault((end.producer_id, end.epoch), end)
        if other.commit != end.commit:
            of = {True: "committed", False: "aborted"}
            found.append(
                Finding(
                    "whole",
                    end.place,
                    f"the transaction of producer id {end.producer_id}, epoch {end.epoch}, is "
                    f"{of[end.commit]} here at {end.offset}, and {of[other.commit]} in "
                    f"{other.place[0]}-{other.place[1]} at {other.offset}",
                )
            )
    return found


async def _places_of_offsets(client: Client) -> list[Place]:
    everything = await client.metadata(None)
    return await places(client, [CONSUMER_OFFSETS]) if CONSUMER_OFFSETS in {t.name for t in everything.topics} else []


async def _read(client: Client, place: Place, ends: Ends) -> _Raw:
    raw, at = _Raw(place), ends.start
    while at < ends.high_watermark:
        fetched = await client.fetch(*place, at)
        check(fetched.error_code, f"{place[0]}-{place[1]}")
        behind = raw.take(joined(fetched), at, ends.high_watermark)
        if behind == at:
            raw.findings.append(Finding("in order", place, f"nothing is to be read at offset {at}"))
            break
        at = behind
    return raw


async def _wrongly_visible(client: Client, place: Place, ends: Ends, raw: _Raw) -> list[Finding]:
    right, shown, at = raw.visible(ends), set[int](), ends.start
    while at < ends.last_stable_offset:
        fetched = await client.fetch(*place, at, read_committed=True)
        check(fetched.error_code, f"{place[0]}-{place[1]}")
        data = joined(fetched)
        shown |= {one.offset for one in visible_records(data, fetched.aborted_transactions or [], at)}
        behind = max((header.next_offset for _, header in headers_in(data)), default=at)
        if behind <= at:
            break  # what was not to be read is missed below
        at = behind
    wrong = sorted(one for one in shown - right if one < ends.last_stable_offset)
    missed = sorted(right - shown)
    said = (
        (wrong, "is shown to readers of committed records, and aborted"),
        (missed, "is not shown to them, and ought to be"),
    )
    return [
        Finding("visible", place, f"the record at offset {offsets[0]} {what} ({len(offsets)} such records)")
        for offsets, what in said
        if offsets
    ]


async def _misplaced_offsets(client: Client) -> list[Finding]:
    found = []
    here = set(await places(client))
    for group in await listed(client):
        if group.kind not in WITH_OFFSETS:
            continue
        offsets = {place: at for place, at in (await committed(client, group.name)).items() if place in here}
        for place, its in (await ends_of(client, sorted(offsets))).items():
            if offsets[place] > its.high_watermark:
                sentence = f"{group.name} has committed offset {offsets[place]}, and it ends at {its.high_watermark}"
                found.append(Finding("offsets", place, sentence))
    return found
