"""The gap between asking the transaction coordinator and appending, kept shut (KIP-890).

Before the first transactional batch of a producer, the coordinator is asked whether the partition belongs to its
transaction. The answer takes time, and in that time a marker may end the very transaction. So the question leaves a
guard here, any transactional batch or marker takes it away, and the append is refused where its guard is no longer the
current one (KAFKA-14884).
"""

from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from protocol.records.batch import BatchHeader
from storage.producers.producer_changes import EndMarker, Tentative


class Guard:
    """Known by its identity alone."""

    __slots__ = ()


ALREADY_VERIFIED: Final = Guard()
"""The transaction is under way here already: there is nothing to ask. Never matches an entry."""


@dataclass(init=False, slots=True)
class _Entry:
    guard: Guard
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    since_ms: int

    def __init__(
        self, guard: Guard, lowest_sequence: int, epoch: int, supports_epoch_bump: bool, since_ms: int
    ) -> None:
        self.guard = guard
        self.lowest_sequence = lowest_sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        self.since_ms = since_ms


class Verifications:
    """The questions that are being asked, by producer id. Soft state: a restart forgets it."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int) -> Guard:
        """The guard to come back with. Of several questions at once, the lowest sequence must be first in."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = _Entry(Guard(), sequence, epoch, supports_epoch_bump, now_ms)
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch and sequence < entry.lowest_sequence:
            entry.lowest_sequence = sequence
        return entry.guard

    def is_current(self, producer_id: int, guard: Guard | None) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.guard is guard

    def tentative(self, producer_id: int) -> Tentative | None:
        """What is known of a producer whose first batch is still to come."""
        entry = self._entries.get(producer_id)
        return None if entry is None else Tentative(entry.lowest_sequence, entry.supports_epoch_bump)

    def repeated(self, header: BatchHeader, next_sequence: int) -> None:
        """A batch that the log has already is none that is still to come, and bounds nobody; in Kafka it does, and the
        producer can go on in its next transaction only."""
        entry = self._entries.get(header.producer_id)
        if entry is not None and (entry.epoch, entry.lowest_sequence) == (header.producer_epoch, header.base_sequence):
            entry.lowest_sequence = next_sequence

    def data_appended(self, producer_id: int) -> None:
        """A transactional batch is in the log: from now on the log itself knows of the transaction."""
        self._entries.pop(producer_id, None)

    def marker_appended(self, marker: EndMarker) -> None:
        """A transaction ended. With transaction version 2, a question for the epoch that the marker brings comes from
        the *next* transaction, and stays (KAFKA-18654)."""
        entry = self._entries.get(marker.producer_id)
        if entry is not None and not (marker.transaction_version >= 2 and entry.epoch == marker.producer_epoch):
            del self._entries[marker.producer_id]

    def forget_oldest(self, most: int, before_ms: int) -> int:
        """Forget up to `most` questions of before that time; returns how many there were."""
        # An entry is made once and never moved: the first is the oldest.
        oldest = takewhile(lambda item: item[1].since_ms < before_ms, self._entries.items())
        late = [producer_id for producer_id, _ in islice(oldest, most)]
        for producer_id in late:
            del self._entries[producer_id]
        return len(late)
