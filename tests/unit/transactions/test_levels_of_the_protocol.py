"""`transaction.version` changed while clients are at work, and clients of both protocols on one transactional id.

Each request says by its own version which protocol it speaks (KIP-890); the finalised level only decides what clients
choose, how the broker's own aborts fence, and how records are laid out.
"""

from dataclasses import replace
from typing import Any

import pytest

from broker.api.services import Services
from coordinator.transactions.fencing import EXHAUSTED_EPOCH
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, partitions_of, produce

CLASSIC, MODERN = 0, 2


async def finalise(node: Services, level: int) -> None:
    current = node.cluster.finalized_features.get("transaction.version", 0)
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=1 if level >= current else 2
    )
    answer = await ask(node, UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert node.cluster.finalized_features.get("transaction.version", 0) == level


async def add(node: Services, identity: Any, index: int = 0) -> ErrorCode:
    """AddPartitionsToTxn as a classic client sends it."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[index])],
    )
    answer = await ask(node, request, 3)
    return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


async def one_transaction(
    node: Services, identity: Any, protocol: int, sequence: int, *, commit: bool
) -> tuple[Any, int]:
    """A whole transaction; returns the identity and the sequence for the next one."""
    if protocol == CLASSIC:
        assert await add(node, identity) == ErrorCode.NONE
        assert await produce(node, identity, version=11, sequence=sequence) == ErrorCode.NONE
        assert (await end(node, identity, commit=commit, version=4)).error_code == ErrorCode.NONE
        return identity, sequence + 1
    assert await produce(node, identity, version=12, sequence=sequence) == ErrorCode.NONE
    following = await end(node, identity, commit=commit, version=5)
    assert following.error_code == ErrorCode.NONE
    assert following.producer_epoch == identity.producer_epoch + 1
    return following, 0


async def settled(node: Services) -> None:
    await node.transactions.wait_until_completed("tx", 5)
    await node.group_commit.wait_until_idle()
    for partition in partitions_of(node):
        assert partition.last_stable_offset == partition.end_offset


@pytest.mark.parametrize("levels", [(2, 0, 2), (0, 1, 2, 1, 0), (1, 0, 0, 2)])
def test_the_level_changes_between_transactions_and_nothing_is_lost(tmp_path: Any, levels: tuple[int, ...]) -> None:
    """I19: at each level, a client of each protocol runs a transaction, commits and aborts; every one of them ends,
    epochs only grow, and the zombie of the level before is fenced."""

    async def story(node: Services) -> None:
        zombie, last = None, (-1, -1)
        for level in levels:
            await finalise(node, level)
            identity, sequence = await init(node), 0
            for number in range(4):
                protocol = MODERN if level == 2 and number % 2 else CLASSIC
                identity, sequence = await one_transaction(node, identity, protocol, sequence, commit=number % 2 == 0)
                await settled(node)
            assert (identity.producer_id, identity.producer_epoch) > last
            last = (identity.producer_id, identity.producer_epoch)
            if zombie is not None:
                for commit in (True, False):
                    refused = await end(node, zombie, commit=commit, version=5)
                    assert (refused.error_code, refused.producer_epoch) in ((90, -1), (48, -1))
                assert await add(node, zombie) == ErrorCode.PRODUCER_FENCED
            zombie = identity

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_protocol_zombie_does_not_get_its_successors_identity(tmp_path: Any, commit: bool) -> None:
    """I01, I19: its epoch is one below, as that of a retried EndTxn would be. Kafka takes it for one, and tells the
    zombie who its successor is."""

    async def story(node: Services) -> None:
        zombie = await init(node)
        successor = await init(node)
        assert successor.producer_epoch == zombie.producer_epoch + 1
        await one_transaction(node, successor, CLASSIC, 0, commit=commit)
        await settled(node)
        refused = await end(node, zombie, commit=commit, version=5)
        assert (refused.error_code, refused.producer_id) == (ErrorCode.PRODUCER_FENCED, -1)
        await one_transaction(node, successor, CLASSIC, 1, commit=True)

    in_a_node(story, tmp_path)


def test_the_level_changes_while_a_transaction_is_open(tmp_path: Any) -> None:
    """KAFKA-18227: a client that began with the classic protocol and ends with the new one (and the other way round)
    ends one transaction, whole, and is not fenced by itself."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await add(node, identity) == ErrorCode.NONE
        assert await produce(node, identity, version=11) == ErrorCode.NONE
        assert await produce(node, identity, version=12, index=1) == ErrorCode.NONE
        identity = await end(node, identity, commit=True, version=5)
        assert identity.error_code == ErrorCode.NONE
        await settled(node)
        await finalise(node, 0)
        assert await produce(node, identity, version=12) == ErrorCode.NONE
        assert await add(node, identity, 1) == ErrorCode.NONE
        assert (await end(node, identity, commit=False, version=4)).error_code == ErrorCode.NONE
        await settled(node)
        assert [partition.end_offset for partition in partitions_of(node)] == [4, 2 + 1]

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(("level", "expected"), [(0, 90), (1, 90), (2, 0)])
def test_only_level_2_lets_a_broker_fenced_producer_continue(tmp_path: Any, level: int, expected: int) -> None:
    """§2.9: after an abort by the broker itself, the late EndTxn(abort) of a TV2 client is its way back; the classic
    protocol has none (I12)."""

    async def story(node: Services) -> None:
        await finalise(node, level)
        identity = await init(node)
        assert await produce(node, identity, version=12) == ErrorCode.NONE
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        transaction = shard.machine.transactions["tx"]
        late = transaction.start_ms + transaction.timeout_ms + 1
        shard.submit(lambda machine, now_ms: machine.expire(late))
        await settled(node)
        answer = await end(node, identity, commit=False, version=5 if level == 2 else 4)
        assert answer.error_code == expected
        if not expected:
            assert answer.producer_epoch == identity.producer_epoch + 1
            await one_transaction(node, answer, MODERN, 0, commit=True)

    in_a_node(story, tmp_path)


def test_epochs_run_out_once_over_the_wire(tmp_path: Any) -> None:
    """I09: from 32764 on, with commits, aborts and their retries: rotation to (new, 0) once; no response has 32767."""

    async def story(node: Services) -> None:
        first = await init(node)
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        identity = first
        epochs = [identity.producer_epoch]
        _wind_forward(shard.machine, EXHAUSTED_EPOCH - 2)
        identity.producer_epoch = EXHAUSTED_EPOCH - 2
        for number in range(5):
            before = type(identity)(producer_id=identity.producer_id, producer_epoch=identity.producer_epoch)
            assert await produce(node, before, version=12) == ErrorCode.NONE
            identity = await end(node, before, commit=number % 2 == 0, version=5)
            assert identity.error_code == ErrorCode.NONE
            await settled(node)
            again = await end(node, before, commit=number % 2 == 0, version=5)
            assert (again.error_code, again.producer_id, again.producer_epoch) == (
                0, identity.producer_id, identity.producer_epoch,
            )  # fmt: skip
            epochs.append(identity.producer_epoch)
        assert epochs[1:] == [EXHAUSTED_EPOCH - 1, EXHAUSTED_EPOCH, 0, 1, 2]
        assert identity.producer_id > first.producer_id

    in_a_node(story, tmp_path)


def _wind_forward(machine: Any, epoch: int) -> None:
    """As if as many transactions had been."""
    found = machine.transactions["tx"]
    machine.transactions["tx"] = replace(found, producer_epoch=epoch, state=TransactionState.EMPTY)


def test_a_retried_init_gets_the_same_response(tmp_path: Any) -> None:
    """KIP-360: InitProducerId with the identity the client has, and its retry when the answer was lost."""

    async def story(node: Services) -> None:
        first = await init(node)
        known = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
        second = await init(node, **known)
        again = await init(node, **known)
        assert (second.error_code, second.producer_epoch) == (0, first.producer_epoch + 1)
        assert (again.error_code, again.producer_epoch) == (0, second.producer_epoch)
        third = await init(node)
        assert third.producer_epoch == second.producer_epoch + 1
        assert (await init(node, **known)).error_code == ErrorCode.PRODUCER_FENCED

    in_a_node(story, tmp_path)
