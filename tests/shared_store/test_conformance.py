"""Every sentence of the port to a shared store, told to the model and to each engine: nodes, hints, claims, commits."""

import asyncio
from dataclasses import replace

import pytest

from storage.shared.store import (
    Fenced,
    FoundLog,
    Incarnation,
    LogChange,
    NotOwned,
    ObjectMissing,
    OwnedLog,
    SharedStore,
    StoredRun,
    StoreRefused,
)
from tests.shared_store.engines import (
    LONG_MS,
    OTHER_TOPIC,
    TOPIC,
    Shared,
    appended,
    born,
    object_of,
    read_of,
    stretch,
    told,
)

MANY = 2_000
LONG_S = 10_000.0


@told
async def test_the_cluster_is_who_was_said_first(shared: Shared) -> None:
    assert await shared.store.cluster_id(None, "drawn") == "drawn"
    assert await shared.store.cluster_id(None, "drawn later") == "drawn"
    assert await (await shared.another_node()).cluster_id("drawn", "unused") == "drawn"
    with pytest.raises(StoreRefused, match="the store is of cluster drawn, not of another"):
        await shared.store.cluster_id("another", "unused")
    await shared.store.open()
    assert await shared.store.cluster_id(None, "drawn after that") == "drawn"


@told
async def test_a_cluster_may_be_given_its_name(shared: Shared) -> None:
    assert await shared.store.cluster_id("wanted", "drawn") == "wanted"
    assert await shared.store.cluster_id(None, "drawn") == "wanted"


@told
async def test_each_start_has_a_greater_number_and_fences_the_one_before(shared: Shared) -> None:
    first = await born(shared.store)
    log = await shared.store.claim(first, TOPIC, 0, None)
    second = await shared.store.join(1, b"")
    assert (first, second) == (Incarnation(1, 1), Incarnation(1, 2))
    message = "incarnation 1 of node 1 is over"
    with pytest.raises(Fenced, match=message):
        await shared.store.heartbeat(first)
    with pytest.raises(Fenced, match=message):
        await shared.store.claim(first, TOPIC, 0, None)
    with pytest.raises(Fenced, match=message):
        await shared.store.claim(first, TOPIC, 1, 5)
    with pytest.raises(Fenced, match=message):
        await shared.store.commit(first, object_of(first, 1), [b"late"], [appended(log, 1)])
    with pytest.raises(Fenced, match=message):
        await shared.store.settle(first, object_of(first, 1))
    with pytest.raises(Fenced, match=message):
        await shared.store.forget(first, TOPIC)
    assert await shared.store.runs(log.log_id, 0, 10) == []
    with pytest.raises(ObjectMissing):
        await read_of(shared.store, object_of(first, 1), 0, 1)
    await shared.store.heartbeat(second)


@told
async def test_a_number_belongs_to_its_node(shared: Shared) -> None:
    who = await born(shared.store)
    for stranger in (Incarnation(2, who.number), Incarnation(1, who.number + 1)):
        with pytest.raises(Fenced):
            await shared.store.heartbeat(stranger)
        with pytest.raises(Fenced):
            await shared.store.commit(stranger, object_of(stranger, 1), [], [])
        await shared.store.leave(stranger)
    await shared.store.heartbeat(who)


@told
async def test_who_has_left_is_over_and_does_nothing_any_more(shared: Shared) -> None:
    first = await born(shared.store, 1)
    await shared.store.leave(first)
    await shared.store.leave(first)
    with pytest.raises(Fenced):
        await shared.store.heartbeat(first)
    with pytest.raises(Fenced):
        await shared.store.commit(first, object_of(first, 1), [], [])
    second = await shared.store.join(2, b"")
    assert await living(shared) == [(second, b"")]
    assert await shared.store.fence(second, first, LONG_MS) is True
    await shared.store.leave(first)
    await shared.store.leave(Incarnation(2, 1))
    await shared.store.heartbeat(Incarnation(2, 2))


async def living(shared: Shared) -> list[tuple[Incarnation, bytes]]:
    return [(one.who, one.about) for one in await shared.store.members()]


@told
async def test_nodes_live_beside_each_other_and_a_node_lives_once(shared: Shared) -> None:
    assert await shared.store.members() == []
    second = await shared.store.join(2, b"of 2")
    first = await (await shared.another_node()).join(1, b"")
    assert (second, first) == (Incarnation(2, 1), Incarnation(1, 2))
    assert await living(shared) == [(first, b""), (second, b"of 2")]
    again = await shared.store.join(2, b"of 2, again")
    assert again == Incarnation(2, 3)
    assert await living(shared) == [(first, b""), (again, b"of 2, again")]
    with pytest.raises(Fenced, match="incarnation 1 of node 2 is over"):
        await shared.store.heartbeat(second)
    await shared.store.heartbeat(first)
    await shared.store.leave(first)
    assert await living(shared) == [(again, b"of 2, again")]


