"""SegmentLog is MemoryLog, whatever is done to both: appends, reads, truncations, trims, rolls, reopening, kills."""

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.records.batch import headers_in, place
from storage.log import LogConfig, OffsetOutOfRange
from storage.memory_log import MemoryLog
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch
from tests.unit.storage.exact_appends import append_exactly

CONFIG = LogConfig(
    segment_bytes=600, index_interval_bytes=90, segment_ms=500, file_delete_delay_ms=0, cleanup_compact=True
)
"""Compacted, for there may be gaps between segments."""


def batches() -> st.SearchStrategy[bytes]:
    one = st.builds(
        lambda timestamps, size: batch(*timestamps, value=b"v" * size),
        st.lists(st.integers(0, 1_000), min_size=1, max_size=4),
        st.integers(0, 120),
    )
    return st.lists(one, min_size=1, max_size=4).map(b"".join)


class TwoLogs(RuleBasedStateMachine):
    """Every step is done to both, every answer compared."""

    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.memory = MemoryLog(CONFIG)
        self.epoch = 0
        self.point = 0
        self.has_gaps = False
        self.disk = self.open(Recovery())

    def open(self, recovery: Recovery) -> SegmentLog:
        return SegmentLog.open(self.files, "t-0", CONFIG, now_ms=lambda: 0, recovery=recovery)

    @rule(data=batches(), bump=st.booleans())
    def append(self, data: bytes, bump: bool) -> None:
        self.epoch += bump
        assert self.disk.append(data, leader_epoch=self.epoch) == self.memory.append(data, leader_epoch=self.epoch)

    @rule(data=batches(), gap=st.integers(0, 3))
    def append_with_a_gap(self, data: bytes, gap: int) -> None:
        self.has_gaps |= gap > 0
        placed = bytearray(data)
        offset = self.memory.end_offset + gap
        for position, header in list(headers_in(placed)):
            place(placed, offset, self.epoch, position)
            offset += header.last_offset_delta + 1
        append_exactly(self.disk, placed)
        append_exactly(self.memory, placed)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        ends = [header.next_offset for header, _ in self.memory.replay(0)]
        ends = [0, *(end for end in ends if end >= self.memory.start_offset)]
        offset = ends[int(share * (len(ends) - 1))]
        self.disk.truncate(offset)
        self.memory.truncate(offset)

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        start = self.memory.start_offset
        offset = start + int(share * (self.memory.end_offset - start))
        self.disk.trim(offset)
        self.memory.trim(offset)

    @rule()
    def roll(self) -> None:
        self.disk.roll()

    @rule()
    def flush(self) -> None:
        assert self.disk.flush_now() == self.memory.flush_now()
        self.point = self.disk.recovery_point

    @precondition(lambda self: not self.disk.failed)
    @rule(how=st.sampled_from(["clean", "killed", "unknown"]))
    def reopen(self, how: str) -> None:
        # A log with gaps is either compacted or damaged, and which it is stays unknown once nothing is believed.
        how = "killed" if how == "unknown" and self.has_gaps else how
        if how == "clean":
            self.disk.close()
            self.point = self.disk.recovery_point
        else:
            self.files = self.files.kill()
        start = self.memory.start_offset
        self.disk = self.open(
            Recovery(
                recovery_point=min(self.point, self.memory.end_offset),
                clean=how == "clean",
                same_boot=how == "killed",
                log_start_offset=start,
            )
        )
        assert self.disk.flush_now() == self.memory.flush_now()

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 2_000), bound=st.floats(0, 1), at_least_one=st.booleans())
    def read(self, share: float, max_bytes: int, bound: float, at_least_one: bool) -> None:
        offset, end_offset = int(share * (self.memory.end_offset + 1)), int(bound * (self.memory.end_offset + 1))
        answers: list[bytes | str] = []
        for log in (self.memory, self.disk):
            try:
                found = log.read(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one)
                answers.append(b"".join(found))
            except OffsetOutOfRange:
                answers.append("out of range")
        assert answers[0] == answers[1]
        if answers[1] != "out of range":
            bounds = {"end_offset": end_offset, "at_least_one": at_least_one}
            sent = self.disk.read_slice(offset, max_bytes, **bounds, to_send=True)
            assert b"".join(sent.batches) == answers[1]

    @rule(timestamp_ms=st.integers(-1, 1_001), bound=st.floats(0, 1))
    def look_up_a_time(self, timestamp_ms: int, bound: float) -> None:
        end_offset = int(bound * (self.memory.end_offset + 1))
        assert finish(self.disk.offset_for_timestamp(timestamp_ms, end_offset=end_offset)) == finish(
            self.memory.offset_for_timestamp(timestamp_ms, end_offset=end_offset)
        )
        assert finish(self.disk.max_timestamp()) == finish(self.memory.max_timestamp())

    @rule(share=st.floats(0, 1))
    def replay(self, share: float) -> None:
        offset = self.memory.start_offset + int(share * (self.memory.end_offset - self.memory.start_offset))
        assert [header for header, _ in self.disk.replay(offset)] == [
            header for header, _ in self.memory.replay(offset)
        ]

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 500))
    def read_on_to_the_end(self, share: float, max_bytes: int) -> None:
        """As a consumer does, each time from where the last answer ended."""
        end_offset = self.memory.end_offset
        offset = self.memory.start_offset + int(share * (end_offset - self.memory.start_offset))
        from_memory = b"".join(self.memory.read(offset, 1 << 20, end_offset=end_offset))
        from_disk = b""
        while found := self.disk.read_slice(offset, max_bytes, end_offset=end_offset):
            if not found.batches:
                break
            from_disk += b"".join(found.batches)
            offset = found.next_offset
        assert from_disk == from_memory

    @invariant()
    def they_agree(self) -> None:
        disk, memory = self.disk, self.memory
        assert (disk.start_offset, disk.end_offset) == (memory.start_offset, memory.end_offset)
        assert disk.durable_offset >= memory.durable_offset
        assert disk.latest_epoch() == memory.latest_epoch()
        for epoch in range(self.epoch + 2):
            assert disk.epoch_end(epoch) == memory.epoch_end(epoch)


@pytest.fixture(autouse=True, scope="module")
def little_is_much() -> Iterator[None]:
    """So that small logs, too, leave in their files what is to be sent."""
    with mock.patch("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 200):
        yield


TestTwoLogs = pytest.mark.filterwarnings("ignore")(TwoLogs.TestCase)
TwoLogs.TestCase.settings = settings(
    max_examples=250, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
