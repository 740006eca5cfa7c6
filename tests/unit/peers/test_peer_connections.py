"""Asking other nodes: what goes on one connection, and what becomes of those who wait when something goes wrong."""

import asyncio
from collections.abc import Callable

import pytest

from broker.peers.connection import MOST_ANSWER_BYTES
from broker.peers.port import PeerUnreachable
from protocol.messages.header import RequestHeader
from tests.unit.peers.rig import Heard, Rig, announced, play, reply


async def refusals(waiting: "list[asyncio.Task[int]]") -> list[str]:
    """What each is told; all have to be refused."""
    problems = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, PeerUnreachable) for one in problems), problems
    return [str(one) for one in problems]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_question_is_answered_in_any_version(version: int) -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, _: reply(header, 7))
        assert await rig.beat(version=version) == 7
        (connection,) = rig.connections
        (header,) = connection.requests
        assert (header.client_id, header.request_api_version) == ("node-1", version)

    play(story)


def test_many_share_one_connection_and_each_gets_its_own_answer() -> None:
    """All are asked before the first answer, and the answers come in one piece."""
    held: list[bytes] = []

    def answer(header: RequestHeader, _: Heard) -> bytes:
        held.append(reply(header, len(held)))
        return b"" if len(held) < 20 else b"".join(held)

    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        assert await asyncio.gather(*rig.asking(20)) == list(range(20))
        assert len(rig.connections) == 1

    play(story)


def test_an_answer_may_come_byte_by_byte() -> None:
    def answer(header: RequestHeader, heard: Heard) -> bytes:
        for byte in reply(header, 5):
            heard.transport.write(bytes((byte,)))
        return b""

    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        assert await rig.beat() == 5

    play(story)


@pytest.mark.parametrize("goes_when", ["before the connection is there", "before it is answered"])
def test_one_who_goes_away_takes_nothing_from_the_others(goes_when: str) -> None:
    held: list[bytes] = []

    def answer(header: RequestHeader, _: Heard) -> bytes:
        held.append(reply(header, len(held)))
        return b"" if len(held) < len(expected) else b"".join(held)

    expected = [0, 1] if goes_when == "before the connection is there" else [1, 2]
    if goes_when == "before it is answered":
        expected = [0, 1, 2]

    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        first, *others = rig.asking(3)
        await asyncio.sleep(0)
        if goes_when == "before it is answered":
            while not held:
                await asyncio.sleep(0.0001)
        first.cancel()
        assert await asyncio.gather(*others) == expected[-2:]
        assert first.cancelled() and len(rig.connections) == 1

    play(story)


def wrong_correlation_id(header: RequestHeader, _: Heard) -> bytes:
    return reply(header, correlation_id=99)


def too_large(_: RequestHeader, __: Heard) -> bytes:
    return announced(MOST_ANSWER_BYTES + 1)


def of_negative_length(_: RequestHeader, __: Heard) -> bytes:
    return announced(-1)


def cut_short(header: RequestHeader, _: Heard) -> bytes:
    return announced(6) + reply(header)[4:10]


def half_and_closed(header: RequestHeader, heard: Heard) -> bytes | None:
    heard.transport.write(reply(header)[:-3])
    return None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda header, _: None, "closed the connection"),
        (half_and_closed, "closed the connection"),
        (wrong_correlation_id, "answers 99 where 0 is due"),
        (too_large, f"announces an answer of {MOST_ANSWER_BYTES + 1} bytes"),
        (of_negative_length, "announces an answer of -1 bytes"),
        (cut_short, "answers what cannot be read"),
    ],
)
def test_a_node_that_answers_wrongly_is_left_and_all_who_wait_are_told(
    answer: Callable[[RequestHeader, Heard], bytes | None], told: str
) -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, answer)
        problems = await refusals(rig.asking(3))
        assert all(one.startswith("node 2 (10.0.0.1:9092) ") and told in one for one in problems), problems
        await asyncio.sleep(1)
        assert [one.is_gone for one in rig.connections] == [True]

    play(story)


def test_what_nobody_asked_for_ends_the_connection() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, _: reply(header) * 2)
        assert await rig.beat() == 0
        await asyncio.sleep(1)
        assert await rig.beat() == 0
        assert rig.connections[0].is_gone and len(rig.connections) == 2

    play(story)


