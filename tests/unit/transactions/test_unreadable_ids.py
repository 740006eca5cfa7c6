"""A log of transactions with records that nobody can read: their ids are refused, nothing that may be theirs is
aborted, and everybody else is served."""

from random import Random
from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transactions import reconcile
from coordinator.loading import UnreadableLog
from coordinator.machine import Record, ReplayedRecord, UnreadableValue
from coordinator.runtime import ShardState
from coordinator.transactions.answers import Identity
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TransactionState, key_bytes, value_bytes
from protocol.errors import ErrorCode
from tests.unit.transactions.node_rig import batch, end, in_a_node, init, partitions_of, produce
from tests.unit.transactions.rig import ID, T0, Rig, error, identity, in_state

S = TransactionState
REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR
UNREADABLE = pytest.mark.parametrize(
    "value", [b"\x00\x09whatever", b"\x00\x01cut", b""], ids=["future", "cut", "empty"]
)


def write(rig: Rig, key: bytes, value: bytes | None) -> None:
    """Put a record into the log that no coordinator has made, and load the log again."""
    rig.log.append([Record(key, value)], stamp=None, now_ms=1)
    rig.restart()


@UNREADABLE
@pytest.mark.parametrize("before", [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT])
def test_an_id_that_cannot_be_read_takes_nothing_on(before: S, value: bytes) -> None:
    """Its transaction may have been committed since: neither an abort, a timeout, nor another instance may follow."""
    rig = Rig(driven=False)
    rig.seed(in_state(before))
    known = rig.state()
    mine = known.producer_id, known.producer_epoch
    other = identity(rig.init("other"))
    write(rig, key_bytes(ID), value)
    assert rig.shard.unreadable == 1
    end_offset = rig.log.end_offset
    claimed = Producer(*mine)
    for ticket in (
        rig.init(),
        rig.add(mine),
        rig.submit(
            lambda machine, ticket, now: machine.verify_partitions(
                ticket, now, transactional_id=ID, claimed=claimed, partitions=[T0]
            )
        ),
        rig.end(mine, commit=True),
        rig.end(mine, commit=False),
        rig.submit(
            lambda machine, ticket, now: machine.abort_by_operator(ticket, now, transactional_id=ID, claimed=claimed)
        ),
        rig.submit(lambda machine, ticket, now: machine.describe(ticket, now, transactional_id=ID)),
    ):
        assert ticket.errors == [REFUSED]
    assert not rig.machine.completions
    rig.time.advance(3_600_000)
    assert rig.log.end_offset == end_offset
    assert error(rig.add(other, transactional_id="other")) is ErrorCode.NONE


@pytest.mark.parametrize("value", [None, value_bytes(in_state(S.EMPTY), 1)], ids=["tombstone", "value"])
def test_a_later_record_heals_an_id(value: bytes | None) -> None:
    rig = Rig()
    write(rig, key_bytes(ID), b"\x00\x09whatever")
    write(rig, key_bytes(ID), value)
    assert isinstance(rig.init().answer, Identity)
    assert not rig.machine.ledger.unreadable


def test_an_unreadable_key_keeps_its_log_from_being_served() -> None:
    rig = Rig()
    rig.seed(in_state(S.EMPTY))
    with pytest.raises(UnreadableLog, match="offset 1: "):
        write(rig, b"\x00\x00\x00\x40cut", b"v")
    assert rig.shard.state is ShardState.CLOSED


def test_whatever_a_value_says_is_read_or_refused() -> None:
    random, refused = Random(5), 0
    values = [value_bytes(in_state(state), version) for state in S for version in (0, 1)]
    for whole in values * 100:
        value = bytearray(whole)
        for _ in range(random.randrange(3)):
            value[random.randrange(len(value))] = random.randrange(256)
        value = value[: random.randrange(len(value) + 1)]
        try:
            Rig().machine.replay(ReplayedRecord(0, 1, None, key_bytes(ID), bytes(value)))
        except UnreadableValue:
            refused += 1
    assert refused > 300


def test_what_may_be_of_such_an_id_is_no_orphan(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    """I50: nobody can be found for its open transactions. They may be decided to commit, so a start leaves them, and
    names each."""

    async def story(node: Services) -> None:
        mine = await init(node)
        partition = partitions_of(node)[0]
        gone = Identity(ErrorCode.NONE, mine.producer_id + 1000, 0)
        for whose, name in ((mine, "tx"), (gone, "gone")):
            now_ms = node.environment.wall_ms()
            partition.append(batch(whose), transactional_id=name, verification=False, now_ms=now_ms)
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        shard.log.append([Record(key_bytes("tx"), b"\x00\x09whatever")], stamp=None, now_ms=1)
        shard.reload()
        await node.transactions.wait_until_loaded()
        assert await reconcile(node) == 0
        assert partition.last_stable_offset == 0
        for whose in (mine, gone):
            assert f"the transaction of producer {whose.producer_id}, epoch 0, open since" in caplog.text
        assert (await init(node)).error_code == REFUSED
        assert (await end(node, mine, commit=True)).error_code == REFUSED
        assert await produce(node, mine, sequence=1, index=1) is REFUSED
        assert (await init(node, "other")).error_code == ErrorCode.NONE
        shard.log.append([Record(key_bytes("tx"), None)], stamp=None, now_ms=1)
        shard.reload()
        await node.transactions.wait_until_loaded()
        assert await reconcile(node) == 2
        assert partition.last_stable_offset == partition.high_watermark

    in_a_node(story, tmp_path)
