"""The stall monitor: turns that took too long are counted, named, and said now and then."""

import asyncio
import signal
import sys

import pytest

from broker.process.stall_monitor import BEAT_S, LINE_EVERY_S, StallMonitor


class Rig:
    """A monitor whose beats a test makes, on clocks that stand."""

    def __init__(self, threshold_ms: int = 20) -> None:
        self.now = self.cpu = 0.0
        self.monitor = StallMonitor(threshold_ms, clock=lambda: self.now, cpu_clock=lambda: self.cpu)

    def turn(self, ms: float, *, cpu_ms: float = 0, seen: bool = False) -> None:
        """A beat is due, and comes so much later."""
        self.monitor._cpu = self.cpu
        self.monitor._due = self.now + BEAT_S
        self.now += BEAT_S + ms / 1000 + 1e-6
        self.cpu += cpu_ms / 1000 + 1e-6
        if seen:
            self.monitor.look(sys._getframe(1))
        self.monitor.look_back()


def test_only_turns_over_the_threshold_count() -> None:
    rig = Rig()
    for ms in (0, 5, 19, 20, 50, 100, 250, 30):
        rig.turn(ms)
    monitor = rig.monitor
    assert (monitor.turns_over, monitor.turns_over_100_ms, monitor.worst_ms) == (5, 2, 250)
    assert monitor.last is not None and monitor.last.ms == 30


def test_computing_and_waiting_are_distinguished() -> None:
    rig = Rig()
    rig.turn(80, cpu_ms=3)
    assert rig.monitor.last is not None and rig.monitor.last.cpu_ms == 3


def test_what_ran_is_named() -> None:
    rig = Rig()

    def a_slow_handler() -> None:
        rig.turn(80, seen=True)

    a_slow_handler()
    assert rig.monitor.last is not None
    assert "test_stall_monitor.a_slow_handler:" in rig.monitor.last.ran
    rig.turn(80)
    assert rig.monitor.last.ran == "", "what was seen belongs to its turn"


def test_a_line_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for _ in range(10):
        rig.turn(50)
    rig.now += LINE_EVERY_S
    rig.turn(70)
    lines = [record for record in caplog.records if record.message == "the loop was kept busy"]
    assert [line.__dict__["fields"]["turns"] for line in lines] == [1, 10]
    assert lines[1].__dict__["fields"]["worst_ms"] == 70


def test_it_watches_a_loop_and_leaves_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is asserted of times: a beat has come, and the end says what there was."""
    caplog.set_level("INFO")
    before = signal.getsignal(signal.SIGALRM)

    async def story() -> None:
        monitor = StallMonitor(0)
        monitor.start()
        while not monitor.turns_over:
            await asyncio.sleep(0)
        monitor.stop()

    asyncio.run(story())
    assert [record.message for record in caplog.records][-1] == "turns of the loop that took too long"
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
