"""The journal of a running broker, asked as people do: who is stuck, who fenced whom, what happened, what is wrong.
What it exports as a scenario is played, and answered as it was."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tallystick import Broker
from tallystick.cli.explain import explain
from tallystick.cli.explaining.lint import lint
from tallystick.cli.transactions import transactions
from tallystick.journals.scenario import scenario_of
from tests.harness.confluent import make_topic, wait_until, write
from tests.scenarios import language
from tests.scenarios.places import virtual


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(in_memory=True, http=True, control=True, durability="page-cache") as running:
        make_topic(running.bootstrap, "orders", 2)
        yield running
        assert running.process.running, running.process.log_end()
        assert "Traceback" not in running.process.log.read_text()


def producer(broker: Broker, name: str, client_id: str = "copier", **settings: object) -> Producer:
    known = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "client.id": client_id, "log_level": 0}
    made = Producer(known | {key.replace("__", "."): value for key, value in settings.items()})
    made.init_transactions(60)
    return made


def write_two(sender: Producer) -> None:
    sender.begin_transaction()
    for partition in range(2):
        sender.produce("orders", b"x", partition=partition)
    sender.flush(60)


def run(command: Any, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == status, (done.output, done.exception)
    return done.output


def replayed(said: dict[str, Any], folder: Path) -> list[str]:
    """Play the story of a timeline; its steps."""
    path = folder / "exported.txt"
    path.write_text(scenario_of(said), encoding="utf-8")
    (scenario,) = language.read(path)
    answers = virtual.play(scenario, scenario.versions[0])
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert not step.answer or answer == step.answer, (step.text, path.read_text())
    return [step.text for step in scenario.steps]


def states(said: dict[str, Any]) -> list[str]:
    return [event["state"] for event in said["events"] if event["is"] == "state"]


def test_a_transaction_is_told_from_its_beginning_to_its_end(broker: Broker, tmp_path: Path) -> None:
    sender = producer(broker, "told/\x1b[31m")
    write_two(sender)
    sender.commit_transaction(60)
    write_two(sender)
    sender.abort_transaction(60)
    said = broker.timeline("told/\x1b[31m")
    assert states(said) == [
        "Empty",
        *["Ongoing", "PrepareCommit", "CompleteCommit"],
        "Ongoing",
        "PrepareAbort",
        "CompleteAbort",
    ]
    url = ("--http", broker.http_url)
    assert json.loads(run(transactions, "timeline", "told/\x1b[31m", "--json", *url))["events"] == said["events"]
    text = run(transactions, "timeline", "told/\x1b[31m", *url)
    assert "InitProducerId" in text and "COMMIT markers  orders-0@" in text and "client 'copier' at 127.0.0.1" in text
    assert "\x1b" not in text
    begun = [event["at"] for event in said["events"] if event["is"] == "state" and event["state"] == "PrepareAbort"]
    second = json.loads(run(transactions, "timeline", "told/\x1b[31m", "--json", "--at", str(begun[0]), *url))
    assert states(second) == ["Ongoing", "PrepareAbort", "CompleteAbort"]
    steps = replayed(said, tmp_path)
    assert sum(" EndTxn " in step for step in steps) == 2 and sum(" Produce " in step for step in steps) == 4
    assert sum(" EndTxn " in step for step in replayed(second | {"transactionVersion": 2}, tmp_path)) == 1
    exported = run(transactions, "timeline", "told/\x1b[31m", "--scenario", *url)
    assert exported == scenario_of(said) and "\x1b" not in exported


def test_a_second_instance_fences_the_first(broker: Broker, tmp_path: Path) -> None:
    first = producer(broker, "fenced", "first")
    write_two(first)
    stuck = run(
        explain, "stuck", "orders-1", "--bootstrap-server", broker.bootstrap, "--http", broker.http_url, status=3
    )
    assert "held by client 'first' at 127.0.0.1:" in stuck and "confluent-kafka-python" in stuck
    plain = run(explain, "stuck", "orders-1", "--bootstrap-server", broker.bootstrap, status=3)
    assert "held by client" not in plain and "--http" in plain
    (held,) = [one for one in broker.open_transactions() if one["transactionalId"] == "fenced"]
    assert (held["client"]["clientId"], held["partitions"], held["written"]["records"]) == ("first", 2, 2)
    second = producer(broker, "fenced", "second")
    with pytest.raises(KafkaException):
        first.commit_transaction(60)
    write_two(second)
    second.commit_transaction(60)
    said = json.loads(run(explain, "fenced", "fenced", "--json", "--http", broker.http_url, status=3))
    assert said == broker.fences("fenced") | {"now": said["now"]}
    over, again = said["raised"][1:3]
    assert over["because"] == "InitProducerId over an open transaction"
    assert {said["clients"][one["client"]]["clientId"] for one in (over, again)} == {"second"}
    (refused,) = said["refused"]
    assert (refused["api"], said["clients"][refused["client"]]["clientId"]) == ("EndTxn", "first")
    text = run(explain, "fenced", "fenced", "--http", broker.http_url, status=3)
    assert "by client 'second'" in text and "of client 'first'" in text
    steps = replayed(broker.timeline("fenced"), tmp_path)
    assert [step.split()[1] for step in steps if "EndTxn" in step or "Init" in step] == [
        *("InitProducerId", "InitProducerId", "EndTxn", "EndTxn")
    ]
    assert {step.split()[0] for step in steps} >= {"alice", "bob"}


def test_a_transaction_that_timed_out_has_fenced_its_producer(broker: Broker, tmp_path: Path) -> None:
    sender = producer(broker, "slow", transaction__timeout__ms=600_000)
    write_two(sender)
    broker.advance_time("11m")
    wait_until(lambda: "CompleteAbort" in states(broker.timeline("slow")), "the abort by timeout")
    with pytest.raises(KafkaException):
        sender.commit_transaction(60)
    text = run(explain, "fenced", "slow", "--http", broker.http_url, status=3)
    assert (
        "open for longer than its transaction.timeout.ms" in text and "turned away with INVALID_PRODUCER_EPOCH" in text
    )
    assert "advance time 601000 ms" in replayed(broker.timeline("slow"), tmp_path)


def test_clients_are_told_what_to_change(broker: Broker, tmp_path: Path) -> None:
    write(broker.bootstrap, "orders", [b"1", b"2"], partition=0, client__id="careless", enable__idempotence=False)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "careless", "auto.offset.reset": "earliest"}
    reader = Consumer(settings | {"client.id": "reader", "session.timeout.ms": 6000})
    reader.subscribe(["orders"])
    wait_until(lambda: reader.poll(0.1) is not None, "a record")
    sender = producer(broker, "mixed")
    write_two(sender)
    sender.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], reader.consumer_group_metadata(), 60)
    sender.commit_transaction(60)
    reader.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    reader.close()
    said = json.loads(run(lint, "--json", "--http", broker.http_url, status=3))
    of_group = {one["rule"]: one for one in said["findings"] if one.get("group") == "careless"}
    assert set(of_group) == {"auto-commit-beside-transactions", "transaction-outlives-session"}
    assert of_group["auto-commit-beside-transactions"]["client"]["clientId"] == "reader"
    plain = {one["client"]["clientId"]: one for one in broker.lint() if one["rule"] == "not-idempotent"}
    assert plain["careless"]["client"]["software"] == "confluent-kafka-python"
    assert "enable.idempotence=true" in run(lint, "--http", broker.http_url, status=3)
    steps = replayed(broker.timeline("mixed"), tmp_path)
    assert [step.split()[1] for step in steps if "g1" in step] == ["AddOffsetsToTxn", "TxnOffsetCommit"]


def test_ids_that_are_drawn_are_noticed(broker: Broker) -> None:
    """Also among others of the same library at the same address, whose ids stay."""
    for number in range(12):
        producer(broker, f"sink-{number:032x}")
    for number in range(6):
        producer(broker, f"copier-{number}")
        producer(broker, f"copier-{number}")
    (found,) = [one for one in broker.lint() if one["rule"] == "random-transactional-ids"]
    assert found["client"]["software"] == "confluent-kafka-python" and found["count"] == 12
    assert found["examples"] == [f"sink-{number:032x}" for number in range(7, 12)]


def test_what_cannot_be_asked_is_said_in_a_sentence(broker: Broker) -> None:
    for command, arguments in ((explain, ["fenced", "x"]), (transactions, ["timeline", "x"]), (lint, [])):
        for url, sentence in (
            (None, "needs the HTTP side of a Tallystick broker"),
            (f"http://{broker.bootstrap}", "cannot be asked over HTTP"),
            (f"{broker.http_url}/health", "no such path"),
        ):
            where = [] if url is None else ["--http", url]
            assert sentence in run(command, *arguments, *where, status=1)
    assert "knows nothing of" in run(explain, "fenced", "never heard of", "--http", broker.http_url)
    assert "knows nothing of" in run(transactions, "timeline", "never heard of", "--http", broker.http_url)
    assert "nothing is known" in run(
        transactions, "timeline", "never", "--scenario", "--http", broker.http_url, status=1
    )


def test_an_id_of_several_lines_is_asked_for(broker: Broker) -> None:
    name = "two\nlines/and\r\nmore\n"
    producer(broker, name)
    url = ("--http", broker.http_url)
    said = json.loads(run(transactions, "timeline", name, "--json", *url))
    assert (said["transactionalId"], said["known"], states(said)) == (name, True, ["Empty"])
    assert json.loads(run(explain, "fenced", name, "--json", *url))["transactionalId"] == name


def test_a_story_that_begins_in_a_transaction_begins_with_the_next(broker: Broker, tmp_path: Path) -> None:
    sender = producer(broker, "halved")
    for _ in range(3):
        write_two(sender)
        sender.commit_transaction(60)
    said = broker.timeline("halved")
    events = said["events"]
    begun = next(place for place, event in enumerate(events) if event.get("state") == "Ongoing")
    steps = replayed(said | {"events": events[begun + 1 :], "dropped": begun + 1}, tmp_path)
    assert sum(" EndTxn " in step for step in steps) == 2
