"""A log in a store that begins later, by retention or DeleteRecords, while something of it is brought from there."""

from collections.abc import Awaitable, Callable

import pytest

from storage.lookup import Found
from storage.shared.memory_store import StoreInMemory
from storage.shared.shared_log import SharedLog
from storage.steps import Steps
from tests.unit.storage.batches import batch
from tests.unit.storage.test_shared_log import Owner, _NoProducers, finish_all

PARTS = 4


class Shrinking(Owner):
    """As soon as something is asked for, the log begins at `begins_then`."""

    begins_then = 0
    asked = 0

    def bring(self, offset: int) -> Awaitable[None]:
        self.asked += 1
        assert self.asked < 20, "it asks for ever"
        if self.log.start_offset < self.begins_then:
            self.log.trim(self.begins_then)
            self.log.enforce_retention(0, self.log.durable_offset)
            self.commit()
        return super().bring(offset)


@pytest.fixture
def owner() -> Shrinking:
    """Of a log of four parts, each of a record, as old as its number says; only the last is in memory."""
    found = Shrinking(StoreInMemory(lambda: 0), memory_bytes=1)
    for number in range(PARTS):
        found.log.append(batch(number + 1), leader_epoch=0)
        found.commit()
        found.log.roll()
    assert [part.base_offset for part in found.log.parts][:PARTS] == list(range(PARTS))
    assert found.log.in_memory_from >= PARTS - 1
    return found


def test_a_part_that_leaves_is_not_written_anew(owner: Shrinking) -> None:
    compactor = owner.log.compactor(_NoProducers(), report=lambda _: None)
    owner.log.parts[0].runs = 1_000
    planned = finish_all(compactor.due(owner.log.durable_offset, 0, lambda: False))
    assert planned is not None
    owner.begins_then = 2
    finish_all(compactor.run(planned, 0))
    assert [part.base_offset for part in owner.log.parts] == [2, 3, 4]
    owner.log.parts[0].runs = 1_000
    planned = finish_all(compactor.due(owner.log.durable_offset, 0, lambda: False))
    assert planned is not None
    finish_all(compactor.run(planned, 0))
    assert owner.log.parts[0].runs == 1, "the next one is"


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda log: log.offset_for_timestamp(1, end_offset=PARTS), (2, 3)),
        (lambda log: log.offset_for_timestamp(4, end_offset=PARTS), (3, 4)),
        (lambda log: log.max_timestamp(), (3, 4)),
    ],
    ids=["what has gone", "what is there", "the newest"],
)
def test_a_time_is_looked_for_in_what_is_left(
    owner: Shrinking, look: Callable[[SharedLog], Steps[Found]], expected: tuple[int, int]
) -> None:
    owner.begins_then = 2
    found = finish_all(look(owner.log))
    assert found is not None
    assert (found.offset, found.timestamp_ms) == expected


def test_the_newest_of_a_part_that_leaves_is_not_the_newest(owner: Shrinking) -> None:
    """The first part has the newest record, until it has gone."""
    owner.log.parts[0].newest_ms = 1_000
    owner.begins_then = 2
    found = finish_all(owner.log.max_timestamp())
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (3, 4)
