"""A broker under control: its clock is moved, it fails on purpose, and is wiped; who started it is its life."""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

import tallystick
from tallystick.control import BrokerControl
from tests.harness.confluent import admin, make_topic, read_all, wait_until, write


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tallystick.Broker]:
    with tallystick.Broker(folder=tmp_path / "broker", control=True) as broker:
        yield broker


def transactional(broker: tallystick.Broker, name: str, **settings: object) -> Producer:
    known = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(known | {key.replace("__", "."): value for key, value in settings.items()})
    producer.init_transactions(60)
    return producer


def test_a_transaction_times_out_when_the_test_wants_it(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    producer = transactional(broker, "copier", transaction__timeout__ms=600_000)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(60)
    broker.advance_time("9m")
    assert broker.fault_hits()["marker.before"] == 0
    broker.advance_time(90)
    wait_until(lambda: broker.fault_hits()["marker.after-sync"] == 1, "the abort by timeout")
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    write(broker.bootstrap, "orders", [b"behind"])
    assert [one.value() for one in read_all(broker.bootstrap, "orders")] == [b"behind"]


def test_records_grow_old(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", retention__ms="3600000", segment__ms="60000")
    write(broker.bootstrap, "orders", [b"old"])
    broker.advance_time("2m")
    write(broker.bootstrap, "orders", [b"younger"])
    broker.advance_time("2h")
    asker = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "asker"})
    wait_until(lambda: asker.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)[0] >= 1, "retention")
    asker.close()


def test_a_fault_strikes_in_one_partition_alone(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 2)
    make_topic(broker.bootstrap, "others")
    broker.fault("produce.before-append", "fail:TOPIC_AUTHORIZATION_FAILED", topic="orders", partition=1, times=None)
    for topic, partition, written in (("orders", 0, 1), ("orders", 1, 0), ("others", 0, 1)):
        done = write(broker.bootstrap, topic, [b"x"], partition=partition)
        assert (topic, partition, len(done.acknowledged)) == (topic, partition, written)
    broker.fault("produce.before-append", "fail:TOPIC_AUTHORIZATION_FAILED", topic="others")
    assert [len(write(broker.bootstrap, "others", [b"x"]).acknowledged) for _ in range(2)] == [0, 1], "once"
    broker.clear_faults()
    assert len(write(broker.bootstrap, "orders", [b"x"], partition=1).acknowledged) == 1


def test_a_crash_at_a_marker_is_survived(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 2)
    producer = transactional(broker, "copier")
    producer.begin_transaction()
    for partition in range(2):
        producer.produce("orders", b"x", partition=partition)
    producer.flush(60)
    broker.fault("marker.before", "crash", topic="orders", partition=1)
    answered = False
    with contextlib.suppress(KafkaException):  # a commit is answered when it is decided, which is before its markers
        producer.commit_transaction(1)
        answered = True
    wait_until(lambda: not broker.process.running, "the crash")
    broker.start()
    if not answered:
        producer.commit_transaction(60)
    wait_until(
        lambda: [one.value() for one in read_all(broker.bootstrap, "orders")] == [b"x", b"x"],
        "what was committed is seen",
    )
    broker.audit()


def test_the_audit_names_what_is_wrong(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "beyond"})
    member.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    member.close()
    with pytest.raises(AssertionError, match="orders-0: beyond has committed offset 7, and it ends at 0"):
        broker.audit()


def test_wiped_of_topics_and_groups(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    write(broker.bootstrap, "orders", [b"x"])
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "gone"})
    member.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    member.close()
    stays = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "stays"})
    stays.subscribe(["orders"])
    wait_until(lambda: bool(stays.poll(0.1) or stays.assignment()), "the member has joined")
    assert broker.wipe() == ["stays"]
    asker = admin(broker.bootstrap)
    assert [one.group_id for one in asker.list_consumer_groups().result(60).valid] == ["stays"]
    assert asker.list_topics(timeout=60).topics.keys() == {"__consumer_offsets"}
    stays.close()


def test_wiped_at_once_after_a_start(broker: tallystick.Broker) -> None:
    """Its groups are read from their logs then: the fixture wipes a broker that a test killed."""
    make_topic(broker.bootstrap, "orders")
    transactional(broker, "copier")
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "gone"})
    member.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    member.close()
    for _ in range(3):
        broker.restart(kill=True)
        assert broker.wipe() == []