@told
async def test_each_commits_to_its_own_logs_while_others_live(shared: Shared) -> None:
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    mine = await shared.store.claim(first, TOPIC, 0, 1)
    other = await shared.store.claim(second, TOPIC, 1, 1)
    changes = [appended(mine, 1), appended(other, 1)]
    assert await shared.store.commit(first, object_of(first, 1), [b"0123456789"], changes) == {other.log_id}
    assert await shared.store.commit(second, object_of(second, 1), [b"0123456789"], changes) == {mine.log_id}
    taken = await shared.store.claim(second, TOPIC, 0, 2)
    assert taken.next_offset == 1
    late = [appended(mine, 1, at=1)]
    assert await shared.store.commit(first, object_of(first, 2), [b"0123456789"], late) == {mine.log_id}
    with pytest.raises(NotOwned):
        await shared.store.claim(first, TOPIC, 0, 1)
    await shared.store.heartbeat(first)


@told
async def test_members_say_how_long_they_were_silent(shared: Shared) -> None:
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    await shared.forward(LONG_MS)
    await shared.store.heartbeat(second)
    await shared.forward(LONG_MS)
    found = await shared.store.members()
    assert [(one.who, one.silent_ms // LONG_MS) for one in found] == [(first, 2), (second, 1)]
    assert await shared.store.join(3, b"") == Incarnation(3, 3)
    assert [one.silent_ms // LONG_MS for one in await shared.store.members()] == [2, 1, 0]


@told
async def test_who_was_silent_is_fenced_by_another_and_nobody_else_is(shared: Shared) -> None:
    first, second, third = [await shared.store.join(node_id, b"") for node_id in (1, 2, 3)]
    log = await shared.store.claim(first, TOPIC, 0, 1)
    await shared.forward(LONG_MS)
    await shared.store.heartbeat(third)
    assert await shared.store.fence(third, first, 2 * LONG_MS) is False
    await shared.store.heartbeat(first)
    assert await shared.store.fence(third, first, LONG_MS) is False
    assert await shared.store.commit(first, object_of(first, 1), [b"0123456789"], [appended(log, 1)]) == frozenset()
    await shared.forward(LONG_MS)
    assert await shared.store.fence(third, first, LONG_MS) is True
    with pytest.raises(Fenced, match="incarnation 1 of node 1 is over"):
        await shared.store.commit(first, object_of(first, 2), [b"late"], [appended(log, 1, at=1)])
    with pytest.raises(Fenced):
        await shared.store.heartbeat(first)
    assert await living(shared) == [(second, b""), (third, b"")]
    assert await shared.store.fence(third, first, 10 * LONG_MS) is True, "it is over, however long it was silent"
    assert (await shared.store.claim(second, TOPIC, 0, 2)).next_offset == 1


@told
async def test_a_life_may_be_ended_at_once(shared: Shared) -> None:
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    await shared.store.heartbeat(second)
    assert await shared.store.fence(first, second, 0) is True
    with pytest.raises(Fenced):
        await shared.store.heartbeat(second)
    again = await shared.store.join(2, b"again")
    assert await shared.store.fence(first, second, 0) is True
    assert await living(shared) == [(first, b""), (again, b"again")], "what is over is another incarnation"


@told
async def test_who_is_over_fences_nobody_and_looks_at_nothing(shared: Shared) -> None:
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    await shared.store.claim(second, TOPIC, 0, 1)
    assert await shared.store.fence(second, first, 0) is True
    for other in (second, Incarnation(7, 77)):
        with pytest.raises(Fenced, match="incarnation 1 of node 1 is over"):
            await shared.store.fence(first, other, 0)
    for index in (0, 1):
        with pytest.raises(Fenced, match="incarnation 1 of node 1 is over"):
            await shared.store.look(first, TOPIC, index, with_kept=True)
    await shared.store.heartbeat(second)


@told
async def test_who_never_began_is_not_over(shared: Shared) -> None:
    """It may begin yet."""
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    for stranger in (Incarnation(2, 3), Incarnation(3, second.number), Incarnation(1, second.number)):
        assert await shared.store.fence(first, stranger, 0) is False
    assert await shared.store.join(2, b"") == Incarnation(2, 3)
    await shared.store.heartbeat(Incarnation(2, 3))
    with pytest.raises(AssertionError):
        await shared.store.fence(first, first, 0)
    await shared.store.heartbeat(first)


@told
async def test_whoever_lives_looks_at_any_log(shared: Shared) -> None:
    first, second = await shared.store.join(1, b""), await shared.store.join(2, b"")
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) is None
    log = await shared.store.claim(first, TOPIC, 0, 3)
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) == FoundLog(first, log)
    change = LogChange(log.log_id, 3, 0, (stretch(0, 5),), start_offset=3, first_offset=2, kept=b"kept")
    assert await shared.store.commit(first, object_of(first, 1), [b"0123456789"], [change]) == frozenset()
    found = FoundLog(first, OwnedLog(log.log_id, 3, 2, 3, 5, b"kept"))
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) == found
    assert await shared.store.look(first, TOPIC, 0, with_kept=True) == found
    bare = FoundLog(first, replace(found.log, kept=b""))
    assert await shared.store.look(second, TOPIC, 0, with_kept=False) == bare
    assert await shared.store.look(second, TOPIC, 1, with_kept=False) is None
    assert await shared.store.look(first, TOPIC, 1, with_kept=True) is None
    await shared.store.fence(second, first, 0)
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) == found, (
        "its owner is over, and owns it until another claims it"
    )
    taken = await shared.store.claim(second, TOPIC, 0, None)
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) == FoundLog(second, taken)
    await shared.store.forget(second, TOPIC)
    assert await shared.store.look(second, TOPIC, 0, with_kept=True) is None


