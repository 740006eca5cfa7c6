"""How much one step of background work does, and when the next one is due."""

from dataclasses import replace

import pytest

from coordinator.batch_room import STEP_BYTES, record_bytes
from coordinator.transactions.coordinator import DRY_RETRY_MS, TIMEOUTS_PER_STEP
from coordinator.transactions.expiry import IDS_PER_STEP, TOMBSTONE_BYTES, ExpiryScan
from coordinator.transactions.states import TopicPartitions, TransactionState, key_bytes
from protocol.records.batch import HEADER_SIZE
from tests.unit.transactions.rig import ID, TOPIC_ID, Rig, in_state, records_in

S = TransactionState
NOW_MS = 1_700_000_000_000
"""When what `in_state` makes was changed last."""
INTERVAL_MS = 5
TOMBSTONE = 24 + len(key_bytes("0" * 80))


def step(rig: Rig, scan: ExpiryScan, *, now_ms: int, expiration_ms: int, limit: int = 1 << 20) -> list[bytes]:
    outcome = scan.step(
        rig.machine.ledger,
        now_ms,
        expiration_ms=expiration_ms,
        interval_ms=INTERVAL_MS,
        max_batch_bytes=limit,
    )
    assert all(record.value is None for record in outcome.records)
    assert bool(outcome.reason) == bool(outcome.records)
    return [record.key or b"" for record in outcome.records]


@pytest.mark.parametrize("limit", [1 << 20, TOMBSTONE_BYTES, 2_000])
def test_expired_ids_fill_one_batch_in_a_step(limit: int) -> None:
    rig, scan = Rig(), ExpiryScan()
    names = [f"{number:080}" for number in range(400)]
    for name in names:
        rig.seed(in_state(S.EMPTY), name)
    fit = (min(TOMBSTONE_BYTES, limit) - HEADER_SIZE) // TOMBSTONE
    for at in range(0, len(names), fit):
        due_ms = NOW_MS + 1
        found = step(rig, scan, now_ms=due_ms, expiration_ms=1, limit=limit)
        assert found == [key_bytes(name) for name in names[at : at + fit]]
        assert scan.next_ms == (due_ms if at + fit < len(names) else due_ms + INTERVAL_MS)


@pytest.mark.parametrize(("expiration_ms", "expired"), [(10, True), (11, False), (9, True)])
def test_from_when_on_an_id_is_unused(expiration_ms: int, expired: bool) -> None:
    rig = Rig(driven=False)
    rig.seed(in_state(S.COMPLETE_ABORT))
    rig.seed(in_state(S.ONGOING, timeout_ms=(1 << 31) - 1), "open")
    rig.seed(in_state(S.PREPARE_ABORT), "decided")
    found = step(rig, ExpiryScan(), now_ms=NOW_MS + 10, expiration_ms=expiration_ms)
    assert found == ([key_bytes(ID)] if expired else [])


def test_a_scan_passes_over_what_is_gone_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.transactions.expiry.IDS_PER_STEP", 1)
    assert IDS_PER_STEP == 5_000
    rig, scan = Rig(), ExpiryScan()
    for name in ("a", "b"):
        rig.seed(in_state(S.EMPTY), name)
    assert step(rig, scan, now_ms=NOW_MS + 1, expiration_ms=1) == [key_bytes("a")]
    del rig.machine.transactions["b"]
    assert step(rig, scan, now_ms=NOW_MS + 1, expiration_ms=1) == []
    assert scan.next_ms == NOW_MS + 1 + INTERVAL_MS


def opened(rig: Rig, count: int, **changes: object) -> list[str]:
    names = [f"tx-{number:03}" for number in range(count)]
    for name in names:
        rig.seed(in_state(S.ONGOING, start_ms=rig.time.now_ms(), **changes), name)
    return names


