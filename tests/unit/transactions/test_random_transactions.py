"""Random lives of a few transactional ids: any order of requests, refusals, crashes and clock steps keeps the rules."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.loading import entries_of
from coordinator.machine import Marker, ReplayedRecord
from coordinator.runtime import ShardState
from coordinator.transactions.answers import Identity
from coordinator.transactions.states import (
    TRANSITIONS,
    Transaction,
    TransactionState,
    read_key,
    read_value,
    value_bytes,
)
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket
from tests.unit.transactions.rig import OFFSETS, T0, T1, Done, Leaders, Rig, in_state

IDS = st.sampled_from(["a", "b", "c"])
PARTITIONS = st.sampled_from([T0, T1, OFFSETS])
REFUSALS = st.sampled_from(
    [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT]
)
MARKER_ERRORS = st.sampled_from([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])


class WatchfulLeaders(Leaders):
    """Leaders that check what they may rely on (I04)."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig

    def write(self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Done) -> None:
        owners = [
            completion
            for completion in self.rig.machine.completions.values()
            if completion.transaction.producer_id == marker.producer_id
        ]
        assert len(owners) == 1
        assert owners[0].offset < self.rig.log.durable_offset, "a marker before PREPARE was durable"
        super().write(topic, partition, topic_id, marker, done)