@told
async def test_a_log_is_made_when_it_is_claimed(shared: Shared) -> None:
    who = await born(shared.store)
    first = await shared.store.claim(who, TOPIC, 0, None)
    assert first == OwnedLog(first.log_id, 0, 0, 0, 0, b"")
    assert (await shared.store.claim(who, TOPIC, 1, 7)).owner_epoch == 7
    ids = {
        (await shared.store.claim(who, topic, index, None)).log_id for topic in (TOPIC, OTHER_TOPIC) for index in (0, 1)
    }
    assert len(ids) == 4
    assert first.log_id in ids


@told
async def test_epochs_only_grow_and_an_owner_may_claim_again(shared: Shared) -> None:
    first = await born(shared.store, 1)
    log = await shared.store.claim(first, TOPIC, 0, 3)
    assert await shared.store.claim(first, TOPIC, 0, 3) == log
    assert (await shared.store.claim(first, TOPIC, 0, None)).owner_epoch == 4
    assert (await shared.store.claim(first, TOPIC, 0, 9)).owner_epoch == 9
    with pytest.raises(NotOwned, match=f"log {log.log_id} has epoch 9, not 8"):
        await shared.store.claim(first, TOPIC, 0, 8)
    second = await born(shared.store, 2)
    with pytest.raises(NotOwned, match=f"log {log.log_id} has epoch 9, not 9"):
        await shared.store.claim(second, TOPIC, 0, 9)
    with pytest.raises(NotOwned):
        await shared.store.claim(second, TOPIC, 0, 0)
    assert (await shared.store.claim(second, TOPIC, 0, None)).owner_epoch == 10
    assert (await shared.store.claim(second, TOPIC, 0, 11)).owner_epoch == 11


@told
async def test_a_new_life_of_a_node_owns_nothing_until_it_claims(shared: Shared) -> None:
    first = await born(shared.store)
    log = await shared.store.claim(first, TOPIC, 0, None)
    second = await born(shared.store)
    assert await shared.store.commit(second, object_of(second, 1), [b"early"], [appended(log, 1)]) == {log.log_id}
    log = await shared.store.claim(second, TOPIC, 0, None)
    assert await shared.store.commit(second, object_of(second, 2), [b"0123456789"], [appended(log, 1)]) == frozenset()


