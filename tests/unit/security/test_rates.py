"""Kafka's rate over samples and its token bucket: the numbers are those of its own arithmetic, done by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.quotas.rates import LONGEST_MS, Rate, TokenBucket, Windows

ELEVEN = Windows(11, 1000)
START = 5_000_000


def seconds_of(rate: Rate, value: float, count: int, now_ms: int) -> int:
    for _ in range(count):
        rate.record(ELEVEN, value, now_ms)
        assert rate.throttle_ms(ELEVEN, 500, now_ms) == 0
        now_ms += 1000
    return now_ms


def test_a_spike_is_paid_for_by_silence() -> None:
    rate = Rate()
    now_ms = seconds_of(rate, 400, 10, START) + 500
    rate.record(ELEVEN, 2300, now_ms)
    # 10 × 400 + 2300 in 10.5 s is 600 a second; (600 - 500) / 500 × 10.5 s
    assert rate.measure(ELEVEN, now_ms) == (600.0, 10_500)
    assert rate.throttle_ms(ELEVEN, 500, now_ms) == 2100
    now_ms += 2100
    assert rate.measure(ELEVEN, now_ms)[0] < 600
    seconds_of(rate, 100, 10, now_ms + 9000)


def test_one_that_has_just_begun_is_measured_over_all_windows_but_one() -> None:
    rate = Rate()
    rate.record(ELEVEN, 10_000, START)
    assert rate.measure(ELEVEN, START) == (1000.0, 10_000)
    assert rate.throttle_ms(ELEVEN, 500, START) == 10_000
    rate.record(ELEVEN, 0, START + 999)
    assert rate.measure(ELEVEN, START + 999) == (10_000 / 10.999, 10_999)
    rate.record(ELEVEN, 0, START + 1000)
    assert rate.measure(ELEVEN, START + 1000) == (1000.0, 10_000)


def test_what_was_used_before_the_windows_is_forgotten_sample_by_sample() -> None:
    rate = Rate()
    rate.record(ELEVEN, 1000, START)
    rate.record(ELEVEN, 500, START + 5000)
    assert rate.measure(ELEVEN, START + 10_999)[0] * 10.999 == pytest.approx(1500)
    assert rate.measure(ELEVEN, START + 11_000)[0] * 10 == pytest.approx(500)
    assert rate.measure(ELEVEN, START + 30_000) == (0.0, 10_000)


def test_a_sample_that_reaches_into_the_windows_counts_whole() -> None:
    """It began before the time that is looked at, and was used in it."""
    two = Windows(2, 1000)
    rate = Rate()
    for at in (0, 900, 1000, 2000):
        rate.record(two, 1, START + at)
    assert rate.measure(two, START + 2800) == (pytest.approx(4 / 2.8), 2800)
    rate.record(two, 1, START + 3000)
    assert rate.measure(two, START + 3000) == (2.0, 1000)


def test_what_is_taken_back_was_never_used() -> None:
    rate = Rate()
    rate.record(ELEVEN, 100, START)
    before = rate.measure(ELEVEN, START)
    rate.record(ELEVEN, 5000, START)
    rate.record(ELEVEN, -5000, START)
    assert rate.measure(ELEVEN, START) == before


def test_exactly_at_the_bound_nobody_waits() -> None:
    rate = Rate()
    rate.record(ELEVEN, 5000, START)
    assert rate.throttle_ms(ELEVEN, 500, START) == 0
    rate.record(ELEVEN, 1, START)
    assert rate.throttle_ms(ELEVEN, 500, START) == 2


def test_a_wait_fits_into_its_field() -> None:
    rate = Rate()
    rate.record(ELEVEN, 1e18, START)
    assert rate.throttle_ms(ELEVEN, 1e-3, START) == LONGEST_MS


def test_a_rate_keeps_no_more_than_its_samples() -> None:
    rate = Rate()
    for second in range(1000):
        rate.record(ELEVEN, 1, START + second * 1000)
    assert len(rate._samples) == 12


def test_a_bucket_begins_full_and_may_be_overdrawn_once() -> None:
    ten = Windows(10, 1000)
    bucket = TokenBucket()
    bucket.record(ten, 10, 99, START)
    assert (bucket.tokens(ten, 10, START), bucket.throttle_ms(ten, 10, START)) == (1.0, 0)
    bucket.record(ten, 10, 101, START)
    assert (bucket.tokens(ten, 10, START), bucket.throttle_ms(ten, 10, START)) == (-100.0, 10_000)
    assert bucket.throttle_ms(ten, 10, START + 9_999) == 1
    assert bucket.throttle_ms(ten, 10, START + 10_000) == 0
    assert bucket.tokens(ten, 10, START + 100_000) == 100.0


def test_whoever_has_a_part_of_a_token_left_does_not_wait() -> None:
    bucket = TokenBucket()
    bucket.record(ELEVEN, 1, 10.5, START)
    assert (bucket.tokens(ELEVEN, 1, START), bucket.throttle_ms(ELEVEN, 1, START)) == (0.5, 0)


def test_a_rate_of_one_window_is_over_a_millisecond_at_least() -> None:
    rate, one = Rate(), Windows(1, 1000)
    rate.record(one, 5, START)
    assert rate.measure(one, START) == (5000.0, 1)


def test_all_that_is_used_in_one_window_is_one_sample() -> None:
    rate = Rate()
    for at in (0, *range(1000, 1999, 100)):
        rate.record(Windows(2, 1000), 1, START + at)
    assert len(rate._samples) == 2
    assert rate.measure(Windows(2, 1000), START + 1000)[0] == 11


def test_a_bucket_that_is_made_smaller_holds_less() -> None:
    bucket = TokenBucket()
    bucket.record(ELEVEN, 10, 10, START)
    assert bucket.tokens(ELEVEN, 10, START) == 100.0
    assert bucket.tokens(ELEVEN, 2, START) == 22.0


class Ring:
    """The samples as Kafka keeps them: in slots that are used again, whose expired ones begin anew when it measures."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.slots: list[list[float]] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.slots:
            self.slots.append([now_ms, now_ms, 0.0])
        if now_ms - self.slots[self.current][0] >= self.windows.size_ms:
            self.current = (self.current + 1) % (self.windows.count + 1)
            self.slots[self.current : self.current + 1] = [[now_ms, now_ms, 0.0]]
        slot = self.slots[self.current]
        slot[1], slot[2] = now_ms, slot[2] + value

    def measure(self, now_ms: int) -> tuple[float, int]:
        for slot in self.slots:
            if now_ms - slot[1] >= self.windows.all_ms:
                slot[:] = [now_ms, now_ms, 0.0]
        elapsed = now_ms - int(min(slot[0] for slot in self.slots))
        elapsed += max(0, self.windows.count - 1 - elapsed // self.windows.size_ms) * self.windows.size_ms
        return sum(slot[2] for slot in self.slots) / (max(elapsed, 1) / 1000), max(elapsed, 1)


@given(
    count=st.integers(1, 12),
    size_ms=st.sampled_from((10, 100, 1000)),
    uses=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 50)), min_size=1, max_size=80),
)
def test_it_measures_what_kafkas_samples_do(count: int, size_ms: int, uses: list[tuple[int, int]]) -> None:
    windows, now_ms = Windows(count, size_ms), START
    rate, ring = Rate(), Ring(windows)
    for waited_ms, value in uses:
        now_ms += waited_ms
        rate.record(windows, value, now_ms)
        ring.record(value, now_ms)
        assert rate.measure(windows, now_ms) == pytest.approx(ring.measure(now_ms))