def test_wiped_of_what_is_open(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    producers = [transactional(broker, name) for name in ("copier", "payer")]
    for producer in producers:
        producer.begin_transaction()
        producer.produce("orders", b"x")
        producer.flush(60)
    broker.wipe()
    assert broker.open_transactions() == []
    with pytest.raises(KafkaException) as refused:
        producers[0].commit_transaction(60)
    assert refused.value.args[0].code() == KafkaError._FENCED
    make_topic(broker.bootstrap, "orders")
    write(broker.bootstrap, "orders", [b"next"])
    assert [one.value() for one in read_all(broker.bootstrap, "orders")] == [b"next"]
    broker.audit()


def test_what_is_not_understood_is_refused_and_changes_nothing(broker: tallystick.Broker) -> None:
    for point, action, place in (
        ("nowhere.before", "crash", {}),
        ("produce.after-sync", "explode", {}),
        ("request.Produce", "drop", {"topic": "orders"}),
    ):
        with pytest.raises(tallystick.NotDone):
            broker.fault(point, action, **place)
    with pytest.raises(ValueError, match="which topic"):
        broker.fault("marker.before", "crash", partition=1)
    with pytest.raises(tallystick.NotDone, match="back"):
        broker.advance_time(-1)
    with pytest.raises(ValueError, match="no duration"):
        broker.advance_time("soon")
    control = broker.process.control
    assert control is not None
    for request in (
        {"command": "explode"},
        {"command": "arm"},
        *({"command": "advance", "milliseconds": some} for some in ("much", 1.5, True, math.nan, math.inf, 10**30)),
    ):
        with pytest.raises(tallystick.NotDone):
            control.ask(**request)
    write(broker.bootstrap, "orders", [b"x"])
    assert broker.fault_hits()["produce.after-sync"] == 1


@pytest.mark.parametrize("size", [1 << 16, 1 << 18])
def test_a_line_that_is_too_long_is_skipped(broker: tallystick.Broker, size: int) -> None:
    with pytest.raises(tallystick.NotDone, match="shorter"):
        broker.fault("x" * size, "crash")
    assert broker.fault_hits()["produce.after-sync"] == 0
    write(broker.bootstrap, "orders", [b"x"])
    assert broker.fault_hits()["produce.after-sync"] == 1


@pytest.mark.parametrize("line", [b"[" * 60_000, b"\xff\xfe", b"null", b"[]", b'{"do": []}', b""])
def test_whatever_is_no_request_is_refused(tmp_path: Path, line: bytes) -> None:
    ours, theirs = socket.socketpair()
    with tallystick.Broker(folder=tmp_path) as broker, ours:
        broker.stop()
        broker.process.options += ["--control-fd", str(theirs.fileno())]
        command = broker.process._command(tmp_path / "ready")
        with theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL) as process:
            theirs.close()
            answers = ours.makefile("rb")
            ours.sendall(line + b"\n")
            assert "refused" in json.loads(answers.readline())
            ours.sendall(b'{"do": "hits", "number": 7}\n')
            answer = json.loads(answers.readline())
            assert answer["number"] == 7 and "is" in answer
            process.terminate()


def test_an_answer_that_is_not_waited_for_any_more_is_nobodys() -> None:
    ours, theirs = socket.socketpair()
    control = BrokerControl(ours, patience_s=0.01)
    with pytest.raises(tallystick.NotDone, match="frozen"):
        control.ask("hits")
    theirs.sendall(b'{"number": 1, "is": "late"}\n{"number": 2, "is": "now"}\n')
    assert control.ask("hits") == "now"
    theirs.close()
    with pytest.raises(tallystick.NotDone, match="gone"):
        control.ask("hits")
    control.close()


def test_what_stands_still_is_stopped_in_order_and_leaves_nothing() -> None:
    broker = tallystick.Broker(control=True).start()
    broker.freeze()
    assert broker.stop() == 0
    broker.freeze()
    broker.thaw()
    broker.start().freeze()
    folder = broker.process.folder
    assert (folder / "data").is_dir()
    broker.close()
    assert not broker.process.running and not folder.exists() and broker.process.control is None


def test_its_terminal_is_not_the_tests(broker: tallystick.Broker) -> None:
    assert os.getpgid(broker.pid) == broker.pid, "Ctrl-C reaches all of a process group"


def test_a_clock_is_ahead_until_the_next_start(broker: tallystick.Broker) -> None:
    assert not broker.is_ahead
    broker.advance_time("365000d")
    assert broker.is_ahead
    with pytest.raises(tallystick.NotDone, match="thousand years"):
        broker.advance_time("1ms")
    write(broker.bootstrap, "orders", [b"x"])
    assert not broker.restart().is_ahead


def test_without_control_nothing_is_to_be_broken(tmp_path: Path) -> None:
    with tallystick.Broker(folder=tmp_path) as broker:
        with pytest.raises(tallystick.NotDone, match="control=True"):
            broker.advance_time(1)
        assert "fault points are in" not in broker.process.log_end()


def test_it_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, signal, tallystick\n"
        f"broker = tallystick.Broker(folder={str(tmp_path)!r}, control=True).start()\n"
        "print(broker.pid, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.send_signal(signal.SIGKILL)
        starter.wait()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the broker")
    assert "INFO main stopped" in (tmp_path / "broker.log").read_text()
