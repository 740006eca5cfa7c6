"""Which requests are timed, and what is taken for each stage of them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.metering.answered_errors import errors_of
from broker.api.metering.request_meter import STAGES, ApiMeter
from broker.network.pending_answer import AnswersInOrder, PendingAnswer
from broker.network.request_timer import BURST, RequestTimer
from broker.process.power_histogram import bounds_s, cumulative, quantile_ns
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


class Host:
    """A server that is asked to have requests read through a timer."""

    def __init__(self) -> None:
        self.timer: RequestTimer | None = None
        self.reads_timed = False

    def time_requests(self, timer: RequestTimer | None) -> None:
        self.reads_timed = timer is not None


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def call_of(meter: ApiMeter) -> Any:
    return SimpleNamespace(entry=SimpleNamespace(meter=meter), undecoded=None, timing=None)


def spent(meter: ApiMeter) -> dict[str, int]:
    return {stage: getattr(meter, stage).sum_ns for stage in STAGES}


def timed(clock: Clock, meter: ApiMeter, order: AnswersInOrder) -> Any:
    """A request that came at 0, and was decoded at 10."""
    timer = RequestTimer(Host(), clock)
    timer.begin()
    frame = b"a request"
    timer.arrived([frame], order)
    clock.now_ns = 10
    call = call_of(meter)
    timer.was_read(frame, call)
    return call


def test_of_a_request_that_waits_each_stage_is_taken() -> None:
    async def story() -> None:
        clock, meter = Clock(), ApiMeter("Produce", 14, ProduceResponse)
        call = timed(clock, meter, AnswersInOrder())
        clock.now_ns = 30
        call.timing.waits()
        clock.now_ns = 70
        call.timing.answered()
        clock.now_ns = 150
        await asyncio.sleep(0)
        assert spent(meter) == {"queue": 10, "local": 20, "remote": 40, "send": 80, "total": 150}

    asyncio.run(story())


def test_an_answer_behind_others_has_not_left() -> None:
    async def story() -> None:
        clock, meter, order = Clock(), ApiMeter("Produce", 14, ProduceResponse), AnswersInOrder()
        call = timed(clock, meter, order)
        waiting = PendingAnswer(call)
        order.put(waiting)
        clock.now_ns = 20
        call.timing.answered()
        await asyncio.sleep(0)
        assert sum(meter.total.counts) == 0
        order.waiting.clear()
        clock.now_ns = 1000
        while not sum(meter.total.counts):
            await asyncio.sleep(0.001)
        assert spent(meter) == {"queue": 10, "local": 10, "remote": 0, "send": 980, "total": 1000}

    asyncio.run(story())


def test_it_rests_after_a_few() -> None:
    async def story() -> None:
        host = Host()
        timer = RequestTimer(host, Clock())
        timer.begin()
        frames = [bytes([number]) * 10 for number in range(BURST)]
        for frame in frames:
            assert host.timer is timer
            timer.arrived([frame], AnswersInOrder())
        assert host.timer is None and host.reads_timed
        for frame in frames:
            timer.was_read(frame, call_of(ApiMeter("Fetch", 18, MetadataResponse)))
        assert not host.reads_timed
        while host.timer is None:
            await asyncio.sleep(0.001)

    asyncio.run(story())


def test_errors_are_found_wherever_they_stand() -> None:
    part = MetadataResponsePartition(error_code=5, partition_index=0, leader_id=1, replica_nodes=[], isr_nodes=[])
    topic = MetadataResponseTopic(error_code=3, name="t", partitions=[part, part])
    answer = MetadataResponse(brokers=[], cluster_id=None, controller_id=1, topics=[topic])
    assert sorted(errors_of(MetadataResponse)(answer)) == [3, 5, 5]
    meter = ApiMeter("Produce", 14, ProduceResponse)
    codes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    parts = [PartitionProduceResponse(index=0, error_code=code, base_offset=0) for code in codes]
    meter.answers(None, ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)]))
    meter.answers(None, ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts[:1])]))
    assert (meter.failed, meter.errors) == (1, {ErrorCode.NOT_LEADER_OR_FOLLOWER: 2})


def test_quantiles_lie_within_their_bucket() -> None:
    counts = [0] * 48
    counts[20], counts[30] = 99, 1
    assert (1 << 19) <= quantile_ns(counts, 0.5) <= (1 << 20) and (1 << 29) <= quantile_ns(counts, 0.999) <= (1 << 30)
    told = dict(zip([*bounds_s(), "all"], cumulative(counts), strict=True))
    assert told[(1 << 20) / 1e9] == 99 and told["all"] == 100
    assert quantile_ns([0] * 48, 0.5) != pytest.approx(0)
