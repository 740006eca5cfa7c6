"""`tallystick explain` and `tallystick transactions`: of transactions that are open, decided and hanging."""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from tallystick import Broker
from tallystick.cli.explain import explain
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.transactions import transactions
from tallystick.client.client import LATEST, Client
from tallystick.client.errors import KafkaError
from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA, server
from tests.harness.confluent import make_topic, write
from tests.harness.transactional import TransactionalProducer

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Without verification a leader takes records of transactions that no coordinator knows, as brokers before 3.6 did."""
MARKERS_REFUSED = "marker.before=fail:NOT_LEADER_OR_FOLLOWER@1x*"


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker where transactions can hang."""
    process = server(tmp_path_factory.mktemp("lax"), more=UNVERIFIED)
    try:
        yield process.start()
    finally:
        process.close()


def run(bootstrap: str, story: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        client = await Client.connect(bootstrap)
        try:
            return await story(client)
        finally:
            await client.close()

    return asyncio.run(whole())


def open_one(bootstrap: str, transactional_id: str, *places: tuple[str, int], hanging: bool = False) -> None:
    """Three records in each of the partitions."""

    async def story(client: Client) -> None:
        version = 0 if hanging else 2
        producer = TransactionalProducer(client, transactional_id, transaction_version=version, timeout_ms=45_000)
        await producer.init()
        producer.begin()
        for place in places:
            await producer.produce(*place, [b"a", b"b", b"c"], add=not hanging)

    run(bootstrap, story)


def said(command: click.Command, bootstrap: str, name: str, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(command, [name, "--bootstrap-server", bootstrap, *arguments])
    assert done.exit_code == status, done.output
    return done.output


def as_printed(bootstrap: str, command: str) -> str:
    """A command that was printed, run as it stands."""
    words = shlex.split(command)
    assert words[0] == "tallystick" and words[-2:] == ["--bootstrap-server", bootstrap]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def held(bootstrap: str, *what: str) -> list[dict[str, Any]]:
    return json.loads(said(explain, bootstrap, "stuck", *what, "--json", status=STANDS_STILL))


def stable_end(bootstrap: str, topic: str, partition: int = 0) -> int:
    return run(bootstrap, lambda client: client.offset_at(topic, partition, LATEST, read_committed=True))


def test_what_is_open_is_named_and_ended_by_its_coordinator(bootstrap: str, name: str) -> None:
    topic = make_topic(bootstrap, name, 3)
    assert said(explain, bootstrap, "stuck", topic).startswith("Nothing is held")
    open_one(bootstrap, f"{name}-first", (topic, 1), (topic, 2))
    open_one(bootstrap, f"{name}-second", (topic, 1))
    one, other = held(bootstrap, topic)
    assert (one["partition"], one["lastStableOffset"], one["highWatermark"]) == (1, 0, 6)
    assert (other["partition"], other["lastStableOffset"], other["highWatermark"]) == (2, 0, 3)
    first, second = one["heldBy"]
    assert (first["transactionalId"], first["firstOffset"], first["cause"]) == (f"{name}-first", 0, "open")
    assert (second["transactionalId"], second["firstOffset"], second["cause"]) == (f"{name}-second", 3, "open")
    assert first["partitions"] == [[topic, 1], [topic, 2]] and first["state"] == "Ongoing"
    assert first["timeoutMs"] == 45_000 and 0 < first["leftMs"] <= 45_000
    text = said(explain, bootstrap, "stuck", f"{topic}-1", status=STANDS_STILL)
    assert f"{topic}-1: readers of committed records stand at offset 0, 6 before the end." in text
    assert f"transactional id '{name}-first'" in text and first["command"] in text
    assert f"Behind it is open: transactional id '{name}-second'" in text and f"{topic}-2:" not in text
    assert "over 2 partitions, with" in text
    assert "aborted, in 2 partitions" in as_printed(bootstrap, first["command"])
    (left,) = held(bootstrap, topic)
    assert [holder["transactionalId"] for holder in left["heldBy"]] == [f"{name}-second"]
    assert "nothing was done" in as_printed(bootstrap, first["command"])
    assert "over 1 partition, with" in said(explain, bootstrap, "stuck", topic, status=STANDS_STILL)
    as_printed(bootstrap, left["heldBy"][0]["command"])
    assert said(explain, bootstrap, "stuck", topic).startswith("Nothing is held")


@pytest.mark.skipif(KAFKA, reason="Apache Kafka has no journal")
def test_after_a_restart_it_is_said_that_the_journal_began_only_then(tmp_path: Path) -> None:
    with Broker(folder=tmp_path / "data", http=True) as broker:
        make_topic(broker.bootstrap, "t")
        open_one(broker.bootstrap, "holder", ("t", 0))
        for is_anew in (False, True):
            if is_anew:
                broker.kill()
                broker.start()
            asked = ("stuck", "t", "--http", broker.http_url)
            text = said(explain, broker.bootstrap, *asked, status=STANDS_STILL)
            (found,) = json.loads(said(explain, broker.bootstrap, *asked, "--json", status=STANDS_STILL))
            (holder,) = found["heldBy"]
            assert ("It is held by client" in text) is not is_anew
            assert ("Which client holds it is not known: the journal begins at 20" in text) is is_anew
            assert (holder["startedMs"] < holder["journalBegan"]) is is_anew is (holder["client"] is None)


def test_what_hangs_is_aborted_in_its_partition(lax: BrokerProcess) -> None:
    topic = make_topic(lax.bootstrap, "hanging", 2)
    open_one(lax.bootstrap, "hanging-id", (topic, 0), (topic, 1), hanging=True)
    open_one(lax.bootstrap, "open-id", (topic, 1))
    hanging, mixed = held(lax.bootstrap, topic)
    assert [holder["cause"] for holder in hanging["heldBy"] + mixed["heldBy"]] == ["hanging", "hanging", "open"]
    assert "nobody will end" in said(explain, lax.bootstrap, "stuck", f"{topic}-0", status=STANDS_STILL)
    found = json.loads(said(transactions, lax.bootstrap, "find-hanging", "--topic", topic, "--json"))
    assert [(one["partition"], one["startOffset"]) for one in found] == [(0, 0), (1, 0)]
    of_one = json.loads(
        said(transactions, lax.bootstrap, "find-hanging", "--topic", topic, "--partition", "1", "--json")
    )
    assert of_one == found[1:]
    for one in (hanging, mixed):
        assert "from offset 0 on" in as_printed(lax.bootstrap, one["heldBy"][0]["command"])
    assert stable_end(lax.bootstrap, topic) == 4, "three records and the marker"
    (left,) = held(lax.bootstrap, topic)
    assert [holder["transactionalId"] for holder in left["heldBy"]] == ["open-id"]
    assert json.loads(said(transactions, lax.bootstrap, "find-hanging", "--json")) == []


def test_what_is_decided_is_not_to_be_ended_by_hand(tmp_path: Path) -> None:
    if KAFKA:
        pytest.skip("with the fault points of our broker")
    process = server(tmp_path)
    process.environment["TALLYSTICK_FAULTS"] = MARKERS_REFUSED
    try:
        bootstrap = process.start().bootstrap
        topic = make_topic(bootstrap, "decided")
        open_one(bootstrap, "decided-id", (topic, 0))

        async def commit(client: Client) -> None:
            producer = TransactionalProducer(client, "decided-id")
            with pytest.raises(
                KafkaError, match="CONCURRENT_TRANSACTIONS"
            ):  # fences, which is an abort that is decided
                await producer.init(patient=False)

        run(bootstrap, commit)
        (one,) = held(bootstrap)
        (holder,) = one["heldBy"]
        assert (holder["cause"], holder["command"], holder["leftMs"]) == ("decided", None, None)
        text = said(explain, bootstrap, "stuck", status=STANDS_STILL)
        assert "It is decided" in text and "To " not in text
    finally:
        process.close()


def test_a_topic_may_be_called_as_a_partition_is(bootstrap: str, name: str) -> None:
    plain, odd = make_topic(bootstrap, name, 2), make_topic(bootstrap, f"{name}-1")
    open_one(bootstrap, f"{name}-id", (plain, 1), (odd, 0))
    assert [(one["topic"], one["partition"]) for one in held(bootstrap, odd)] == [(odd, 0)]
    as_printed(bootstrap, held(bootstrap, odd)[0]["heldBy"][0]["command"])
    for wrong in (f"{name}-7", f"{name}-x", "nobody-knows-it"):
        assert "UNKNOWN_TOPIC_OR_PARTITION" in said(explain, bootstrap, "stuck", wrong, status=1)


@pytest.mark.skipif(KAFKA, reason="it damages our files")
def test_what_is_offline_does_not_hide_the_rest(tmp_path: Path) -> None:
    process = server(tmp_path)
    process.start()
    try:
        for topic in ("gone", "orders"):
            write(process.bootstrap, make_topic(process.bootstrap, topic), [b"x"])
        member = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "reader"})
        member.commit(offsets=[TopicPartition(topic, 0, 0) for topic in ("gone", "orders")], asynchronous=False)
        member.close()
        process.stop()
        (log,) = (process.data / "gone-0").glob("*.log")
        log.write_bytes(bytes(log.stat().st_size))
        process.start()
        open_one(process.bootstrap, "copier", ("orders", 0))
        where = "--bootstrap-server", process.bootstrap

        def asks(command: click.Command, *arguments: str) -> tuple[int, str]:
            done = CliRunner().invoke(command, [*arguments, *where])
            assert "KAFKA_STORAGE_ERROR: gone-0" in done.stderr
            return done.exit_code, done.stdout

        status, text = asks(explain, "stuck")
        assert status == STANDS_STILL and text.startswith("orders-0: ") and "'copier'" in text
        assert asks(explain, "stuck", "gone") == (1, "")
        status, text = asks(explain, "lag", "reader")
        assert status == STANDS_STILL and text.startswith("orders-0: committed 0, ")
        assert asks(transactions, "find-hanging", "--json") == (1, "[]\n")
    finally:
        process.close()


