"""`tallystick copy`: a topic into another cluster, through kills of the command, without loss and without doubling."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition

from protocol.records.record import Record
from tallystick.cli.groups import groups
from tallystick.cli.records.copy import copy
from tallystick.client.background import now_ms
from tallystick.client.client import LATEST, Client
from tallystick.client.reading import read_all
from tallystick.inspection.places import offsets_at, places
from tests.clients.test_explain_command import open_one, run, said
from tests.harness.broker import server
from tests.harness.confluent import admin, make_topic, producer, wait_until, write

PARTITIONS = 3


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another cluster."""
    process = server(tmp_path_factory.mktemp("other"))
    try:
        yield process.start().bootstrap
    finally:
        process.close()


def in_order(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[list[tuple[Any, ...]]]:
    """What a reader of committed records is shown of each partition, but for the offsets."""

    async def story(client: Client) -> list[list[Record]]:
        return [await read_all(client, topic, number) for number in range(partitions)]

    found: list[list[Record]] = run(bootstrap, story)
    return [[(one.timestamp_ms, one.key, one.value, one.headers) for one in records] for records in found]


def filled(bootstrap: str, topic: str, *, count: int) -> None:
    """Records with and without all that they may have, some of them aborted."""
    make_topic(bootstrap, topic, PARTITIONS)
    newest_ms = now_ms()  # what is older than retention.ms is deleted, by Kafka quite soon
    for number in range(4):
        writer = producer(bootstrap, transactional__id=f"{topic}-writer")
        writer.init_transactions(60)
        writer.begin_transaction()
        for at in range(count // 4):
            value = None if at % 11 == 0 else b"%d of %d" % (at, number)
            key = b"%d" % at if at % 3 else None
            headers: list[tuple[str, bytes | None]] = [("n", b"%d" % at), ("n", None)] if at % 5 == 0 else []
            time_ms = newest_ms - at * 1000
            writer.produce(topic, value, key=key, partition=at % PARTITIONS, headers=headers, timestamp=time_ms)
            writer.poll(0)
        (writer.abort_transaction if number == 1 else writer.commit_transaction)(60)


def is_copied(bootstrap: str, other: str, source: str, target: str) -> None:
    """A commit is answered before its markers are written: readers see it in a moment."""
    wanted = in_order(bootstrap, source)
    wait_until(lambda: sum(map(len, in_order(other, target))) >= sum(map(len, wanted)), "all of it is shown")
    assert in_order(other, target) == wanted


def copied(bootstrap: str, other: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    words = [*arguments, "--to", other, "--bootstrap-server", bootstrap, "--json"]
    done = CliRunner().invoke(copy, words)
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout) if status == 0 else {"said": done.stderr}
    return found


def test_a_copy_is_what_the_source_is(bootstrap: str, other: str, name: str) -> None:
    filled(bootstrap, name, count=400)
    open_one(bootstrap, f"{name}-open", (name, 0))
    source, target = name, f"{name}-copy"
    done = copied(bootstrap, other, source, target, "--transaction-records", "50", "--compression", "lz4")
    is_copied(bootstrap, other, source, target)
    assert done["records"] == 300 and done["transactions"] == 6 + 1
    again = copied(bootstrap, other, source, target)
    assert (again["records"], again["transactions"]) == (0, 0) and again["sourceOffsets"] == done["sourceOffsets"]
    write(bootstrap, source, [b"later"], partition=1)
    assert copied(bootstrap, other, source, target)["records"] == 1
    is_copied(bootstrap, other, source, target)
    assert copied(bootstrap, bootstrap, source, f"{name}-here")["records"] == 301, "within one cluster, too"


def test_kills_of_the_command_lose_and_double_nothing(bootstrap: str, other: str, name: str) -> None:
    filled(bootstrap, name, count=2400)
    target = f"{name}-copy"
    words = ["copy", name, target, "--to", other, "--bootstrap-server", bootstrap, "--transaction-records", "30"]
    chance, kills = random.Random(4), 0
    while True:
        begun = written(other, target)
        with subprocess.Popen([sys.executable, "-m", "tallystick", *words], stderr=subprocess.PIPE) as running:
            wait_until(partial(has_come_to, other, target, begun + chance.randrange(1, 600), running), "it goes on")
            if running.poll() is not None:
                assert running.returncode == 0, running.stderr and running.stderr.read()
                break
            running.kill()
            kills += 1
    assert kills >= 2
    is_copied(bootstrap, other, name, target)
    shown = in_order(other, target)
    assert sum(map(len, shown)) == 1800 == sum(Counter(one for part in shown for one in part).values())


def has_come_to(bootstrap: str, topic: str, offsets: int, running: "subprocess.Popen[bytes]") -> bool:
    return running.poll() is not None or written(bootstrap, topic) >= offsets


def written(bootstrap: str, topic: str) -> int:
    """Offsets in the target, whatever became of their transactions."""

    async def story(client: Client) -> int:
        known = await client.metadata(None)
        if topic not in {one.name for one in known.topics}:
            return 0
        its = await places(client, [topic])
        return sum((await offsets_at(client, its, LATEST)).values())

    found: int = run(bootstrap, story)
    return found


def test_what_cannot_be_gone_on_with(bootstrap: str, other: str, name: str) -> None:
    make_topic(bootstrap, name, 2)
    make_topic(other, f"{name}-small", 1)
    assert "has 1 partition," in copied(bootstrap, other, name, f"{name}-small", status=1)["said"]
    make_topic(other, f"{name}-used", 2)
    write(other, f"{name}-used", [b"before"], partition=0)
    write(bootstrap, name, [b"a", b"b"], partition=0)
    mine = (name, f"{name}-used", "--name", name)
    assert "no offsets of the copy" in copied(bootstrap, other, *mine, status=1)["said"]
    assert copied(bootstrap, other, *mine, "--first")["records"] == 2
    (first, _) = json.loads(said(groups, other, "describe", name, "--json"))
    assert (first["topic"], first["currentOffset"]) == (f"{name}-used", 2)
    forward = ("reset-offsets", "--group", name, "--topic", f"{name}-used:0", "--shift-by", "1", "--execute")
    said(groups, other, *forward)
    assert "it was made anew, or cut" in copied(bootstrap, other, *mine, status=1)["said"]
    assert "UNKNOWN_TOPIC" in copied(bootstrap, other, f"{name}-nowhere", "x", status=1)["said"]
    assert "cannot be reached" in copied(bootstrap, "127.0.0.1:1", *mine, status=1)["said"]
    assert "into itself" in copied(bootstrap, bootstrap, name, name, "--first", status=1)["said"]


def test_a_deleted_beginning_is_passed_over_where_that_is_said(bootstrap: str, other: str, name: str) -> None:
    make_topic(bootstrap, name, 1)
    write(bootstrap, name, [b"1", b"2", b"3", b"4"])
    mine = (name, f"{name}-copy", "--name", name)
    copied(bootstrap, other, *mine)
    write(bootstrap, name, [b"5", b"6"])
    said(groups, other, "reset-offsets", "--group", name, "--topic", f"{name}-copy", "--to-offset", "0", "--execute")
    deleted_before(bootstrap, name, 5)
    assert "offsets 0 to 4 were deleted" in copied(bootstrap, other, *mine, status=1)["said"]
    assert copied(bootstrap, other, *mine, "--skip-missing")["records"] == 1
    wait_until(lambda: len(in_order(other, f"{name}-copy", 1)[0]) == 5, "it is shown")
    assert [one[2] for one in in_order(other, f"{name}-copy", 1)[0]] == [b"1", b"2", b"3", b"4", b"6"]


def deleted_before(bootstrap: str, topic: str, offset: int) -> None:
    asker = admin(bootstrap)
    (done,) = asker.delete_records([TopicPartition(topic, 0, offset)]).values()
    assert done.result(60).low_watermark == offset


def test_a_second_copy_of_the_same_name_takes_over(bootstrap: str, other: str, name: str) -> None:
    filled(bootstrap, name, count=40)
    words = ["copy", name, f"{name}-copy", "--to", other, "--bootstrap-server", bootstrap, "--follow"]
    with subprocess.Popen([sys.executable, "-m", "tallystick", *words], stderr=subprocess.PIPE) as first:
        try:
            wait_until(lambda: written(other, f"{name}-copy") >= 30, "it has copied")
            wait_until(lambda: sum(map(len, in_order(other, f"{name}-copy"))) == 30, "and committed")
            assert copied(bootstrap, other, name, f"{name}-copy")["records"] == 0
            write(bootstrap, name, [b"more"], partition=0)
            assert first.wait(60) == 1 and first.stderr is not None
            assert b"another copy of the same --name has taken over" in first.stderr.read()
        finally:
            first.kill()
    assert copied(bootstrap, other, name, f"{name}-copy")["records"] == 1
    is_copied(bootstrap, other, name, f"{name}-copy")
