"""Control over HTTP: the same as from Python, for a program in any language."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from broker.http.bounded_connection import MOST_CONNECTIONS
from tallystick import Broker
from tests.harness.confluent import admin, make_topic, wait_until, write
from tests.harness.http import Answer, ask, connect

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True, control=True, in_memory=True) as running:
        yield running
        assert "Traceback" not in running.process.log.read_text()


def control(broker: Broker, path: str, method: str = "POST", **said: object) -> Answer:
    return ask(f"{broker.http_url}/v1/control/{path}", method, body=said or None)


def test_a_fault_is_armed_strikes_and_is_cleared(broker: Broker) -> None:
    make_topic(broker.bootstrap, "refused")
    fault = {"point": "produce.before-append", "action": "fail:TOPIC_AUTHORIZATION_FAILED", "topic": "refused"}
    armed = control(broker, "faults", **fault, partition=0, times=None)
    assert (armed.status, armed.said) == (200, {"armed": ["produce.before-append"]})
    assert control(broker, "faults", "GET").said == armed.said
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    told: list[object] = []
    producer.produce("refused", b"x", partition=0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(60) == 0 and told[0] is not None
    assert control(broker, "faults/hits", "GET").said["hits"]["produce.before-append"] >= 1
    assert control(broker, "faults", "DELETE").said == {"armed": []}
    write(broker.bootstrap, "refused", [b"y"])


def test_a_number_may_be_written_with_a_point(broker: Broker) -> None:
    """JSON has one kind of numbers, and JSON Schema takes 90000.0 for an integer."""
    before = control(broker, "clock", milliseconds=0.0).said["ahead_ms"]
    assert control(broker, "clock", milliseconds=90_000.0).said == {"ahead_ms": before + 90_000}


def test_a_transaction_times_out_when_the_clock_is_moved(broker: Broker) -> None:
    make_topic(broker.bootstrap, "slow")
    settings = {"transactional.id": "slow", "transaction.timeout.ms": 60_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("slow", b"x")
    producer.flush(60)
    before = control(broker, "clock", milliseconds=0).said["ahead_ms"]
    assert control(broker, "clock", milliseconds=90_000).said == {"ahead_ms": before + 90_000}
    hits = lambda: control(broker, "faults/hits", "GET").said["hits"].get("marker.after-sync", 0)  # noqa: E731
    wait_until(lambda: hits() >= 1, "the abort by timeout")
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)


def test_it_stands_still_and_goes_on(broker: Broker) -> None:
    assert control(broker, "freeze", milliseconds=600_000).said == {"done": True}
    assert control(broker, "freeze").status == 409
    assert ask(f"{broker.http_url}/v1/openapi.json").status == 200
    assert control(broker, "thaw").said == {"done": True}
    assert ask(f"{broker.http_url}/health/live").status == 200
    assert control(broker, "thaw").said == {"done": False}


def test_everything_is_deleted(broker: Broker) -> None:
    make_topic(broker.bootstrap, "gone")
    assert control(broker, "wipe").said == {"left": []}
    assert "gone" not in admin(broker.bootstrap).list_topics(timeout=60).topics


@pytest.mark.parametrize(
    ("path", "said", "sentence"),
    [
        ("faults", {"point": "no.point", "action": "crash"}, "there is no fault point no.point"),
        ("faults", {"point": "marker_before", "action": "crash"}, "there is no fault point marker_before"),
        ("faults", {"point": "marker.before", "action": "sing"}, "sing"),
        ("faults", {"point": "marker.before", "action": "delay:" + "9" * 20}, "is too long; 8 digits at most"),
        ("faults", {"point": "marker.before", "action": "delay:\u00b2"}, "says not how long"),
        ("faults", {"point": "marker.before"}, "the field 'action' is missing"),
        ("faults", {"point": "marker.before", "action": "crash", "partition": 1}, "a partition of which topic?"),
        ("faults", {"point": "marker.before", "action": "crash", "topic": ""}, "the field 'topic' cannot be ''"),
        ("faults", {"point": "marker.before", "action": "crash", "at": 0}, "the field 'at' cannot be 0"),
        ("faults", {"point": "marker.before", "action": "crash", "when": 1}, "there is no field 'when'"),
        ("clock", {"milliseconds": -1}, "the field 'milliseconds' cannot be -1"),
        ("clock", {"milliseconds": 1.5}, "cannot be 1.5"),
        ("clock", {"milliseconds": True}, "cannot be True"),
        ("clock", {"milliseconds": 10**18}, "a thousand years ahead at most"),
        ("clock", {}, "the field 'milliseconds' is missing"),
        ("freeze", {"milliseconds": 10**9}, "cannot be 1000000000"),
    ],
)
def test_what_cannot_be_is_refused(broker: Broker, path: str, said: dict[str, object], sentence: str) -> None:
    refused = control(broker, path, **said)
    assert refused.status == 400 and sentence in refused.said["error"]
    assert control(broker, "faults", "GET").said == {"armed": []}


def test_a_body_that_is_no_object_is_refused(broker: Broker) -> None:
    url, json = f"{broker.http_url}/v1/control/clock", {"Content-Type": "application/json"}
    assert ask(url, "POST", data=b'{"milliseconds": 1}', headers={"Content-Type": "text/plain"}).status == 415
    for data in (b"{", b"[]", b"[" * 100_000, b"\xff", b"1" * 5000):
        assert ask(url, "POST", data=data, headers=json).status == 400
    assert ask(url, "POST", data=b" " * (2 << 20), headers=json).status == 413


def half_a_body(broker: Broker) -> socket.socket:
    """A request whose head is here, and whose body is waited for."""
    connection = connect(broker.http_url)
    connection.sendall(
        b"POST /v1/control/clock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    )
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    connection.sendall(b"{")
    return connection


def test_a_body_that_ends_too_early_is_no_bug(broker: Broker) -> None:
    with half_a_body(broker) as connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert ask(f"{broker.http_url}/health/live").status == 200
    assert "Traceback" not in broker.process.log.read_text()


def test_who_does_not_send_the_rest_of_its_request_gives_way(broker: Broker) -> None:
    slow = [half_a_body(broker) for _ in range(MOST_CONNECTIONS)]
    try:
        assert ask(f"{broker.http_url}/health/live").status == 200
    finally:
        for connection in slow:
            connection.close()


def test_it_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with Broker(folder=tmp_path, http=True, control=True) as broker:
        make_topic(broker.bootstrap, "kept")
        write(broker.bootstrap, "kept", [b"x"])
        assert control(broker, "kill").said == {"done": True}
        wait_until(lambda: not broker.process.running, "the end")
        broker.start()
        assert "kept" in admin(broker.bootstrap).list_topics(timeout=60).topics
        assert control(broker, "stop").said == {"done": True}
        wait_until(lambda: not broker.process.running, "the end")
        assert broker.process.stop() == 0


def test_a_broker_that_was_not_started_for_it_refuses(tmp_path: Path) -> None:
    with Broker(folder=tmp_path, http=True) as broker:
        for path in ("clock", "freeze", "thaw", "kill", "stop", "wipe", "faults"):
            refused = control(broker, path, milliseconds=1, point="x", action="y")
            assert refused.status == 403 and "--http-control" in refused.said["error"], path
        assert ask(f"{broker.http_url}/health/live").status == 200


@pytest.mark.parametrize(("command", "program"), [("java", "Control.java"), ("node", "control.mjs")])
def test_a_program_of_another_language_moves_the_clock(broker: Broker, command: str, program: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    before = control(broker, "clock", milliseconds=0).said["ahead_ms"]
    done = subprocess.run(
        [command, str(PROGRAMS / program), broker.http_url], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, f'{{"ahead_ms":{before + 1000}}}'), done.stderr
