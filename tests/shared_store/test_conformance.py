"""Every sentence of the port to a shared store, told to the model and to each engine: nodes, claims, commits."""

import pytest

from storage.shared.store import (
    Fenced,
    Incarnation,
    LogChange,
    NotOwned,
    ObjectMissing,
    OwnedLog,
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
    second = await shared.store.register(1, silent_ms=LONG_MS)
    assert isinstance(second, Incarnation)
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
async def test_where_another_lives_nothing_happens(shared: Shared) -> None:
    who = await born(shared.store, 1)
    log = await shared.store.claim(who, TOPIC, 0, None)
    other = await shared.another_node()
    assert await other.register(2, silent_ms=LONG_MS) == 1
    assert await shared.store.commit(who, object_of(who, 1), [b"0123456789"], [appended(log, 1)]) == frozenset()
    await shared.store.leave(who)
    assert await other.register(2, silent_ms=LONG_MS) == Incarnation(2, 2)


@told
async def test_who_was_silent_for_long_is_fenced(shared: Shared) -> None:
    who = await born(shared.store, 1)
    await shared.forward(LONG_MS)
    await shared.store.heartbeat(who)
    await shared.forward(LONG_MS)
    assert await shared.store.register(2, silent_ms=LONG_MS + LONG_MS // 2) == 1
    await shared.store.heartbeat(who)
    await shared.forward(2 * LONG_MS)
    assert await shared.store.register(2, silent_ms=LONG_MS + LONG_MS // 2) == Incarnation(2, 2)
    with pytest.raises(Fenced):
        await shared.store.heartbeat(who)


@told
async def test_who_has_left_is_not_waited_for_and_does_nothing_any_more(shared: Shared) -> None:
    first = await born(shared.store, 1)
    await shared.store.leave(first)
    await shared.store.leave(first)
    with pytest.raises(Fenced):
        await shared.store.heartbeat(first)
    with pytest.raises(Fenced):
        await shared.store.commit(first, object_of(first, 1), [], [])
    second = await shared.store.register(2, silent_ms=LONG_MS)
    assert second == Incarnation(2, 2)
    await shared.store.leave(first)
    await shared.store.leave(Incarnation(2, 1))
    await shared.store.heartbeat(Incarnation(2, 2))


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
