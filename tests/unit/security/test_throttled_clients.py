"""Clients over their quotas are told so and not read from, and nobody else notices (KIP-219). Time is virtual here."""

import math
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.harness.framing import request_frame
from tests.unit.security.throttled_rig import ANYBODY, Throttled, ask, fetch, play, produce, set_quota

SOON_MS = 50
"""What an answer takes that nothing holds up."""


def throttle_of(size_bytes: int, rate: float) -> int:
    """What a first request costs that is larger than ten seconds of the quota."""
    return math.floor((size_bytes / 10 - rate) / rate * 10_000 + 0.5)


def test_a_producer_over_its_quota_is_told_so_and_not_read_from() -> None:
    async def story(rig: Throttled) -> None:
        admin, other = await rig.connect("admin"), await rig.connect("other")
        assert await set_quota(admin, {"client-id": "c"}, producer_byte_rate=1000) == 0
        connection, beside = await rig.connect(), await rig.connect()
        size = len(request_frame(produce(20_000), 9, 0, "c")) - 4
        answer = await ask(connection, produce(20_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == throttle_of(size, 1000) > 9_000
        assert await rig.served_ms(beside) < SOON_MS  # the connection is muted, not the client
        assert await rig.served_ms(other) < SOON_MS
        assert answer.throttle_time_ms - SOON_MS < await rig.served_ms(connection) < answer.throttle_time_ms + SOON_MS
        assert await rig.served_ms(connection) < SOON_MS

    play(story)


def test_one_that_is_not_answered_is_not_read_from_either() -> None:
    async def story(rig: Throttled) -> None:
        admin = await rig.connect("admin")
        await set_quota(admin, ANYBODY, producer_byte_rate=1000)
        connection = await rig.connect()
        connection.tell(produce(20_000, acks=0), 9)
        assert await rig.served_ms(connection) > 9_000

    play(story)


def test_requests_that_are_here_already_wait_too() -> None:
    async def story(rig: Throttled) -> None:
        await set_quota(await rig.connect("admin"), ANYBODY, producer_byte_rate=1000)
        connection = await rig.connect()
        waits = [connection.ask(produce(20_000), 9)]
        waits += [connection.ask(MetadataRequest(topics=[]), 9) for _ in range(3)]
        first = await waits[0]
        assert await rig.took_ms(last(waits)) > first.throttle_time_ms - SOON_MS

    async def last(waits: list[Any]) -> None:
        await waits[-1]

    play(story)


def test_a_fetch_over_its_quota_brings_nothing_and_loses_nothing() -> None:
    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        for _ in range(3):
            await ask(connection, produce(4_000), 9)
        await set_quota(admin, {"client-id": "c"}, consumer_byte_rate=500)
        opened = await ask(connection, fetch(session_epoch=0), 12)
        size = records_size(opened)
        assert 4_000 < size <= 5_000 and opened.throttle_time_ms == 0  # ten seconds of the quota, and no more
        assert opened.session_id
        over = await ask(connection, fetch(1, opened.session_id, 1), 12)
        assert (over.responses, over.session_id) == ([], opened.session_id)
        assert over.throttle_time_ms > 0
        assert await rig.served_ms(connection) > over.throttle_time_ms - SOON_MS
        later = await ask(connection, fetch(1, opened.session_id, 2), 12)
        while not later.responses:
            later = await ask(connection, fetch(1, opened.session_id, 3), 12)
        assert records_size(later) == size

    play(story)


def test_a_session_does_not_begin_with_nothing() -> None:
    """An empty answer to a full fetch makes clients begin anew; nothing would ever use what was kept for them."""

    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await ask(connection, produce(4_000), 9)
        await set_quota(admin, ANYBODY, consumer_byte_rate=100)
        answer = await ask(connection, fetch(session_epoch=0), 12)
        assert answer.throttle_time_ms > 0
        assert (answer.session_id, answer.responses) == (0, [])
        node = rig.place.broker.node
        assert node is not None and len(node.services.fetch_sessions) == 0

    play(story)


def test_time_of_the_loop_is_a_quota_of_its_own() -> None:
    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await set_quota(admin, {"client-id": "c"}, request_percentage=1e-6)
        answer = await ask(connection, MetadataRequest(topics=[]), 9)
        assert answer.throttle_time_ms == 1000  # never longer than a window
        assert await rig.served_ms(connection) > 1000 - SOON_MS
        assert await rig.served_ms(admin) < SOON_MS

    play(story)


def creation(*names: str, partitions: int = 6, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only)


def errors_of(results: Any) -> list[int]:
    return [one.error_code for one in results]


def test_mutations_beyond_the_quota_are_refused_and_done_later() -> None:
    """KIP-599."""
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="a", topic_id=bytes(16))], timeout_ms=1000)

    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await set_quota(admin, {"client-id": "c"}, controller_mutation_rate=1)
        made = await ask(connection, creation("a", "b", "c", "t", "no/name"), 7)
        errors = {one.name: one.error_code for one in made.topics}
        taken, bad = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION
        assert errors == {"a": 0, "b": 0, "c": exceeded, "t": taken, "no/name": bad}
        assert 1000 - SOON_MS < made.throttle_time_ms <= 1000
        assert await rig.served_ms(connection) > 1000 - SOON_MS
        assert errors_of((await ask(connection, creation("c"), 7)).topics) == [0]
        grown = await ask(
            connection,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=7, assignments=None)],
                timeout_ms=1000,
                validate_only=False,
            ),
            3,
        )
        assert errors_of(grown.results) == [exceeded]
        gone = await ask(await rig.connect(), deletion, 6)  # the same client, but a connection that is not muted
        assert errors_of(gone.responses) == [exceeded]
        assert gone.responses[0].topic_id == made.topics[0].topic_id
        assert errors_of((await ask(connection, deletion, 6)).responses) == [0]

    play(story)


