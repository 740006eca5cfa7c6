"""Nodes that take a store from one another, or logs, and write all the time, and the books of what they were told."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from broker.shared.postgresql import PostgresqlStore
from storage.shared.store import (
    CommitUnknown,
    Fenced,
    Incarnation,
    LogChange,
    OwnedLog,
    Run,
    StoredRun,
    StoreUnreachable,
)
from tests.shared_store.engines import TOPIC, born, object_of

LOGS = 5
BACK_OFF_S = 0.01


@dataclass(frozen=True, slots=True)
class Written:
    """A run, and its bytes in its object."""

    log_id: int
    owner_epoch: int
    stored: StoredRun
    data: bytes


@dataclass(slots=True)
class Books:
    """What was said to nodes. What an object had is written down before it is sent."""

    sent: dict[int, list[Written]] = field(default_factory=dict[int, list[Written]])
    acknowledged: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """Object, and the logs that refused it."""
    given_up: set[int] = field(default_factory=set[int])
    claims: list[tuple[Incarnation, OwnedLog]] = field(default_factory=list[tuple[Incarnation, OwnedLog]])
    alone: set[Incarnation] = field(default_factory=set[Incarnation])
    """Who has claimed nothing before all that had begun earlier were over."""
    happened: Counter[str] = field(default_factory=Counter[str])


class Node:
    """Lives, is fenced and lives again until it is stopped; all that it does is drawn from a seed."""

    def __init__(self, node_id: int, url: str, seed: str, books: Books) -> None:
        self._node_id = node_id
        self._url = url
        self._random = random.Random(seed)
        self._books = books
        self._numbers = 0
        self._ends: dict[int, int] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        store = PostgresqlStore(self._url)
        try:
            while not stopped.is_set():
                try:
                    await self._live(store, stopped)
                except Fenced:
                    self._books.happened["fenced"] += 1
                except StoreUnreachable:
                    self._books.happened["unreachable"] += 1
                    await asyncio.sleep(BACK_OFF_S)
        finally:
            await store.close()

    async def _live(self, store: PostgresqlStore, stopped: asyncio.Event) -> None:
        # Mostly it waits for its turn; now and then it takes over from all who live, which become zombies, or takes
        # their logs from them only.
        chosen = self._random.random()
        if chosen < 0.4:
            who = await born(store, self._node_id)
            self._books.alone.add(who)
        elif chosen < 0.5 or not await store.members():
            who = await store.join(self._node_id, b"")
        else:
            await asyncio.sleep(BACK_OFF_S)
            return
        self._numbers = 0
        owned = [await self._claim(store, who, index) for index in range(LOGS)]
        commits = self._random.randrange(3, 30)
        for _ in range(commits):
            if stopped.is_set():
                break
            await self._commit(store, who, owned)
            if self._random.random() < 0.2:
                await self._repeat(store.heartbeat, who)
            if self._random.random() < 0.1:
                index = self._random.randrange(LOGS)
                owned[index] = await self._claim(store, who, index)
        if self._random.random() < 0.7:
            await self._repeat(store.leave, who)

    async def _claim(self, store: PostgresqlStore, who: Incarnation, index: int) -> OwnedLog:
        while True:
            try:
                log = await store.claim(who, TOPIC, index, None)
            except StoreUnreachable:
                await asyncio.sleep(BACK_OFF_S)
                continue
            self._books.claims.append((who, log))
            self._ends[log.log_id] = log.next_offset
            return log

    async def _repeat(self, ask, who: Incarnation) -> None:  # type: ignore[no-untyped-def]
        while True:
            try:
                await ask(who)
                return
            except StoreUnreachable:
                await asyncio.sleep(BACK_OFF_S)

    def _drawn(self, who: Incarnation, owned: list[OwnedLog]) -> tuple[int, bytes, list[LogChange]]:
        self._numbers += 1
        object_id = object_of(who, self._numbers)
        data = b""
        changes: list[LogChange] = []
        written: list[Written] = []
        for log in self._random.sample(owned, self._random.randrange(1, LOGS + 1)):
            base = self._ends[log.log_id]
            count = self._random.randrange(1, 9)
            text = f"{object_id} {log.log_id} {base} {count}".encode()
            run = Run(base, base + count - 1, len(data), len(text), self._numbers)
            changes.append(LogChange(log.log_id, log.owner_epoch, base, (run,), kept=text))
            written.append(Written(log.log_id, log.owner_epoch, StoredRun(object_id, run), text))
            data += text
        self._books.sent[object_id] = written
        return object_id, data, changes

    async def _commit(self, store: PostgresqlStore, who: Incarnation, owned: list[OwnedLog]) -> None:
        object_id, data, changes = self._drawn(who, owned)
        refused: frozenset[int] | None
        while True:
            try:
                refused = await store.commit(who, object_id, [data], changes)
                break
            except StoreUnreachable:
                self._books.happened["not sent"] += 1
                await asyncio.sleep(BACK_OFF_S)
            except CommitUnknown:
                self._books.happened["unknown"] += 1
                refused = await self._settled(store, who, object_id)
                break
        if refused is None:
            self._books.given_up.add(object_id)
            return
        self._books.acknowledged[object_id] = refused
        for change in changes:
            if change.log_id not in refused:
                self._ends[change.log_id] = change.runs[-1].last_offset + 1

    async def _settled(self, store: PostgresqlStore, who: Incarnation, object_id: int) -> frozenset[int] | None:
        while True:
            try:
                refused = await store.settle(who, object_id)
            except StoreUnreachable:
                await asyncio.sleep(BACK_OFF_S)
                continue
            self._books.happened["given up" if refused is None else "was made"] += 1
            return refused


async def check(books: Books, url: str) -> int:
    """At the end: nothing acknowledged is missing, nothing given up is there, offsets have no gaps, and nobody wrote
    after another had claimed. Returns how many runs there are."""
    store = PostgresqlStore(url)
    found = 0
    try:
        who = await born(store, 99)
        for index in range(LOGS):
            log = await store.claim(who, TOPIC, index, None)
            runs = await store.runs(log.log_id, 0, 1_000_000)
            await _check_log(books, store, log, runs)
            found += len(runs)
    finally:
        await store.close()
    return found


async def _check_log(books: Books, store: PostgresqlStore, log: OwnedLog, runs: list[StoredRun]) -> None:
    end = 0
    for one in runs:
        assert one.run.base_offset == end, f"log {log.log_id} has a gap at {end}"
        end = one.run.last_offset + 1
    assert log.next_offset == end, f"log {log.log_id} ends at {log.next_offset}, its runs at {end}"
    there = set(runs)
    for object_id, refused in books.acknowledged.items():
        mine = {written.stored for written in books.sent[object_id] if written.log_id == log.log_id}
        if log.log_id in refused:
            assert not mine & there, f"object {object_id} was refused by log {log.log_id}, and is in it"
        else:
            assert mine <= there, f"object {object_id} was acknowledged, and is not in log {log.log_id}"
    assert not {one.object_id for one in runs} & books.given_up, "a commit was given up, and is there"
    made: list[Written] = []
    for one in runs:
        (written,) = [written for written in books.sent[one.object_id] if written.log_id == log.log_id]
        assert written.stored == one, f"log {log.log_id} has {one}, {written.stored} was written"
        assert await store.read([one]) == [written.data]
        made.append(written)
    for claimer, claimed in books.claims:
        if claimed.log_id == log.log_id:
            _check_claim(made, claimer, claimed, alone=claimer in books.alone)


def _check_claim(made: list[Written], claimer: Incarnation, claimed: OwnedLog, *, alone: bool) -> None:
    for one in made:
        number = one.stored.object_id >> 32
        if one.stored.run.base_offset < claimed.next_offset:
            assert one.owner_epoch < claimed.owner_epoch, f"{one} lies before {claimed} of {claimer}"
        else:
            assert one.owner_epoch >= claimed.owner_epoch, f"{one} was written by an earlier owner after {claimed}"
            assert number >= claimer.number or not alone, f"{one} was written by who was over when {claimer} claimed"
