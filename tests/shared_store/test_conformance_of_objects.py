"""Every sentence of the port to a shared store, told to the model and to each engine: objects, what became of commits,
what is forgotten, and what nobody who has no bug asks for.
"""

import pytest

from storage.shared.store import LogChange, ObjectLost, ObjectMissing, OwnedLog, StoredRun
from tests.shared_store.engines import (
    LONG_MS,
    OTHER_TOPIC,
    TOPIC,
    Engine,
    Shared,
    appended,
    born,
    object_of,
    read_of,
    stretch,
    told,
    trimmed,
)

DATA = [b"0123456789"]


@told
async def test_a_settled_commit_says_again_what_it_said(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    refused = await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 2), LogChange(99, 0, 0)])
    assert refused == {99}
    assert await shared.store.settle(who, object_of(who, 1)) == refused
    assert await shared.store.settle(who, object_of(who, 1)) == refused
    assert await shared.store.commit(who, object_of(who, 2), DATA, [appended(log, 1, at=2)]) == frozenset()
    assert await shared.store.settle(who, object_of(who, 2)) == frozenset()
    assert await read_of(shared.store, object_of(who, 1), 0, 10) == b"0123456789"


@told
async def test_a_commit_that_was_given_up_is_never_made(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    assert await shared.store.settle(who, object_of(who, 1)) is None
    with pytest.raises(AssertionError):
        await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 1)])
    assert await shared.store.claim(who, TOPIC, 0, 0) == log
    assert await shared.store.runs(log.log_id, 0, 10) == []
    assert await shared.store.settle(who, object_of(who, 1)) is None
    with pytest.raises(ObjectMissing):
        await read_of(shared.store, object_of(who, 1), 0, 1)
    await shared.forward(LONG_MS)
    assert await shared.store.collect(0, 10) == 0
    assert await shared.store.settle(who, object_of(who, 1)) is None
    assert await shared.store.commit(who, object_of(who, 2), DATA, [appended(log, 1)]) == frozenset()


@told
async def test_an_object_is_made_once(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 1)])
    with pytest.raises(AssertionError):
        await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 1, at=1)])
    assert (await shared.store.claim(who, TOPIC, 0, 0)).next_offset == 1


@told
async def test_an_object_is_called_after_who_makes_it(shared: Shared) -> None:
    first = await born(shared.store)
    second = await born(shared.store)
    with pytest.raises(AssertionError):
        await shared.store.commit(second, object_of(first, 1), DATA, [])
    with pytest.raises(AssertionError):
        await shared.store.settle(second, object_of(first, 1))


@told
async def test_runs_are_found_from_an_offset_on(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    other = await shared.store.claim(who, TOPIC, 1, None)
    runs = [stretch(0, 10), stretch(10, 1), stretch(11, 5), stretch(16, 4)]
    await shared.store.commit(
        who, object_of(who, 1), DATA, [LogChange(log.log_id, 0, 0, tuple(runs[:2])), appended(other, 9)]
    )
    await shared.store.commit(who, object_of(who, 2), DATA, [LogChange(log.log_id, 0, 11, tuple(runs[2:]))])
    stored = [StoredRun(object_of(who, number), run) for number, run in zip((1, 1, 2, 2), runs, strict=True)]
    assert await shared.store.runs(log.log_id, 0, 10) == stored
    assert await shared.store.runs(log.log_id, 9, 10) == stored
    assert await shared.store.runs(log.log_id, 10, 10) == stored[1:]
    assert await shared.store.runs(log.log_id, 12, 1) == stored[2:3]
    assert await shared.store.runs(log.log_id, 15, 1) == stored[2:3]
    assert await shared.store.runs(log.log_id, 19, 10) == stored[3:]
    assert await shared.store.runs(log.log_id, 20, 10) == []
    assert await shared.store.runs(log.log_id, 0, 0) == []
    assert await shared.store.runs(1_000, 0, 10) == []


@told
async def test_what_lies_before_the_first_offset_is_forgotten(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    for number in range(3):
        await shared.store.commit(who, object_of(who, number), DATA, [appended(log, 10, at=10 * number)])
    straddling = LogChange(log.log_id, 0, 30, start_offset=17, first_offset=15)
    assert await shared.store.commit(who, object_of(who, 3), [], [straddling]) == frozenset()
    assert await shared.store.claim(who, TOPIC, 0, 0) == OwnedLog(log.log_id, 0, 15, 17, 30, b"")
    assert [one.run.base_offset for one in await shared.store.runs(log.log_id, 0, 10)] == [10, 20]
    to_the_end = LogChange(log.log_id, 0, 30, (stretch(30), stretch(31)), start_offset=32, first_offset=31)
    assert await shared.store.commit(who, object_of(who, 4), DATA, [to_the_end]) == frozenset()
    assert [one.run.base_offset for one in await shared.store.runs(log.log_id, 0, 10)] == [31]
    assert await shared.store.commit(who, object_of(who, 5), [], [trimmed(log, 32, 32)]) == frozenset()
    assert await shared.store.runs(log.log_id, 0, 10) == []
    assert (await shared.store.claim(who, TOPIC, 0, 0)).next_offset == 32


@told
async def test_a_refused_change_forgets_nothing(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 10)])
    await shared.store.commit(who, object_of(who, 2), [], [trimmed(log, 9, 9)])
    await shared.store.commit(who, object_of(who, 3), [], [LogChange(log.log_id, 1, 10, (), 10, 10)])
    assert len(await shared.store.runs(log.log_id, 0, 10)) == 1
    assert await shared.store.claim(who, TOPIC, 0, 0) == OwnedLog(log.log_id, 0, 0, 0, 10, b"")


