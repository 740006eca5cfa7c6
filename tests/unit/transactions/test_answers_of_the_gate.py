"""What a producer and a group hear of what the coordinator of transactions has said, in each version."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.transaction_gate import _for_offset_commit, _for_produce, _is_fenced, _still_open
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS
from tests.unit.transactions.rig import OFFSETS, T0, in_state


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [
        (90, 3, 47),
        (90, 13, 47),
        (120, 10, 48),
        (120, 11, 120),
        (120, 12, 120),
        (14, 3, 19),
        (15, 11, 19),
        (16, 13, 19),
        (51, 11, 19),
        (51, 12, 51),
        (51, 13, 51),
        (0, 3, 0),
        (0, 13, 0),
        (49, 11, 49),
        (48, 12, 48),
    ],
)
def test_what_a_producer_hears(said: int, version: int, heard: int) -> None:
    assert _for_produce(ErrorCode(said), version) == heard


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [(90, 0, 47), (90, 5, 47), (120, 3, 48), (120, 4, 120), (120, 5, 120), (51, 3, 51), (14, 3, 14), (0, 5, 0)],
)
def test_what_a_group_hears(said: int, version: int, heard: int) -> None:
    assert _for_offset_commit(ErrorCode(said), version) == heard


@pytest.mark.parametrize(
    ("changes", "still"),
    [
        ({}, True),
        ({"partitions": (OFFSETS, T0)}, True),
        ({"partitions": (T0,)}, False),
        ({"partitions": ()}, False),
        ({"producer_id": 8}, False),
        ({"producer_epoch": 4}, False),
        ({"producer_epoch": 2}, False),
        ({"state": TransactionState.PREPARE_COMMIT}, False),
        ({"state": TransactionState.EMPTY}, False),
        (None, False),
    ],
)
def test_whether_offsets_still_belong_to_the_open_transaction(changes: dict[str, Any] | None, still: bool) -> None:
    """OFFSETS is partition 12."""
    values: dict[str, Any] = {"state": TransactionState.ONGOING, "partitions": (OFFSETS,)}
    transaction = None if changes is None else in_state(**(values | changes))
    known = SimpleNamespace(transaction_of=lambda name: transaction if name == "tx" else None)
    services: Any = SimpleNamespace(transactions=known)
    assert _still_open(services, "tx", Producer(7, 3), 12) is still
    assert not _still_open(services, "other", Producer(7, 3), 12)
    assert not _still_open(services, "tx", Producer(7, 3), 13)


@pytest.mark.parametrize(("epoch", "fenced"), [(2, True), (3, False), (4, False)])
def test_who_is_fenced_by_the_log_of_the_groups(epoch: int, fenced: bool) -> None:
    producers = SimpleNamespace(epoch=lambda producer_id: 3 if producer_id == 7 else 99)
    partition = SimpleNamespace(derived=SimpleNamespace(producers=producers))

    def find(topic: str, index: int) -> Any:
        return partition if (topic, index) == (CONSUMER_OFFSETS, 12) else None

    services: Any = SimpleNamespace(topics=SimpleNamespace(partition=find))
    assert _is_fenced(services, Producer(7, epoch), 12) is fenced
    assert not _is_fenced(services, Producer(7, epoch), 13)