@told
async def test_a_commit_is_found_by_whoever_claims_next(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    runs = (stretch(0, 3, position=1, size=4, stamp=-1), stretch(3, 1, position=5, size=2, stamp=2**62))
    change = LogChange(log.log_id, 0, 0, runs, start_offset=2, first_offset=1, kept=b"snapshot")
    data = [b"ab", bytearray(b"cd"), memoryview(b"efgh")]
    assert await shared.store.commit(who, object_of(who, 1), data, [change]) == frozenset()
    other = await shared.another_node()
    heir = await born(other, 2)
    found = await other.claim(heir, TOPIC, 0, None)
    assert found == OwnedLog(log.log_id, 1, 1, 2, 4, b"snapshot")
    assert await other.runs(log.log_id, 0, 10) == [StoredRun(object_of(who, 1), run) for run in runs]
    assert await read_of(other, object_of(who, 1), 1, 4) == b"bcde"
    assert await read_of(other, object_of(who, 1), 0, 8) == b"abcdefgh"
    assert await read_of(other, object_of(who, 1), 8, 0) == b""


@told
async def test_what_a_commit_does_not_say_stays(shared: Shared) -> None:
    who = await born(shared.store)
    log = await shared.store.claim(who, TOPIC, 0, None)
    every = LogChange(log.log_id, 0, 0, (stretch(0, 5),), start_offset=3, first_offset=2, kept=b"kept")
    assert await shared.store.commit(who, object_of(who, 1), [b"0123456789"], [every]) == frozenset()
    assert await shared.store.commit(who, object_of(who, 2), [b"0123456789"], [appended(log, 2, at=5)]) == frozenset()
    assert await shared.store.commit(who, object_of(who, 3), [], [LogChange(log.log_id, 0, 7, kept=b"")]) == frozenset()
    assert await shared.store.claim(who, TOPIC, 0, 0) == OwnedLog(log.log_id, 0, 2, 3, 7, b"")


@told
async def test_logs_of_others_are_named_and_are_as_they_were(shared: Shared) -> None:
    who = await born(shared.store)
    mine, behind, ahead, newer, older = [await shared.store.claim(who, TOPIC, index, 5) for index in range(5)]
    unknown = 10_000
    changes = [
        appended(ahead, 1, at=1, kept=b"no"),
        LogChange(newer.log_id, 6, 0, (stretch(0),), kept=b"no"),
        appended(mine, 2, kept=b"yes"),
        LogChange(older.log_id, 4, 0, (stretch(0),), kept=b"no"),
        LogChange(unknown, 0, 0, (stretch(0),), kept=b"no"),
    ]
    refused = {ahead.log_id, newer.log_id, older.log_id, unknown}
    assert await shared.store.commit(who, object_of(who, 1), [b"0123456789"], changes) == refused
    assert await shared.store.commit(who, object_of(who, 2), [b"0123456789"], [appended(mine, 1)]) == {mine.log_id}
    assert await shared.store.claim(who, TOPIC, 0, 5) == OwnedLog(mine.log_id, 5, 0, 0, 2, b"yes")
    for index, log in ((1, behind), (2, ahead), (3, newer), (4, older)):
        assert await shared.store.claim(who, TOPIC, index, 5) == log
        assert await shared.store.runs(log.log_id, 0, 10) == []
    assert await shared.store.settle(who, object_of(who, 1)) == refused
    assert await shared.store.settle(who, object_of(who, 2)) == {mine.log_id}


@told
async def test_a_commit_of_nothing_is_a_commit(shared: Shared) -> None:
    who = await born(shared.store)
    assert await shared.store.commit(who, object_of(who, 1), [], []) == frozenset()
    assert await shared.store.settle(who, object_of(who, 1)) == frozenset()
    assert await read_of(shared.store, object_of(who, 1), 0, 0) == b""


@told
async def test_whoever_waits_is_told_by_another_node_and_by_its_own(shared: Shared) -> None:
    stores = [await shared.another_node(), shared.store, shared.store]
    for teller in stores:
        waiting = {asyncio.create_task(store.wait_until_told(LONG_S)) for store in stores}
        for _ in range(MANY):  # A hint may be lost, as one that came before anybody listened.
            await teller.tell()
            _, waiting = await asyncio.wait(waiting, timeout=0.01)
            if not waiting:
                break
        assert not waiting
    for _ in range(MANY):  # What was told once too often is heard, and then nothing any more.
        if await waits(shared.store):
            break
    else:
        pytest.fail("it is told for ever")


async def waits(store: SharedStore) -> bool:
    """Whether nothing was heard for a moment."""
    shorter = asyncio.create_task(asyncio.sleep(0.05))
    await asyncio.sleep(0)
    await store.wait_until_told(0.1)
    return shorter.done()


@told
async def test_who_is_not_told_waits_for_so_long(shared: Shared) -> None:
    for _ in range(2):
        waiting = [asyncio.create_task(shared.store.wait_until_told(LONG_S)) for _ in range(2)]
        assert await waits(shared.store)
        assert [one.done() for one in waiting] == [False, False]
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        await shared.store.wait_until_told(0)
