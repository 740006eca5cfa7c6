"""Turns: one task at a time in a partition, from the number at which the one before ended; and over real sockets."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from spark_connector.errors import BadRows, BatchIncomplete, TurnRefused
from spark_connector.sink.places import Places
from spark_connector.sink.turn_sender import TurnSender
from spark_connector.sink.turn_server import TurnServer, TurnsOfTask
from spark_connector.sink.turns import Turns
from tallystick.client.lease import Lease
from tallystick.client.sender import Queued
from tests.harness.confluent import wait_until

NEVER_S = 1e6


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def asking(threads: ThreadPoolExecutor, turns: Turns, task: int, *places: int) -> "Future[dict[int, int]]":
    """A task that waits for its turn."""
    tickets = len(turns._waiting)
    asked = threads.submit(turns.take, task, 10 + task, {}, places)
    wait_until(lambda: len(turns._waiting) > tickets, "a task that waits")
    return asked


def test_the_next_turn_begins_where_the_one_before_has_ended(threads: ThreadPoolExecutor) -> None:
    turns = Turns(NEVER_S)
    assert turns.take(0, 10, {}, [3, 5]) == {3: 0, 5: 0}
    second = asking(threads, turns, 1, 3)
    assert turns.take(0, 10, {3: 7, 5: 2}, []) == {}
    assert second.result() == {3: 7}
    turns.done(1, 11, {3: 1})
    assert turns.complete({0: (10, 9), 1: (11, 1), 2: (99, 0)}) == {3: 8, 5: 2}


def test_what_is_free_is_given_and_what_is_not_is_not_waited_for() -> None:
    turns = Turns(NEVER_S)
    assert turns.take(0, 10, {}, [0]) == {0: 0}
    assert turns.take(1, 11, {}, [0, 1, 2]) == {1: 0, 2: 0}


def test_who_asks_first_is_first(threads: ThreadPoolExecutor) -> None:
    """Not who gives back and asks again at once."""
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    second = asking(threads, turns, 1, 0)
    third = asking(threads, turns, 2, 0)
    first = threads.submit(turns.take, 0, 10, {0: 1}, [0])
    assert second.result() == {0: 1}
    turns.take(1, 11, {0: 1}, [])
    assert third.result() == {0: 2}
    turns.take(2, 12, {0: 1}, [])
    assert first.result() == {0: 3}


def test_sequence_numbers_begin_anew_after_31_bits() -> None:
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    assert turns.take(0, 10, {0: 0x7FFFFFFF}, [0]) == {0: 0x7FFFFFFF}
    assert turns.take(0, 10, {0: 3}, [0]) == {0: 2}
    assert turns.take(0, 10, {0: 1}, []) == {}
    assert turns.complete({0: (10, (1 << 31) + 3)}) == {0: (1 << 31) + 3}


def test_another_attempt_of_a_task_that_had_a_turn_is_refused_and_harms_nobody() -> None:
    turns = Turns(NEVER_S)
    assert turns.take(0, 10, {}, [0]) == {0: 0}
    with pytest.raises(TurnRefused, match="another attempt of task 0"):
        turns.take(0, 20, {}, [1])
    turns.gone(0, 20)
    turns.done(0, 10, {0: 4})
    turns.gone(0, 10)
    assert turns.complete({0: (10, 4)}) == {0: 4}


def test_a_second_attempt_writes_where_the_first_has_had_no_turn() -> None:
    turns = Turns(NEVER_S)
    turns.gone(0, 10)
    assert turns.take(0, 20, {}, [0]) == {0: 0}
    with pytest.raises(TurnRefused):
        turns.take(0, 10, {}, [0])


def test_a_task_that_is_lost_with_its_turn_fails_the_batch(threads: ThreadPoolExecutor) -> None:
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    waiting = asking(threads, turns, 1, 0)
    turns.gone(0, 10)
    with pytest.raises(BatchIncomplete, match="task 0 was lost"):
        waiting.result()
    with pytest.raises(BatchIncomplete, match="task 0 was lost"):
        turns.complete({1: (11, 0)})


def test_a_task_that_is_lost_between_two_turns_fails_the_batch() -> None:
    """What it has written is there, the rest of its rows is not; and no other attempt may write them."""
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    turns.take(0, 10, {0: 1}, [])
    turns.gone(0, 10)
    with pytest.raises(BatchIncomplete):
        turns.take(1, 11, {}, [1])


def test_a_turn_that_is_kept_for_too_long_fails_the_batch() -> None:
    now = [100.0]
    turns = Turns(30.0, clock=lambda: now[0])
    turns.take(0, 10, {}, [0])
    now[0] = 130.0
    with pytest.raises(BatchIncomplete, match="task 0 has not given its turn back within 30 s"):
        turns.take(1, 11, {}, [0])


@pytest.mark.parametrize(
    "results",
    [{}, {0: (20, 4)}, {0: (10, 3)}, {0: (10, 4), 1: (11, 1)}],
    ids=["none", "another attempt's", "of fewer records", "of a task that did not write"],
)
def test_results_that_are_not_those_of_the_writers_are_refused(results: dict[int, tuple[int, int]]) -> None:
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    turns.done(0, 10, {0: 4})
    with pytest.raises(BatchIncomplete, match="an attempt was lost"):
        turns.complete(results)


def test_a_turn_that_is_out_is_not_committed_over() -> None:
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    turns.take(0, 10, {0: 4}, [1])
    with pytest.raises(BatchIncomplete):
        turns.complete({0: (10, 4)})


@pytest.mark.parametrize(("task", "attempt", "place"), [(1, 11, 0), (0, 20, 0), (0, 10, 1)])
def test_nobody_gives_back_what_is_not_theirs(task: int, attempt: int, place: int) -> None:
    turns = Turns(NEVER_S)
    turns.take(0, 10, {}, [0])
    turns.take(1, 11, {}, [1])
    with pytest.raises(ValueError, match="does not have"):
        turns.take(task, attempt, {place: 1}, [])


@pytest.fixture
def server() -> Iterator[TurnServer]:
    made = TurnServer("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


def run(story: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story(), 60))


async def writing(server: TurnServer, turns: Turns, task: int, rounds: int, log: list[tuple[int, int, int]]) -> None:
    mine = TurnsOfTask.of(server.address, turns.token, task, 10 + task)
    back: dict[int, int] = {}
    for _ in range(rounds):
        begins = await mine.take(back, range(4))
        log.extend((place, sequence, 1 + task) for place, sequence in begins.items())
        back = dict.fromkeys(begins, 1 + task)
        await asyncio.sleep(0)
    await mine.take(back, [])
    await mine.done()
    await mine.close()


def test_many_tasks_at_once_share_out_all_sequence_numbers(server: TurnServer) -> None:
    """In each partition the turns lie one behind the other, without a gap and without an overlap."""
    log: list[tuple[int, int, int]] = []

    async def story() -> None:
        await asyncio.gather(*(writing(server, turns, task, 20, log) for task in range(8)))

    with server.opened(NEVER_S) as turns:
        run(story)
        records = turns.complete({task: (10 + task, written) for task, (_, written) in turns.written.items()})
    for place in range(4):
        following = 0
        for _, sequence, count in sorted(one for one in log if one[0] == place):
            assert sequence == following
            following += count
        assert records[place] == following
    assert {task for task, _ in turns.written.items()} == set(range(8))


def test_a_connection_that_ends_is_a_task_that_is_lost(server: TurnServer) -> None:
    async def story() -> None:
        first, second = (TurnsOfTask.of(server.address, turns.token, task, task) for task in range(2))
        assert await first.take({}, [0]) == {0: 0}
        await first.close()
        with pytest.raises(BatchIncomplete, match="task 0 was lost"):
            await second.take({}, [0])
        await second.close()

    with server.opened(NEVER_S) as turns:
        run(story)
        wait_until(lambda: turns.failure, "the failure of the batch")


def test_what_stopped_a_task_reaches_the_others_and_the_driver(server: TurnServer) -> None:
    async def story() -> None:
        first, second = (TurnsOfTask.of(server.address, turns.token, task, task) for task in range(2))
        await first.take({}, [0])
        await first.failed(BadRows("no value"))
        await first.close()
        with pytest.raises(BadRows, match="no value"):
            await second.take({}, [0])
        await second.close()

    with server.opened(NEVER_S) as turns:
        run(story)
        with pytest.raises(BadRows, match="no value"):
            turns.complete({})


def test_a_zombie_of_an_earlier_lease_is_refused(server: TurnServer) -> None:
    """Whether it has asked before or not; the next lease's turns are none of its business."""

    async def story() -> None:
        early, late = (TurnsOfTask.of(server.address, first.token, task, task) for task in range(2))
        assert await early.take({}, [0]) == {0: 0}
        until_the_next_lease.close()
        with server.opened(NEVER_S) as second:
            for zombie in (early, late):
                with pytest.raises(TurnRefused, match="the batch is over"):
                    await zombie.take({}, [1])
                await zombie.close()
            assert second.written == {}
            assert second.failure is None

    with ExitStack() as until_the_next_lease:
        first = until_the_next_lease.enter_context(server.opened(NEVER_S))
        run(story)


