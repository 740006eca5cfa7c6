"""What a coordinator of transactions refuses, and that nothing has changed then."""

from dataclasses import replace

import pytest

from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TransactionState, read_value, value_bytes
from protocol.errors import ErrorCode, ProtocolError
from tests.unit.transactions.rig import ID, Rig, error, identity, states_in_the_log

LAST_BUT_ONE = 32766


def test_who_has_used_up_its_epochs_waits_for_a_fresh_producer_id() -> None:
    """I09: the block of ids is on its way to the disk. It may come again at once."""
    rig = Rig()
    mine = identity(rig.init())
    rig.seed(replace(rig.state(), producer_epoch=LAST_BUT_ONE))
    rig.ids.dry = True
    before = rig.state(), states_in_the_log(rig)
    assert error(rig.init()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (rig.state(), states_in_the_log(rig)) == before
    rig.ids.dry = False
    fresh = identity(rig.init())
    assert fresh[0] != mine[0] and fresh[1] == 0


def test_an_id_that_was_forgotten_takes_back_whoever_names_an_identity() -> None:
    """KIP-360: the id expired while its producer was silent. It begins anew, as if it had named none."""
    rig = Rig()
    assert identity(rig.init(expected=(5, 3))) == (1000, 0)


def test_an_id_that_never_had_an_epoch_takes_whatever_identity_is_named() -> None:
    """Kafka's log may say so of an id: it was claimed, and no more (KAFKA-14880)."""
    rig = Rig()
    rig.init()
    rig.seed(replace(rig.state(), producer_epoch=-1))
    assert identity(rig.init(expected=(1000, 5))) == (1000, 0)


def abort(rig: Rig, claimed: tuple[int, int], transactional_id: str = ID) -> object:
    return rig.submit(
        lambda machine, ticket, now_ms: machine.abort_by_operator(
            ticket, now_ms, transactional_id=transactional_id, claimed=Producer(*claimed)
        )
    ).answer


def test_an_operator_aborts_what_is_open_and_nothing_else() -> None:
    """Between the look at a transaction and its abort it may have ended, and another have begun."""
    rig = Rig()
    mine = identity(rig.init())
    assert abort(rig, mine) is ErrorCode.INVALID_TXN_STATE
    assert abort(rig, mine, "nobody") is ErrorCode.INVALID_TXN_STATE
    rig.add(mine)
    before = rig.state(), states_in_the_log(rig)
    assert abort(rig, (mine[0], mine[1] + 1)) is not ErrorCode.NONE
    assert abort(rig, (mine[0] + 1, mine[1])) is not ErrorCode.NONE
    assert (rig.state(), states_in_the_log(rig)) == before
    assert abort(rig, mine) is ErrorCode.NONE
    assert rig.state().state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("status", [6, 7, 100, 255])
def test_a_state_that_is_never_written_is_not_read(status: int) -> None:
    """KIP-915: Kafka's Dead (6) and PrepareEpochFence (7) live in memory alone."""
    rig = Rig()
    rig.init()
    value = bytearray(value_bytes(rig.state(), 0))
    assert value[16] == TransactionState.EMPTY
    value[16] = status
    with pytest.raises(ProtocolError, match="a transaction in state"):
        read_value(bytes(value))