def test_an_id_writes_nothing_that_a_terminal_obeys(bootstrap: str, name: str, tmp_path: Path) -> None:
    topic = make_topic(bootstrap, f"-{name}")
    transactional_id = f"{name}-it's\\ \x1b[31mred\nTo end it: nothing\u202e"
    open_one(bootstrap, transactional_id, (topic, 0))
    (tmp_path / "client.properties").write_text("")
    settings = "--command-config", str(tmp_path / "client.properties")
    text = said(explain, bootstrap, "stuck", *settings, "--", topic, status=STANDS_STILL)
    assert len(text.splitlines()) == 5 and all(line.isprintable() for line in text.splitlines())
    words, hint = text.splitlines()[-2].partition("its producer: ")[2], text.splitlines()[-1]
    assert "--http" in hint
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True)
    where = "--bootstrap-server", bootstrap, *settings
    ends = ["tallystick", "transactions", "force-terminate", "--transactional-id", transactional_id, *where]
    assert read.stdout.decode().split("\0")[:-1] == ends
    assert not [line for line in said(transactions, bootstrap, "list").splitlines() if not line.isprintable()]
    done = subprocess.run([sys.executable, "-m", *ends], capture_output=True, text=True, timeout=60, check=False)
    assert "aborted, in 1 partition" in done.stdout and done.stdout.strip().isprintable()
    whole = [sys.executable, "-m", "tallystick", "explain", "stuck", *where, "--", topic]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout[:15]) == (0, "Nothing is held")