def test_who_waits_when_the_batch_ends_is_refused(server: TurnServer, threads: ThreadPoolExecutor) -> None:
    with server.opened(NEVER_S) as turns:
        turns.take(0, 10, {}, [0])
        waiting = asking(threads, turns, 1, 0)
    with pytest.raises(TurnRefused, match="the batch is over"):
        waiting.result()


@pytest.mark.parametrize("nonsense", [b"\n", b"[]\n", b"{}\n", b'{"token": 1}\n', b"\xff\n", b'{"token": "x'])
def test_nonsense_is_not_answered_and_harms_nobody(server: TurnServer, nonsense: bytes) -> None:
    with server.opened(NEVER_S) as turns:
        with socket.create_connection(server.address) as stranger:
            stranger.sendall(nonsense)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        run(lambda: TurnsOfTask.of(server.address, turns.token, 0, 10).take({}, [0]))


def test_a_driver_that_is_gone_is_named() -> None:
    server = TurnServer("127.0.0.1", "127.0.0.1")
    server.close()
    with pytest.raises(TurnRefused, match=r"spark\.driver\.host"):
        run(lambda: TurnsOfTask.of(server.address, "x", 0, 0).take({}, [0]))


def test_a_task_without_rows_says_nothing() -> None:
    """It needs no driver."""
    server = TurnServer("127.0.0.1", "127.0.0.1")
    server.close()
    run(TurnsOfTask.of(server.address, "x", 0, 0).done)