@told
async def test_a_refused_change_replaces_nothing(shared: Shared) -> None:
    """Nor does what it brings in their place come to be there."""
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    await shared.store.commit(who, object_of(who, 1), DATA, [appended(log, 10)])
    before = await shared.store.runs(log.log_id, 0, 10)
    wrong = LogChange(log.log_id, 1, 10, replaced=(0, 9), replacements=(stretch(0, 10),))
    assert await shared.store.commit(who, object_of(who, 2), DATA, [wrong]) == {log.log_id}
    assert await shared.store.runs(log.log_id, 0, 10) == before
    await shared.forward(2 * LONG_MS)
    await shared.store.commit(who, object_of(who, 3), [], [])
    assert await shared.store.collect(LONG_MS, 10) == 1, "that is the second; the first is held"
    assert await read_of(shared.store, object_of(who, 1), 0, 10) == b"0123456789"


@told
async def test_objects_are_removed_when_no_log_has_held_a_run_for_long(shared: Shared) -> None:
    who = await born(shared.store)
    first, second = [await shared.store.claim(who, TOPIC, index, None) for index in (0, 1)]
    await shared.store.commit(who, object_of(who, 1), DATA, [appended(first, 1), appended(second, 1)])
    await shared.store.commit(who, object_of(who, 2), [], [trimmed(first, 1, 1)])
    await shared.forward(2 * LONG_MS)
    assert await shared.store.collect(LONG_MS, 10) == 0, "the second log holds a run, and 2 is the newest"
    await shared.store.commit(who, object_of(who, 3), DATA, [trimmed(second, 1, 1)])
    assert await shared.store.collect(LONG_MS, 10) == 1, "2 was without a run all the time"
    assert await read_of(shared.store, object_of(who, 1), 0, 10) == b"0123456789"
    await shared.forward(2 * LONG_MS)
    assert await shared.store.collect(LONG_MS, 10) == 1
    with pytest.raises(ObjectMissing):
        await read_of(shared.store, object_of(who, 1), 0, 10)
    assert await shared.store.settle(who, object_of(who, 3)) == frozenset()
    await shared.store.leave(who)
    assert await shared.store.collect(LONG_MS, 10) == 1


@told
async def test_few_objects_are_removed_at_a_time_the_oldest_first(shared: Shared) -> None:
    who = await born(shared.store)
    for number in range(5):
        await shared.store.commit(who, object_of(who, number), DATA, [])
    await shared.forward(2 * LONG_MS)
    assert await shared.store.collect(LONG_MS, 3) == 3
    assert await read_of(shared.store, object_of(who, 3), 0, 10) == b"0123456789"
    assert await shared.store.collect(LONG_MS, 3) == 1
    assert await shared.store.collect(LONG_MS, 3) == 0
    assert await read_of(shared.store, object_of(who, 4), 0, 10) == b"0123456789"


