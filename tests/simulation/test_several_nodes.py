"""A fixed range of seeds of several nodes over one store, and defects of what lies between nodes, each of which some
seed notices."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from broker.coordination.across_nodes.peer_gate import PeerGate
from broker.coordination.across_nodes.peer_markers import SharedMarkerWriter
from broker.membership.life import SharedLife
from broker.partitions.derived import DerivedState, marker_of
from broker.partitions.followed_partition import FollowedPartition
from broker.shared.commits import SharedCommits
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from coordinator.groups.share.administration import ShareAdministration
from coordinator.groups.share.answers import Errand
from coordinator.machine import Outcome
from coordinator.transactions.states import TopicPartitions
from protocol.errors import ErrorCode
from storage.log import StorageFailed
from storage.shared.memory_store import StoreInMemory
from tests.simulation.nodes.plan import draw_several
from tests.simulation.nodes.run import run_several
from tests.simulation.run import run_nodes
from tests.simulation.stored import draw_line

SEEDS = 50
AT_ONCE = 10
NODES = 3
TRIED = 60
"""Seeds in which a planted defect has to be noticed."""

Planted = AbstractContextManager[Any]


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_is_wrong_with(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        (result,) = run_nodes(NODES, [seed])
        assert result.violations == [], f"seed {seed}"


def test_a_seed_is_one_run() -> None:
    assert run_several(7, NODES).digest == run_several(7, NODES).digest
    assert draw_several(7, NODES) == draw_several(7, NODES)


def _who_is_over_commits() -> Planted:
    """Under the owner's epoch, behind the owner's records. Followers of Kafka's appended what a leader of another epoch
    had sent (KAFKA-18723); here nobody appends for another, and the store refuses who is not the owner."""

    def is_taken(self: StoreInMemory, who: Any, change: Any) -> bool:
        log = self._by_id.get(change.log_id)
        return log is not None and log.next_offset == change.base_offset

    return mock.patch.multiple(StoreInMemory, _is_taken=is_taken, _check_lives=lambda self, who: None)


def _acknowledged_from_memory() -> Planted:
    async def commit_surely(self: SharedCommits, batches: Any, changes: Any) -> frozenset[int]:
        with suppress(StorageFailed):
            await true(self, batches, changes)
        return frozenset()

    true = SharedCommits._commit_surely
    return mock.patch.object(SharedCommits, "_commit_surely", commit_surely)


def _not_the_leader_passes_for_written() -> Planted:
    async def ask(self: SharedMarkerWriter, leader: int, together: Any) -> None:
        def told(error: ErrorCode, done: Any) -> None:
            done(ErrorCode.NONE if error is ErrorCode.NOT_LEADER_OR_FOLLOWER else error)

        await true(self, leader, [(*one[:-1], lambda error, done=one[-1]: told(error, done)) for one in together])

    true = SharedMarkerWriter._ask
    return mock.patch.object(SharedMarkerWriter, "_ask", ask)


def _nobody_is_asked_elsewhere() -> Planted:
    async def ask(
        self: PeerGate,
        leader: int,
        transactional_id: str,
        producer: Any,
        partitions: list[TopicPartitions],
        *,
        adds: bool,
    ) -> dict[tuple[str, int], ErrorCode]:
        return {(one.topic, index): ErrorCode.NONE for one in partitions for index in one.partitions}

    return mock.patch.object(PeerGate, "ask", ask)


def _claims_of_another_life_are_good() -> Planted:
    """Under the same epoch; not of the metadata, for which nodes race."""

    async def claim(self: StoreInMemory, who: Any, topic_id: bytes, index: int, epoch: int | None) -> Any:
        log = self._logs.get((topic_id, index))
        if log is not None and epoch == log.owner_epoch and topic_id != METADATA_TOPIC_ID:
            log.owner = who.number
        return await true(self, who, topic_id, index, epoch)

    true = StoreInMemory.claim
    return mock.patch.object(StoreInMemory, "claim", claim)


def _replaced_nodes_go_on_reading() -> Planted:
    return mock.patch.object(SharedLife, "_may_be_behind", lambda self: False)


def _what_is_undecided_is_shown_near() -> Planted:
    return mock.patch.object(FollowedPartition, "last_stable_offset", FollowedPartition.high_watermark)


def _nothing_is_known_of_what_was_aborted_near() -> Planted:
    def follow(self: DerivedState, header: Any, batch: Any, now_ms: int) -> None:
        self.producers.replay(header, marker_of(header, batch), now_ms)

    return mock.patch.object(DerivedState, "follow", follow)


def _later_epochs_are_always_passed() -> Planted:
    """Whoever has begun with a share partition since."""

    def pass_by(self: ShareAdministration, group_id: str, kept: Any, ticket: Any, now_ms: int) -> Outcome[Any]:
        later = {topic_id: frozenset(one for of, one in kept if of == topic_id) for topic_id, _ in kept}
        return Outcome(answers=[(ticket, Errand(group_id, 1 + max(kept.values()), later))])

    return mock.patch.object(ShareAdministration, "pass_by", pass_by)


DEFECTS: dict[str, tuple[Callable[[], Planted], tuple[int, ...]]] = {
    "who is over commits": (_who_is_over_commits, (6, 17)),
    "what was refused by the store is acknowledged from memory": (_acknowledged_from_memory, (6, 7)),
    "a marker that was refused passes for written": (_not_the_leader_passes_for_written, (0, 12)),
    "a batch passes without the coordinator": (_nobody_is_asked_elsewhere, (3, 4)),
    "a claim under the epoch of another life is good": (_claims_of_another_life_are_good, (46, 22)),
    "who was replaced goes on reading": (_replaced_nodes_go_on_reading, (135, 186)),
    "what is undecided is shown near": (_what_is_undecided_is_shown_near, (3, 14)),
    "a later epoch of a share partition is always passed": (_later_epochs_are_always_passed, (100096, 100049)),
    "near nothing is known of what was aborted": (_nothing_is_known_of_what_was_aborted_near, (14, 23, 28)),
}
"""Each with seeds that have noticed it: with other timing, others do."""


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_noticed(name: str) -> None:
    plant, seeds = DEFECTS[name]
    with plant():
        lines = [(seed, line) for seed in seeds for line in (draw_line(seed), replace(draw_line(seed), bucket=None))]
        lines += [(seed, draw_line(seed)) for seed in range(TRIED)]
        assert any(run_several(seed, NODES, line=line).violations for seed, line in lines), "nobody noticed"


@pytest.mark.parametrize(
    "seed",
    [186, 700423, 500245, 18007154],
    ids=["a marker", "an unknown id", "no such partition", "no such offset"],
)
def test_runs_in_which_a_coordinator_that_was_has_refused_what_is_right(seed: int) -> None:
    """A marker of its successor, which took that for "it has arrived before", so that the transaction hung; and what a
    leader and a group asked, and a deletion up to where a leader that was has heard of nothing."""
    assert run_several(seed, NODES).violations == []