def test_the_turn_that_is_out_for_longest_is_waited_for_no_longer() -> None:
    now_s = 0.0
    turns = Turns(10, clock=lambda: now_s)
    turns.take(0, 10, {}, [1])
    now_s = 9.0
    turns.take(1, 11, {}, [2])
    assert turns._until_the_oldest_is_lost(frozenset({1, 2})) == 1
    now_s = 10.5
    assert turns._until_the_oldest_is_lost(frozenset({2})) == 8.5 and turns.failure is None
    assert turns._until_the_oldest_is_lost(frozenset({1, 2})) == 0
    assert "task 0 has not given its turn back" in str(turns.failure)


def test_a_round_is_no_larger_than_three_mebibytes() -> None:
    """But for one batch that is larger by itself."""
    nobody: Any = None

    def firsts(*sizes: int) -> list[int]:
        sender = TurnSender(
            nobody, Lease("s", 1, 0, True), Places([("t", 3)]).place_of, nobody, patience_s=1, room_bytes=1
        )
        for partition, size in enumerate(sizes):
            sender._queues["t", partition] = deque([Queued(("t", partition), bytearray(size), 1)])
        return list(sender._firsts())

    assert firsts(1, 1, 1) == [0, 1, 2]
    assert firsts(2 << 20, 1 << 20, 1) == [0, 1]
    assert firsts(17 << 20, 1) == [0]
