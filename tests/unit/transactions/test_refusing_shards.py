"""What a shard says to who it refuses, and when."""

import pytest

from coordinator.machine import Outcome
from coordinator.runtime import NotReady
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket, MemoryShardLog
from tests.unit.transactions.test_shard_runtime import Counter, ask, opened


def test_what_an_operation_raises_is_told_of_when_its_request_was_refused() -> None:
    """Nobody waits for an answer that will not come, though who is told of it (nobody, here) raises it again; the next
    request is taken."""
    shard = opened(MemoryShardLog())

    def overflow(machine: Counter, now_ms: int) -> Outcome:
        raise OverflowError("int64")

    asking = CollectingTicket()
    with pytest.raises(OverflowError):
        shard.submit(overflow, asking)
    assert asking.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert ask(shard, "a").answer == 0


def test_who_asks_again_when_a_shard_closes_is_told_so() -> None:
    """And is not taken by a shard that nobody will ever hear of again."""
    shard = opened(MemoryShardLog())
    said: list[ErrorCode] = []

    class Stubborn(CollectingTicket):
        def refuse(self, error: ErrorCode) -> None:
            with pytest.raises(NotReady) as refusal:
                ask(shard, "again")
            said.extend((error, refusal.value.error))

    shard.submit(lambda machine, now_ms: Outcome(), Stubborn())
    shard.close()
    assert said == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