def test_clients_that_do_not_know_the_error_are_let_through_and_silenced() -> None:
    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await set_quota(admin, {"client-id": "c"}, controller_mutation_rate=1)
        made = await ask(connection, creation("a", "b", "c"), 5)
        assert errors_of(made.topics) == [0, 0, 0]
        assert 7000 - SOON_MS < made.throttle_time_ms <= 7000
        assert await rig.served_ms(connection) > 7000 - SOON_MS

    play(story)


def test_topics_that_are_made_because_they_were_asked_for_count() -> None:
    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await set_quota(admin, {"client-id": "c"}, controller_mutation_rate=1)
        await ask(connection, creation("a", partitions=12), 7)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        answer = await ask(connection, asked, 9)
        assert errors_of(answer.topics) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert answer.throttle_time_ms == 0
        assert errors_of((await ask(admin, asked, 9)).topics) == [0]

    play(story, auto_create_topics_enable="true")


def test_a_quota_that_is_taken_away_is_gone_at_once() -> None:
    async def story(rig: Throttled) -> None:
        admin, connection = await rig.connect("admin"), await rig.connect()
        await set_quota(admin, ANYBODY, producer_byte_rate=1)
        await set_quota(admin, ANYBODY, producer_byte_rate=None)
        answer = await ask(connection, produce(20_000), 9)
        assert answer.throttle_time_ms == 0

    play(story)


def test_quotas_outlive_the_broker() -> None:
    async def story(rig: Throttled) -> None:
        await set_quota(await rig.connect("admin"), ANYBODY, producer_byte_rate=1000)
        rig.place.broker.kill()
        await rig.place.restart()
        answer = await ask(await rig.connect(), produce(20_000), 9)
        assert answer.throttle_time_ms > 9_000

    play(story)


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_nobody_waits_for_one_who_is_muted(how: str) -> None:
    async def story(rig: Throttled) -> None:
        await set_quota(await rig.connect("admin"), ANYBODY, producer_byte_rate=1)
        connection = await rig.connect()
        assert (await ask(connection, produce(20_000), 9)).throttle_time_ms > 1_000_000
        assert await rig.took_ms(rig.place.end(how)) < 1000
        assert connection.is_lost or await rig.took_ms(connection.wait_until_lost()) < SOON_MS

    play(story)


def test_one_who_is_muted_for_longer_than_it_may_be_idle_is_closed() -> None:
    async def story(rig: Throttled) -> None:
        await set_quota(await rig.connect("admin"), ANYBODY, producer_byte_rate=1)
        connection = await rig.connect()
        await ask(connection, produce(20_000), 9)
        assert await rig.took_ms(connection.wait_until_lost()) < 5_000

    play(story, connections_max_idle_ms="2000")


def records_size(answer: Any) -> int:
    return sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)
