"""A topic copied into another, of the same cluster or another, exactly once.

Rule 1. Records and the offsets of the source behind them are in one transaction of the target: committed there as
        offsets of a group that has the copy's name. Whoever goes on reads them, and begins where that one ended.
Rule 2. They are read under a lease, which fences an earlier copy of that name and settles what it left open.
        All of them are committed each time: brokers forget offsets one by one, after offsets.retention.minutes.
        Where they are gone and the target has records, nobody knows how far it came: that is refused.
Rule 3. What readers of committed records are shown is copied: partition, timestamp, key, value and headers; a record
        has another offset where there are markers or aborted records before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocol.records.record import NewRecord
from tallystick.administration.topics import BY_BROKER, create
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, TransactionGone
from tallystick.client.lease import Lease, commit_offsets, end_transaction, take_lease
from tallystick.client.sender import Sender
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Ends, Place, ends_of, places
from tallystick.records.input_lines import Parsed
from tallystick.records.reader import Reader, Seen
from tallystick.records.writer import RecordWriter, batch_bytes_of
from tallystick.written import counted

PATIENCE_S = 60.0
_TIMEOUT_MS = 60_000


class CannotCopy(Exception):
    """What is there cannot be gone on with; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be copied."""

    source: str
    target: str
    name: str
    """Of the copy: its transactional id, and the group in the target that holds its offsets."""
    follow: bool = False
    skip_missing: bool = False
    """Go on where the source begins, though records before that were deleted and not copied."""
    first: bool = False
    """It is the first run, though the target has records."""
    transaction_records: int = 20_000
    compression: int = 0


@dataclass(slots=True)
class Copied:
    """How far it has come."""

    records: int = 0
    transactions: int = 0
    positions: dict[int, int] = field(default_factory=dict[int, int])
    """Of the source, by partition."""
    total: int | None = None
    """Offsets that were to be copied when it began; None where it follows."""
    done: int = 0
    """Of these."""


class Copy:
    """See the head of this file. `prepare`, then `run`."""

    def __init__(self, source: Client, target: Client, plan: Plan, on_committed: Callable[[Copied], None]) -> None:
        self.copied = Copied()
        self._source = source
        self._target = target
        self._plan = plan
        self._on_committed = on_committed
        self._partitions = self._batch_bytes = 0
        self._begun = 0
        """Offsets of the source before those to be copied, of all partitions together."""
        self._done: dict[int, int] = {}
        """Offsets of the source, as far as they are in the transaction, or were in one before."""
        self._transaction: _Transaction

    async def run(self) -> None:
        """Until the end that the source has now, or on and on. Raises `CannotCopy`, `KafkaError`."""
        wanted = await places(self._source, [self._plan.source])
        await self._check_target(len(wanted))
        lease = await self._lease()
        ends = await ends_of(self._source, wanted)
        begins = self._begins(await self._offsets(), ends)
        untils = None if self._plan.follow else {place: ends[place].last_stable_offset for place in wanted}
        self._begun = sum(begins.values())
        self._done = {place[1]: offset for place, offset in begins.items()}
        self.copied.positions = {place[1]: offset for place, offset in begins.items()}
        self.copied.total = None if untils is None else max(0, sum(untils.values()) - self._begun)
        reader = Reader(self._source, begins, untils, read_committed=True)
        self._begin(lease)
        try:
            async for place, piece in reader.pieces():
                await self._take(place, piece)
                self._done[place[1]] = reader.positions[place]
                if self._plan.follow:
                    await self._next()
            self._done = {number: offset for (_, number), offset in reader.positions.items()}
            await self._commit()
        except BaseException:
            await self._transaction.abort()
            raise

    async def _take(self, place: Place, piece: list[Seen]) -> None:
        at, most = 0, self._plan.transaction_records
        while at < len(piece):
            part = piece[at : at + most - self._transaction.records]
            at += len(part)
            await self._transaction.write(place, part)
            self._done[place[1]] = part[-1].record.offset + 1
            if self._transaction.records >= most:
                await self._next()

    async def _check_target(self, partitions: int) -> None:
        """Make it where it is missing, with as many partitions."""
        known = await self._target.metadata(None)
        if self._plan.source == self._plan.target and known.cluster_id == (await self._source.metadata([])).cluster_id:
            raise CannotCopy(f"{self._plan.source} would be copied into itself: --to is the cluster that it is in")
        there = {topic.name: len(topic.partitions) for topic in known.topics if not topic.error_code}
        if self._plan.target not in there:
            await create(
                self._target, self._plan.target, partitions=partitions, replication_factor=BY_BROKER, configs={}
            )
        self._partitions = len((await self._target.topic(self._plan.target)).partitions)
        self._batch_bytes = await batch_bytes_of(self._target, self._plan.target)
        if self._partitions < partitions:
            there_are = counted(self._partitions, "partition")
            raise CannotCopy(f"{self._plan.target} has {there_are}, and {self._plan.source} has {partitions}")

    async def _lease(self) -> Lease:
        return await take_lease(self._target, self._plan.name, timeout_ms=_TIMEOUT_MS, patience_s=PATIENCE_S)

    async def _offsets(self) -> Mapping[Place, int]:
        found = await committed(self._target, self._plan.name)
        if not found and not self._plan.first and await self._target_has_records():
            raise CannotCopy(
                f"{self._plan.target} has records, and there are no offsets of the copy {self._plan.name}: either "
                f"it never ran, which --first says, or they were kept for too short a time"
            )
        return found

    async def _target_has_records(self) -> bool:
        """That anybody is shown: a first run that was killed leaves some of an aborted transaction."""
        its = await ends_of(self._target, await places(self._target, [self._plan.target]))
        begins = {place: ends.start for place, ends in its.items()}
        untils = {place: ends.last_stable_offset for place, ends in its.items()}
        async for _, piece in Reader(self._target, begins, untils, read_committed=True).pieces():
            if piece:
                return True
        return False

    def _begins(self, offsets: Mapping[Place, int], ends: Mapping[Place, Ends]) -> dict[Place, int]:
        """Where the copy goes on, by partition of the source."""
        begins = {}
        for place, its in ends.items():
            offset = offsets.get((self._plan.target, place[1]))
            at = its.start if offset is None else offset
            name = f"{place[0]}-{place[1]}"
            if at > its.high_watermark:
                raise CannotCopy(
                    f"offset {at} of {name} was to be copied next, and it ends at {its.high_watermark}: it was made "
                    f"anew, or cut. Give the copy another --name to begin from the start"
                )
            if at < its.start and not self._plan.skip_missing:
                raise CannotCopy(
                    f"{name} begins at {its.start}: offsets {at} to {its.start - 1} were deleted and are not copied. "
                    f"--skip-missing goes on without them"
                )
            begins[place] = max(at, its.start)
        return begins

    def _begin(self, lease: Lease) -> None:
        self._transaction = _Transaction(self._target, lease, self._plan, self._partitions, self._batch_bytes)

    async def _next(self) -> None:
        if await self._commit():
            self._transaction = _Transaction(
                self._target, await self._lease(), self._plan, self._partitions, self._batch_bytes
            )

    async def _commit(self) -> bool:
        """Whether there was anything."""
        now, transaction = dict(self._done), self._transaction
        if now == self.copied.positions:
            return False
        await transaction.commit({(self._plan.target, number): offset for number, offset in now.items()})
        self.copied.positions = now
        self.copied.records += transaction.records
        self.copied.transactions += 1
        self.copied.done = sum(now.values()) - self._begun
        self._on_committed(self.copied)
        return True


class _Transaction:
    """One of the target."""

    def __init__(self, client: Client, lease: Lease, plan: Plan, partitions: int, batch_bytes: int) -> None:
        self.records = 0
        self._client = client
        self._lease = lease
        self._plan = plan
        self._sender = Sender(client, lease, patience_s=PATIENCE_S)
        self._writer = RecordWriter(
            self._sender,
            plan.target,
            partitions,
            transactional=True,
            compression=plan.compression,
            batch_bytes=batch_bytes,
        )
        self._has_offsets = False

    async def write(self, place: Place, piece: list[Seen]) -> None:
        for seen in piece:
            record = seen.record
            copied = NewRecord(record.value, record.key, record.timestamp_ms, record.headers)
            await self._writer.write(Parsed(copied, place[1]))
        self.records += len(piece)

    async def commit(self, offsets: Mapping[Place, int]) -> None:
        """All of it, and the offsets."""
        await self._writer.flush()
        self._has_offsets = True
        await commit_offsets(self._client, self._lease, self._plan.name, offsets, patience_s=PATIENCE_S)
        await end_transaction(self._client, self._lease, commit=True, patience_s=PATIENCE_S)

    async def abort(self) -> None:
        """As soon as may be: readers wait for it. Where that fails, the next lease does it."""
        await self._sender.close()
        if self._writer.is_begun or self._has_offsets:
            try:
                await end_transaction(self._client, self._lease, commit=False, patience_s=1.0)
            except (KafkaError, TransactionGone, OSError):
                return