@told
async def test_the_newest_object_of_each_that_lives_stays_and_what_it_gave_up(shared: Shared) -> None:
    nodes = [await shared.store.join(node_id, b"") for node_id in (1, 2, 3)]
    for who in nodes:
        for number in (1, 2):
            assert await shared.store.commit(who, object_of(who, number), DATA, []) == frozenset()
        assert await shared.store.settle(who, object_of(who, 3)) is None
    await shared.store.fence(nodes[0], nodes[1], 0)
    await shared.forward(2 * LONG_MS)
    assert await shared.store.collect(LONG_MS, 10) == 4
    for who in (nodes[0], nodes[2]):
        assert await shared.store.settle(who, object_of(who, 2)) == frozenset()
        with pytest.raises(AssertionError):
            await shared.store.commit(who, object_of(who, 3), DATA, [])
    await shared.store.leave(nodes[0])
    assert await shared.store.collect(LONG_MS, 10) == 1
    assert await shared.store.settle(nodes[2], object_of(nodes[2], 2)) == frozenset()


@told
async def test_a_stretch_lies_within_its_object(shared: Shared) -> None:
    who = await born(shared.store)
    await shared.store.commit(who, object_of(who, 1), [b"01234", b"56789"], [])
    assert await read_of(shared.store, object_of(who, 1), 3, 4) == b"3456"
    with pytest.raises(ObjectLost, match=f"object {object_of(who, 1)}"):
        await read_of(shared.store, object_of(who, 1), 5, 6)
    with pytest.raises(ObjectMissing, match=f"object {object_of(who, 2)}"):
        await read_of(shared.store, object_of(who, 2), 0, 1)


@told
async def test_the_logs_of_a_deleted_topic_are_gone(shared: Shared) -> None:
    who = await born(shared.store)
    gone, also_gone = [await shared.store.claim(who, TOPIC, index, 4) for index in (0, 1)]
    stays = await shared.store.claim(who, OTHER_TOPIC, 0, 4)
    await shared.store.commit(who, object_of(who, 1), DATA, [appended(gone, 1, kept=b"kept"), appended(also_gone, 3)])
    await shared.store.commit(who, object_of(who, 2), DATA, [appended(gone, 1, at=1), appended(stays, 1)])
    await shared.store.forget(who, TOPIC)
    await shared.store.forget(who, TOPIC)
    assert await shared.store.runs(gone.log_id, 0, 10) == []
    assert await shared.store.runs(also_gone.log_id, 0, 10) == []
    assert len(await shared.store.runs(stays.log_id, 0, 10)) == 1
    changes = [appended(gone, 1, at=2), appended(stays, 1, at=1)]
    assert await shared.store.commit(who, object_of(who, 3), DATA, changes) == {gone.log_id}
    again = await shared.store.claim(who, TOPIC, 0, None)
    assert again == OwnedLog(again.log_id, 0, 0, 0, 0, b"")
    assert again.log_id not in (gone.log_id, also_gone.log_id, stays.log_id)
    await shared.forward(2 * LONG_MS)
    assert await shared.store.collect(LONG_MS, 10) == 1
    with pytest.raises(ObjectMissing):
        await read_of(shared.store, object_of(who, 1), 0, 10)
    assert await read_of(shared.store, object_of(who, 2), 0, 10) == b"0123456789"


@told
async def test_offsets_have_no_gaps(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    with pytest.raises(AssertionError, match="offsets have no gaps"):
        await shared.store.commit(
            who, object_of(who, 1), DATA, [LogChange(log.log_id, 0, 0, (stretch(0, 2), stretch(3, 1)))]
        )


@pytest.mark.parametrize(("start", "first"), [(3, None), (None, 1), (1, 2), (-1, -1)])
def test_a_log_begins_within_itself(engine: Engine, start: int | None, first: int | None) -> None:
    async def story(shared: Shared) -> None:
        who = await born(shared.store)
        log = await shared.store.claim(who, TOPIC, 0, None)
        with pytest.raises(AssertionError):
            change = LogChange(log.log_id, 0, 0, (stretch(0, 2),), start_offset=start, first_offset=first)
            await shared.store.commit(who, object_of(who, 1), DATA, [change])

    engine.tell(story)