def test_the_largest_answer_is_waited_for() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: announced(MOST_ANSWER_BYTES))
        (waiting,) = rig.asking()
        await asyncio.sleep(29)
        assert not waiting.done() and not rig.connections[0].is_gone
        waiting.cancel()

    play(story)


def test_a_node_that_does_not_answer_in_time_is_left() -> None:
    """Others who came later wait no longer than the first: nothing that comes behind its answer would be theirs."""

    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: b"")
        began_s = rig.scheduler.now
        first = rig.asking()
        await asyncio.sleep(3)
        problems = await refusals([*first, *rig.asking(2)])
        assert problems == ["node 2 (10.0.0.1:9092) did not answer in 5 s"] * 3
        assert 5 <= rig.scheduler.now - began_s < 5.1
        await asyncio.sleep(1)
        assert rig.connections[0].is_gone

    play(story, {"request.timeout.ms": "5000"})


def test_patience_is_of_each_request_and_not_of_the_connection() -> None:
    """Answers that each take three of five seconds are waited for, for as long as there are any."""

    def late(header: RequestHeader, heard: Heard) -> bytes:
        asyncio.get_running_loop().call_later(3, heard.transport.write, reply(header))
        return b""

    async def story(rig: Rig) -> None:
        rig.start(2, late)
        for _ in range(4):
            waiting = rig.asking()
            await asyncio.sleep(2)
            waiting += rig.asking()
            assert await asyncio.gather(*waiting) == [0, 0]
        assert len(rig.connections) == 1

    play(story, {"request.timeout.ms": "5000"})


def test_patience_begins_with_a_request_though_others_were_answered_before() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, heard: reply(header) if len(heard.requests) == 1 else b"")
        assert await rig.beat() == 0
        await asyncio.sleep(3)
        began_s = rig.scheduler.now
        assert await refusals(rig.asking()) == ["node 2 (10.0.0.1:9092) did not answer in 5 s"]
        assert 5 <= rig.scheduler.now - began_s < 5.1

    play(story, {"request.timeout.ms": "5000"})


def test_the_next_question_behind_a_broken_connection_goes_on_a_new_one() -> None:
    answered: list[RequestHeader] = []

    def first_only(header: RequestHeader, heard: Heard) -> bytes | None:
        answered.append(header)
        return reply(header, len(answered)) if len(heard.requests) == 1 else None

    async def story(rig: Rig) -> None:
        rig.start(2, first_only)
        assert await rig.beat() == 1
        await refusals(rig.asking(2))
        assert await rig.beat() == 4, "at once: this node does answer"
        assert len(rig.connections) == 2

    play(story)


def test_a_node_that_is_not_there_is_not_tried_at_every_question() -> None:
    async def story(rig: Rig) -> None:
        rig.place(2, 9092)
        tried = 0
        connect = rig.network.connect

        async def counted(*arguments: object) -> object:
            nonlocal tried
            tried += 1
            return await connect(*arguments)  # type: ignore[arg-type]

        rig.network.connect = counted  # type: ignore[method-assign, assignment]
        for _ in range(10_000):
            (problem,) = await refusals(rig.asking())
            assert "nobody listens" in problem
            await asyncio.sleep(0.001)
        # After 50, 100, 200, 400, 800 ms, and then each second.
        assert 12 <= tried <= 14
        rig.start(2, lambda header, _: reply(header))
        await asyncio.sleep(1)
        assert await rig.beat() == 0

    play(story)


def test_a_node_that_has_answered_is_tried_again_soon_when_it_is_gone() -> None:
    async def story(rig: Rig) -> None:
        rig.place(2, 9092)
        for _ in range(5000):
            await refusals(rig.asking())
            await asyncio.sleep(0.001)
        rig.start(2, lambda header, heard: reply(header) if len(heard.requests) == 1 else None)
        await asyncio.sleep(1)
        assert await rig.beat() == 0
        listening = rig.network._listeners.pop(9092)
        await refusals(rig.asking())  # the connection breaks
        await refusals(rig.asking())  # there is no other
        rig.network._listeners[9092] = listening
        await asyncio.sleep(0.06)
        assert await rig.beat() == 0, "after 50 ms, and not after the second that it had come to"

    play(story)