class RandomTransactions(RuleBasedStateMachine):
    """I01, I02, I03, I09, I14, I16, I44 over random histories."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(durable=False, driven=False)
        self.rig.leaders = WatchfulLeaders(self.rig)
        self.rig.restart(driven=True)
        self.held: dict[str, list[tuple[int, int]]] = {"a": [], "b": [], "c": []}
        self.open: list[tuple[str, CollectingTicket]] = []
        self.decisions: dict[tuple[int, int], bool] = {}

    @initialize(near_the_end=st.booleans())
    def seed(self, near_the_end: bool) -> None:
        if near_the_end:
            self.rig.seed(in_state(TransactionState.COMPLETE_COMMIT, producer_epoch=32763), "a")
            self.held["a"].append((7, 32763))
        self.rig.log.sync()

    def _loaded(self) -> None:
        """Until it stands: what follows from a load may be refused, too, and then it loads once more."""
        while self.rig.shard.state is ShardState.LOADING:
            self.rig.shard.load_slice(200, lambda: True)

    def _collect(self) -> None:
        """Clients learn their identities, and keep the old ones: zombies."""
        for transactional_id, ticket in self.open:
            answer = ticket.answers[0] if ticket.answers else None
            if isinstance(answer, Identity) and answer.error is ErrorCode.NONE and answer.producer_id >= 0:
                assert 0 <= answer.producer_epoch < 32767, "an epoch no client may have (I09)"
                self.held[transactional_id].append((answer.producer_id, answer.producer_epoch))
        self.open = [(name, ticket) for name, ticket in self.open if ticket.waiting]

    def _claim(self, transactional_id: str, back: int) -> tuple[int, int]:
        known = self.held[transactional_id]
        return known[-1 - back % len(known)] if known else (1, 0)

    @rule(transactional_id=IDS, expected=st.booleans(), back=st.integers(0, 3))
    def init(self, transactional_id: str, expected: bool, back: int) -> None:
        claim = self._claim(transactional_id, back) if expected else None
        self.open.append((transactional_id, self.rig.init(transactional_id, claim)))

    @rule(
        transactional_id=IDS,
        back=st.sampled_from([0, 0, 0, 1, 2]),
        partition=PARTITIONS,
        version=st.sampled_from([0, 2]),
    )
    def add(self, transactional_id: str, back: int, partition: object, version: int) -> None:
        claim = self._claim(transactional_id, back)
        self.rig.add(claim, partition, version=version, transactional_id=transactional_id)  # type: ignore[arg-type]

    @rule(
        transactional_id=IDS,
        back=st.sampled_from([0, 0, 0, 1, 2]),
        commit=st.booleans(),
        version=st.sampled_from([0, 2, 2]),
    )
    def end(self, transactional_id: str, back: int, commit: bool, version: int) -> None:
        claim = self._claim(transactional_id, back)
        ticket = self.rig.end(claim, commit=commit, version=version, transactional_id=transactional_id)
        self.open.append((transactional_id, ticket))

    @rule()
    def sync(self) -> None:
        self.rig.log.sync()
        self._collect()

    @rule(code=REFUSALS, times=st.integers(1, 3))
    def refuse(self, code: ErrorCode, times: int) -> None:
        self.rig.log.refuse(code, times)

    @rule(partition=st.sampled_from([("t", 0), ("t", 1)]), code=MARKER_ERRORS)
    def leader_fails(self, partition: tuple[str, int], code: ErrorCode) -> None:
        self.rig.leaders.answers.setdefault(partition, []).append(code)

    @rule(held=st.booleans())
    def leaders_are_slow(self, held: bool) -> None:
        if held:
            self.rig.leaders.held = True
        else:
            self.rig.leaders.let_go()

    @rule(milliseconds=st.sampled_from([1, 100, 61_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.rig.time.advance(milliseconds)
        self._loaded()

    @rule(level=st.sampled_from([0, 2]))
    def cluster_level_changes(self, level: int) -> None:
        self.rig.settings.cluster_version = level

    @rule()
    def reload(self) -> None:
        self.rig.shard.reload()
        self._loaded()

    @rule()
    def crash(self) -> None:
        """What was not synced is lost; clients that were not answered know nothing."""
        durable = self.rig.log.durable_offset
        kept = sum(1 for base, _ in self.rig.log.batches if base < durable)
        self.rig.log = self.rig.log.copy(kept)
        self.rig.leaders.pending.clear()
        self.open.clear()
        self.rig.restart()

    @invariant()
    def loaded_after_a_stale_append(self) -> None:
        self._loaded()

    @invariant()
    def one_decision_for_each_identity(self) -> None:
        """I05: with an epoch per transaction, all its markers say the same."""
        for _, _, marker in self.rig.leaders.written:
            if marker.transaction_version >= 2 and marker.producer_epoch < 32767:
                key = (marker.producer_id, marker.producer_epoch)
                assert self.decisions.setdefault(key, marker.commit) == marker.commit
        self.rig.leaders.written.clear()

    def teardown(self) -> None:
        self._check_log()
        self._check_reload()
        self._check_liveness()
        self.rig.shard.close()

    def _check_log(self) -> None:
        """I02: every transition in the log is one of the table; I01: epochs never go back per producer id."""
        last: dict[str, Transaction] = {}
        for _, batch in self.rig.log.batches:
            for entry, _ in entries_of(batch):
                if not isinstance(entry, ReplayedRecord):
                    continue
                name = read_key(entry.key)
                assert name is not None
                if entry.value is None:
                    del last[name]
                    continue
                after = read_value(entry.value)
                assert after is not None
                before = last.get(name)
                if before is not None:
                    assert before.state in TRANSITIONS[after.state]
                    if before.producer_id == after.producer_id:
                        assert after.producer_epoch >= before.producer_epoch
                last[name] = after

    def _check_reload(self) -> None:
        """I14: every prefix loads, and the whole log gives what is in memory (as far as the layout has room)."""
        for count in range(len(self.rig.log.batches) + 1):
            machine = self.rig.make()
            versions: dict[str, int] = {}
            for _, batch in self.rig.log.batches[:count]:
                for entry, _ in entries_of(batch):
                    if isinstance(entry, ReplayedRecord):
                        machine.replay(entry)
                        versions[read_key(entry.key) or ""] = (entry.value or b"\0\1")[1]
            machine.loaded(self.rig.time.now_ms())
        live = {
            name: read_value(value_bytes(transaction, versions[name]))
            for name, transaction in self.rig.machine.transactions.items()
        }
        assert machine.transactions == live
        assert set(machine.completions) == set(self.rig.machine.completions)

    def _check_liveness(self) -> None:
        """I44: when the faults stop, every decided transaction completes and every open one times out."""
        self.rig.log._refusals.clear()
        self.rig.log.durable = True
        self.rig.leaders.answers.clear()
        self.rig.leaders.let_go()
        self.rig.log.sync()
        self.rig.time.advance(200_000)
        stuck = {
            name: transaction.state
            for name, transaction in self.rig.machine.transactions.items()
            if transaction.state.preparing or transaction.state is TransactionState.ONGOING
        }
        assert not stuck


RandomTransactions.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRandomTransactions = RandomTransactions.TestCase