def test_so_many_timeouts_are_dealt_with_in_a_step() -> None:
    rig = Rig()
    names = opened(rig, TIMEOUTS_PER_STEP + 3)
    due_ms = rig.time.now_ms() + 60_001
    assert rig.machine.next_deadline_ms() == due_ms
    assert rig.machine.abort_timed_out(due_ms - 1) is None
    first = rig.machine.abort_timed_out(due_ms)
    assert first is not None
    assert [record.key for record in first.records] == [key_bytes(name) for name in names[:TIMEOUTS_PER_STEP]]
    timeouts = rig.machine.ledger.timeouts
    assert {timeouts.get(name) for name in names[:TIMEOUTS_PER_STEP]} == {due_ms + rig.settings.abort_retry_ms}
    assert rig.machine.next_deadline_ms() == due_ms
    second = rig.machine.abort_timed_out(due_ms)
    assert second is not None and len(second.records) == 3
    assert rig.machine.abort_timed_out(due_ms) is None


def test_timeouts_beyond_one_batch_begin_the_next_step() -> None:
    rig = Rig()
    names = opened(rig, 10)
    due_ms = rig.time.now_ms() + 60_001
    one_bytes = 24 + len(key_bytes("tx-000")) + len(_abort_of(rig, due_ms))
    rig.settings.max_batch_bytes = HEADER_SIZE + 4 * one_bytes + one_bytes // 2
    outcome = rig.machine.abort_timed_out(due_ms)
    assert outcome is not None and len(outcome.records) == 4
    timeouts = rig.machine.ledger.timeouts
    assert [timeouts.get(name) for name in names[3:6]] == [due_ms + rig.settings.abort_retry_ms, due_ms, due_ms]


def test_a_step_is_bounded_whatever_the_log_takes() -> None:
    rig = Rig()
    opened(rig, 10, partitions=(TopicPartitions("t", TOPIC_ID, tuple(range(1_500))),))
    outcome = rig.machine.abort_timed_out(rig.time.now_ms() + 60_001)
    assert outcome is not None
    assert len(outcome.records) == (STEP_BYTES - HEADER_SIZE) // record_bytes(outcome.records[0]) == 5


def _abort_of(rig: Rig, due_ms: int) -> bytes:
    """The record of one such abort."""
    twin = Rig()
    twin.time.advance(rig.time.now_ms() - twin.time.now_ms())
    opened(twin, 1)
    outcome = twin.machine.abort_timed_out(due_ms)
    assert outcome is not None
    return outcome.records[0].value or b""


def test_a_timeout_without_a_fresh_producer_id_is_tried_soon() -> None:
    rig = Rig()
    (name,) = opened(rig, 1, producer_epoch=32766)
    rig.ids.dry = True
    due_ms = rig.time.now_ms() + 60_001
    outcome = rig.machine.abort_timed_out(due_ms)
    assert outcome is not None and outcome.records == []
    assert rig.machine.ledger.timeouts.get(name) == due_ms + DRY_RETRY_MS


def test_the_next_deadline_is_that_of_a_timeout_or_of_the_scan() -> None:
    rig = Rig()
    scan_ms = rig.time.now_ms() + rig.settings.expiry_scan_ms
    assert rig.machine.next_deadline_ms() == scan_ms
    (name,) = opened(rig, 1)
    assert rig.machine.next_deadline_ms() == rig.time.now_ms() + 60_001
    rig.seed(replace(rig.state(name), timeout_ms=2 * rig.settings.expiry_scan_ms), name)
    assert rig.machine.next_deadline_ms() == scan_ms
    rig.seed(replace(rig.state(name), timeout_ms=(1 << 31) - 1), name)
    assert rig.machine.ledger.timeouts.next_ms() is None
    written = len(records_in(rig))
    assert list(rig.machine.expire(scan_ms - 1).records) == []
    rig.time.advance(rig.settings.expiry_scan_ms)
    assert rig.machine.next_deadline_ms() == scan_ms + rig.settings.expiry_scan_ms
    assert len(records_in(rig)) == written