def test_transactions_are_listed_and_described(bootstrap: str, name: str) -> None:
    topic = make_topic(bootstrap, name, 2)
    open_one(bootstrap, f"{name}-a", (topic, 0), (topic, 1))
    everything = json.loads(said(transactions, bootstrap, "list", "--json"))
    mine = [one for one in everything if one["transactionalId"] == f"{name}-a"]
    assert [one["transactionState"] for one in mine] == ["Ongoing"]
    pattern = ("list", "--transactional-id-pattern", f"{name}-.", "--json")
    assert json.loads(said(transactions, bootstrap, *pattern)) == mine
    assert json.loads(said(transactions, bootstrap, *pattern, "--duration-filter", "3600000")) == []
    described = json.loads(said(transactions, bootstrap, "describe", "--transactional-id", f"{name}-a", "--json"))
    assert described["partitions"] == [[topic, 0], [topic, 1]] and described["state"] == "Ongoing"
    table = said(transactions, bootstrap, "describe", "--transactional-id", f"{name}-a").splitlines()
    assert f"{topic}-0, {topic}-1" in table[1] and "45 s" in table[1]
    where = ("describe-producers", "--topic", topic, "--partition", "1")
    (producer,) = json.loads(said(transactions, bootstrap, *where, "--json"))
    assert producer["producerId"] == mine[0]["producerId"] and producer["currentTransactionStartOffset"] == 0
    ended = json.loads(said(transactions, bootstrap, "force-terminate", "--transactional-id", f"{name}-a", "--json"))
    assert (ended["ended"], ended["stateBefore"]) == (True, "Ongoing") and len(ended["partitions"]) == 2
    (producer,) = json.loads(said(transactions, bootstrap, *where, "--json"))
    assert producer["currentTransactionStartOffset"] is None
    assert said(transactions, bootstrap, *where).splitlines()[1].endswith("-")
    assert "not known" in said(transactions, bootstrap, "describe", "--transactional-id", f"{name}-b", status=1)


def test_only_what_hangs_there_is_aborted(lax: BrokerProcess) -> None:
    topic = make_topic(lax.bootstrap, "aborted")
    open_one(lax.bootstrap, "aborted-id", (topic, 0), hanging=True)
    for offset in ("1", "-1"):
        where = ("abort", "--topic", topic, "--partition", "0", "--start-offset", offset)
        assert "INVALID_TXN_STATE" in said(transactions, lax.bootstrap, *where, status=1)
    assert stable_end(lax.bootstrap, topic) == 0
    where = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--json")
    assert json.loads(said(transactions, lax.bootstrap, *where))["aborted"] is True
    assert stable_end(lax.bootstrap, topic) == 4


def test_a_partition_goes_with_its_topic() -> None:
    done = CliRunner().invoke(transactions, ["find-hanging", "--partition", "0", "--bootstrap-server", "localhost:1"])
    assert done.exit_code == 2 and "--topic" in done.output
