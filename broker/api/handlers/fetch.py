"""Fetch: record batches out of partitions, as they lie in the log."""

import asyncio
from typing import Final

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.fetching.fetch_attempt import NO_TOPIC_ID, FetchAttempt, FetchServices
from broker.api.fetching.fetch_session import Wanted
from broker.api.fetching.fetch_sessions import FetchView
from broker.api.fetching.fetched_partitions import Reading
from broker.api.permissions.of_records import FETCH, readable
from broker.api.waiting import Movements
from broker.partitions.topic import Topic
from broker.process.steps import run_steps
from broker.process.time_slice import TimeSlice
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse

AT_ONCE: Final = 500
"""Partitions that are looked at in one turn; a fetch of more takes turns with others."""
ROUNDS = 100
"""How often a fetch has something brought before what is there will do: others may take its place in memory."""


@handles(FetchRequest, FetchResponse, versions=range(4, 19), guard=FETCH)
def fetch(
    services: FetchServices, context: RequestContext, request: FetchRequest
) -> "FetchResponse | asyncio.Future[FetchResponse]":
    """Read from partitions, from a given offset each.

    Answers at once when `min_bytes` are there, when a partition has an error, or when nothing is requested;
    otherwise when enough has become visible or `max_wait_ms` have passed. A reader sees what is below the high
    watermark, with READ_COMMITTED what is below the last stable offset and the aborted transactions in it. The first
    partition with anything to read gives at least one batch, however small the limits (KIP-74), and a negative one is
    as 0; batches are whole and may begin before the offset asked for. v5 log start offset; v7 sessions (KIP-227); v9
    leader epochs are checked (KIP-320); v11 readers of another rack are sent to a node of theirs, which
    reads from the store (KIP-392: `replica.selector.class`); v12 diverging epochs; v13 topic ids; v16 node endpoints of
    new leaders.

    Not done: followers (`replica_id` is ignored), remote storage.
    """
    if services.topics.to_open.any_left or _names_many(request):
        return _begin_large(services, context, request, None)
    who, now_ms = context.connection, services.environment.monotonic_ms()
    view = services.fetch_sessions.view(request, context.api_version, now_ms, who.connection_id, who.principal)
    if view.error:
        return FetchResponse(error_code=view.error, session_id=0, responses=[])
    may_read = readable(services, context, request)
    view.has_rights(None if may_read is None else may_read.state)
    if view.due_count > AT_ONCE:
        return _begin_large(services, context, request, view)
    attempt = FetchAttempt(services, context, request, view, may_read)
    reading = attempt.read()
    if reading.away:
        return _begin_large(services, context, request, view)
    if attempt.enough(reading) or request.max_wait_ms <= 0 or view.of_nothing:
        return attempt.answer(reading)
    if services.config.store:  # What moves meanwhile may be away when it is looked at.
        return _begin_large(services, context, request, view)
    return services.waiting.park(reading.watched, attempt.again, request.max_wait_ms)


def _names_many(request: FetchRequest) -> bool:
    named = sum([1 + len(topic.partitions) for topic in request.topics])
    return named + sum([1 + len(topic.partitions) for topic in request.forgotten_topics_data]) > AT_ONCE


def _begin_large(
    services: FetchServices, context: RequestContext, request: FetchRequest, view: FetchView | None
) -> "asyncio.Future[FetchResponse]":
    """A fetch of many partitions, or while logs are being opened, in slices of time. Who cancels the future (a client
    that is gone) ends it."""
    answer: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
    large = _large(services, context, request, view)
    if context.charge is not None:
        large = context.charge.timed(large)
    work = asyncio.get_running_loop().create_task(large)

    def finished(done: "asyncio.Task[FetchResponse]") -> None:
        if context.connection.is_lost:  # a session that was made or continued for a client that was gone by then
            services.fetch_sessions.connection_closed(context.connection.connection_id)
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    work.add_done_callback(finished)
    answer.add_done_callback(lambda _: work.cancel())
    return answer


async def _large(
    services: FetchServices, context: RequestContext, request: FetchRequest, view: FetchView | None
) -> FetchResponse:
    slice_, now_ms = services.environment.time_slice(), services.environment.monotonic_ms
    deadline_ms = now_ms() + request.max_wait_ms
    if view is None:
        sessions, version, who = services.fetch_sessions, context.api_version, context.connection
        view = await run_steps(
            services.environment,
            lambda spent: sessions.viewing(request, version, now_ms(), who.connection_id, spent, who.principal),
            slice_=slice_,
        )
    if view.error:
        return FetchResponse(error_code=view.error, session_id=0, responses=[])
    may_read = readable(services, context, request)
    view.has_rights(None if may_read is None else may_read.state)
    if services.topics.to_open.any_left:
        await services.topics.to_open.wait_a_moment((_topic(services, one), one.index) for one in view.due())
    attempt = FetchAttempt(services, context, request, view, may_read)
    reading = await _read_large(services, attempt, slice_, deadline_ms)
    if attempt.is_throttled(reading):
        return attempt.nothing()
    topics: list[FetchableTopicResponse] = []
    for wanted, response in reading.responses:
        attempt.put(wanted, response, topics)
        if slice_.spent():
            await slice_.wait_for_turn()
    return attempt.whole(topics, reading)


async def _read_large(services: FetchServices, attempt: FetchAttempt, slice_: TimeSlice, deadline_ms: int) -> Reading:
    """What is there when that is enough, or when the time is over. Where memory does not hold all that is wanted, what
    was brought for one partition is gone when that of another has come: after some rounds, what is there will do."""
    unreachable: list[Wanted] = []
    rounds = 0
    while True:
        reading = Reading()
        room = attempt.room()
        with Movements() as movements:
            attempt.begin_watching(movements.add)
            for wanted in attempt.wanted():
                attempt.look_at(wanted, reading, room, movements.add)
                if slice_.spent():
                    await slice_.wait_for_turn()
            will_do = rounds >= ROUNDS and reading.size_bytes
            was_brought = bool(reading.away) and not will_do and await reading.bring(unreachable)
            left_ms = deadline_ms - services.environment.monotonic_ms()
            ready = attempt.enough(reading) or left_ms <= 0 or services.waiting.closed
            if not (was_brought or ready):
                await services.waiting.park([movements], lambda last: True, left_ms)
        if was_brought:
            rounds += 1
        elif ready:
            return reading


def _topic(services: FetchServices, wanted: Wanted) -> Topic | None:
    topics = services.topics
    return topics.by_name(wanted.topic) if wanted.topic_id == NO_TOPIC_ID else topics.by_id(wanted.topic_id)
