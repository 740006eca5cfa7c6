"""Deleted topics on their way out: the loop waits for no file system, and frees thousands of logs in many turns."""

import gc
import tracemalloc
import weakref
from pathlib import Path
from threading import get_ident
from typing import Any, cast

import pytest

from broker.api.services import Services
from broker.disk.local_files import LocalFiles
from protocol.messages.topics import DeleteTopicState
from tests.harness.turns import CallsPerTurn, Turns
from tests.unit.cluster.cluster_rig import topic, with_node

PARTITIONS = 150


def test_many_deleted_topics_leave_one_after_the_other() -> None:
    """A task for each of them, and a step of each task in the same turn: that would be all of them at once."""

    async def story(services: Services) -> None:
        names = [f"t{number}" for number in range(300)]
        await services.topics.create([topic(name, 1) for name in names])
        Turns(services.environment)
        store: Any = services.topics._store
        store.release = releases = CallsPerTurn(store.release)
        await services.topics.delete([DeleteTopicState(name=name) for name in names])
        assert releases.total == 300
        assert releases.most < 50

    with_node(story)


def test_the_partitions_of_a_wide_topic_are_freed_in_slices() -> None:
    async def story(services: Services) -> None:
        await services.topics.create([topic("wide", PARTITIONS)])
        Turns(services.environment)
        wide = services.topics.by_name("wide")
        assert wide is not None
        freed = CallsPerTurn(lambda: None)
        for partition in wide.partitions:
            weakref.finalize(partition, freed)
        del partition, wide
        await services.topics.delete([DeleteTopicState(name="wide")])
        assert freed.total == PARTITIONS
        assert freed.most < 50

    with_node(story)


def test_nothing_stays_in_memory_of_topics_that_are_gone(tmp_path: Path) -> None:
    async def made_and_deleted(services: Services) -> None:
        await services.topics.create([topic("wide", PARTITIONS)])
        await services.topics.delete([DeleteTopicState(name="wide")])

    async def story(services: Services) -> None:
        await made_and_deleted(services)  # tables do not become smaller
        tracemalloc.start()
        try:
            await made_and_deleted(services)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(3):
                await made_and_deleted(services)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (
            after - before < 3 * PARTITIONS * 200
        )  # an open log is thousands of bytes; the folders go later, on a thread

    with_node(story, folder=tmp_path)


def test_folders_are_moved_and_deleted_on_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is to be deleted later is remembered for a topic, not for each of its folders."""
    used: dict[str, set[int]] = {"rename": set(), "delete_folder": set()}

    def watched(name: str) -> None:
        work = getattr(LocalFiles, name)

        def noted(files: Any, *paths: str) -> None:
            if "/" not in paths[0]:
                used[name].add(get_ident())
            work(files, *paths)

        monkeypatch.setattr("broker.disk.local_files._Folder." + name, noted)

    async def story(services: Services) -> None:
        await services.topics.create([topic("wide", PARTITIONS)])
        for name in used:
            watched(name)
        cast(Any, services.topics).sweep = lambda: None  # housekeeping leaves them to us
        await services.topics.delete([DeleteTopicState(name="wide")])
        assert not list(tmp_path.glob("wide-[0-9]*[0-9]")), "the name is free"
        assert len(list(tmp_path.glob("wide-*-delete"))) == PARTITIONS
        store: Any = services.topics._store
        assert sum(due_ms > 0 for due_ms, _ in store._doomed) <= 2, "one for the start, and one for this topic"
        while (deletion := store.sweep()) is not None:
            await services.environment.run_blocking(deletion)
        assert not list(tmp_path.glob("wide-*"))
        assert not any(due_ms for due_ms, _ in store._doomed), "what is gone is forgotten"
        assert all(used.values()) and not any(get_ident() in threads for threads in used.values())

    with_node(story, folder=tmp_path, settings={"log.segment.delete.delay.ms": "0"})


def test_partitions_of_a_topic_that_has_gone_are_not_open_any_more() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("t", 2)])
        gone = node.topics.by_name("t")
        assert gone is not None and gone.partitions.first_closed() is None
        await node.topics.delete([DeleteTopicState(name="t")])
        assert gone.partitions.first_closed() == 0

    with_node(story)
