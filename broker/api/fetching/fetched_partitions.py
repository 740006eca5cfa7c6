"""What a fetch is answered with for one partition: its records, what is wrong with it, or nothing because its reader
knows it all."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from broker.api.fetching.fetch_session import Wanted
from broker.api.waiting import Watched
from broker.partitions.partition import Partition
from broker.partitions.read import FetchedData
from protocol.errors import ErrorCode
from protocol.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData

LEADER_ERRORS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass(slots=True)
class Reading:
    """What one look at all wanted partitions brought. `errors`: something that is to be answered at once;
    `moved_leader`: one of them says that the client knows the wrong leader."""

    responses: list[tuple[Wanted, PartitionData]] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    away: list[tuple[Wanted, Awaitable[None]]] = field(default_factory=list)
    """Partitions of which nothing was read that is there, and what is to be awaited for it."""
    size_bytes: int = 0
    errors: bool = False
    moved_leader: bool = False

    def refuse(self, wanted: Wanted, response: PartitionData) -> None:
        """An error of this partition, the end of the epoch that its reader has read, or who is nearer to it."""
        self.errors = True
        self.moved_leader = self.moved_leader or response.error_code in LEADER_ERRORS
        self.responses.append((wanted, response))

    def waits_for(self, wanted: Wanted) -> bool:
        """Whether it is away."""
        return bool(self.away) and self.away[-1][0] is wanted

    async def bring(self, unreachable: list[Wanted]) -> bool:
        """Wait for what is away, and was not found to be unreachable before; what is now is added to that. False where
        there is nothing to wait for: what is unreachable is refused."""
        away = [one for one in self.away if one[0] not in unreachable]
        found = await asyncio.gather(*(wait for _, wait in away), return_exceptions=True)
        unreachable += [wanted for (wanted, _), error in zip(away, found, strict=True) if isinstance(error, OSError)]
        if away:
            return True
        lost = [wanted for wanted, _ in self.away]
        self.errors = self.errors or bool(lost)
        for number, (wanted, response) in enumerate(self.responses):
            if wanted in lost and not response.error_code:
                self.responses[number] = wanted, refusal_of(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        return False


def epoch_error(wanted: Wanted, partition: Partition) -> ErrorCode:
    """KIP-320: a client that knows another leader epoch than ours."""
    if wanted.leader_epoch < 0 or wanted.leader_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def diverging_from(wanted: Wanted, partition: Partition) -> PartitionData | None:
    """The last epoch the client has read ends earlier here: tell it where, so that it can step back."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.log.epoch_end(wanted.last_fetched_epoch)
    if epoch < 0:
        return refusal_of(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    response = bounds_of(wanted, partition)
    response.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return response


def bounds_of(wanted: Wanted, partition: Partition) -> PartitionData:
    """No records, but what is known of the log."""
    response = refusal_of(wanted, ErrorCode.NONE)
    response.high_watermark = partition.high_watermark
    response.last_stable_offset = partition.last_stable_offset
    response.log_start_offset = partition.log_start_offset
    return response


def has_nothing_new(wanted: Wanted, partition: Partition, read_committed: bool) -> bool:
    """The quick no of a session: nothing to read, nothing to tell."""
    limit = partition.last_stable_offset if read_committed else partition.high_watermark
    start_offset = partition.log_start_offset
    return start_offset <= wanted.fetch_offset == limit and wanted.knows(
        high_watermark=partition.high_watermark, start_offset=start_offset
    )


def data_of(wanted: Wanted, data: FetchedData) -> PartitionData:
    """What was read."""
    aborted = data.aborted
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=None
        if aborted is None
        else [AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset) for entry in aborted],
        records=data.records,
    )


def refusal_of(wanted: Wanted, error: ErrorCode) -> PartitionData:
    """No records; NONE where the caller has something else to say."""
    return PartitionData(
        partition_index=wanted.index, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )


def take_note(wanted: Wanted, response: PartitionData) -> bool:
    """Remember what the client of a session is sent; whether there is anything to send."""
    if response.error_code or response.diverging_epoch.epoch >= 0 or response.preferred_read_replica >= 0:
        wanted.tell_error()
        return True
    position = {"high_watermark": response.high_watermark, "start_offset": response.log_start_offset}
    news = bool(response.records) or not wanted.knows(**position)
    wanted.tell(**position)
    return news