def test_a_connection_that_is_about_to_break_is_not_used_any_more(caplog: pytest.LogCaptureFixture) -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, heard: reply(header) if len(heard.requests) == 1 else b"")
        assert await rig.beat() == 0
        late = rig.asking()
        await asyncio.sleep(1)
        rig.network.cut_one()
        assert await rig.beat() == 0
        assert len(rig.connections) == 2 and "closes the connection" in (await refusals(late))[0]
        await asyncio.sleep(1)
        assert not [one for one in caplog.records if one.getMessage() == "a node cannot be asked"]

    play(story)


def test_a_node_that_takes_connections_and_answers_nothing_is_not_stormed_either() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: None)
        for _ in range(2000):
            await refusals(rig.asking())
            await asyncio.sleep(0.001)
        assert 5 <= len(rig.connections) <= 7

    play(story)


def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    async def story(rig: Rig) -> None:
        rig.place(2, 9092)

        async def silent(*_: object) -> object:
            return await asyncio.get_running_loop().create_future()

        rig.network.connect = silent  # type: ignore[method-assign, assignment]
        began_s = rig.scheduler.now
        assert await refusals(rig.asking(2)) == ["node 2 (10.0.0.1:9092) did not take a connection in 10 s"] * 2
        assert 10 <= rig.scheduler.now - began_s < 10.1

    play(story)


def test_a_node_that_has_moved_is_asked_where_it_is() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, heard: reply(header, 1) if len(heard.requests) == 1 else b"")
        assert await rig.beat() == 1
        left = rig.asking(2)
        await asyncio.sleep(1)
        rig.start(2, lambda header, _: reply(header, 2), port=9093)
        assert await rig.beat() == 2
        assert await refusals(left) == ["node 2 (10.0.0.1:9092) has another address now"] * 2
        await asyncio.sleep(1)
        assert [one.is_gone for one in rig.connections] == [True, False]

    play(story)


def test_who_waits_for_a_node_that_stands_still_is_told_when_it_is_gone() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, heard: b"")
        left = rig.asking(2)
        await asyncio.sleep(1)
        rig.peers.addresses_changed()
        await asyncio.sleep(1)
        assert not any(one.done() for one in left), "it is where it was"
        del rig.addresses[2]
        rig.peers.addresses_changed()
        assert await refusals(left) == ["node 2 (10.0.0.1:9092) has no address any more"] * 2

    play(story)


def test_a_node_that_moves_while_it_is_connected_to_is_asked_where_it_is() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, _: reply(header, 1))
        left = rig.asking(2)
        await asyncio.sleep(0)
        rig.start(2, lambda header, _: reply(header, 2), port=9093)
        assert await rig.beat() == 2
        assert await refusals(left) == ["node 2 (10.0.0.1:9092) has another address now"] * 2

    play(story)


def test_a_node_that_nobody_knows_is_not_asked() -> None:
    async def story(rig: Rig) -> None:
        assert await refusals(rig.asking()) == ["nobody knows where node 2 is"]
        rig.start(2, lambda header, _: reply(header))
        assert await rig.beat() == 0
        del rig.addresses[2]
        assert await refusals(rig.asking()) == ["nobody knows where node 2 is"]
        await asyncio.sleep(1)
        assert rig.connections[0].is_gone

    play(story)


def test_nodes_have_connections_of_their_own() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: b"", port=9092)
        rig.start(3, lambda header, _: reply(header, 3), port=9093)
        silent = rig.asking()
        assert await rig.beat(3) == 3
        assert not silent[0].done()
        await rig.peers.close()
        assert "this node ends" in (await refusals(silent))[0]

    play(story)


@pytest.mark.parametrize("is_connected", [True, False])
def test_who_waits_when_this_node_ends_is_told(is_connected: bool) -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda _, __: b"")
        waiting = rig.asking(2)
        await asyncio.sleep(1 if is_connected else 0)
        await rig.peers.close()
        assert all("this node ends" in one for one in await refusals([*waiting, *rig.asking()]))
        assert [one.is_gone for one in rig.connections] in ([], [False], [True])

    play(story)
