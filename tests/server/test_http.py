"""The HTTP side of a broker: who is answered, what health says, and that no client of it holds anything up."""

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.__main__ import _http as http_of
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.listeners import BadListener
from broker.http.address import http_address
from broker.http.bounded_connection import MOST_CONNECTIONS
from broker.http.routes.families import all_operations
from broker.http.serving import HttpSide
from tallystick import Broker, BrokerFailed
from tallystick.process import BrokerProcess
from tests.harness.confluent import make_topic, wait_until, write
from tests.harness.http import ask, connect, is_closed


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(in_memory=True, http=True, config={"tallystick.stall.threshold.ms": 0}) as running:
        yield running
        assert running.process.running, running.process.log_end()
        assert "Traceback" not in running.process.log.read_text()


def test_it_says_that_it_lives_and_is_ready(broker: Broker) -> None:
    assert ask(f"{broker.http_url}/health/live").said == {"live": True, "reasons": []}
    wait_until(lambda: ask(f"{broker.http_url}/health/ready").status == 200, "readiness")
    said = ask(f"{broker.http_url}/health/ready").said
    assert said == {"ready": True, "reasons": [], "held_up": [], "offline_partitions": 0, "offline": []}


def test_what_it_does_not_have_is_said(broker: Broker) -> None:
    unknown, wrong = ask(f"{broker.http_url}/nothing"), ask(f"{broker.http_url}/health/live", "POST")
    assert (unknown.status, unknown.said) == (404, {"error": "there is no such path"})
    assert (wrong.status, wrong.said) == (405, {"error": "there is no such method of this path"})


def test_a_wrong_method_is_told_those_of_the_path(broker: Broker) -> None:
    for path, methods in ask(f"{broker.http_url}/v1/openapi.json").said["paths"].items():
        refused = ask(broker.http_url + path.replace("{", "").replace("}", ""), "PATCH")
        there_are = {name.strip().lower() for name in refused.headers["allow"].split(",")}
        assert (refused.status, there_are - {"head"}) == (405, {*methods}), path
    assert ask(f"{broker.http_url}/v1/lint", "HEAD").status == 200


def test_the_document_names_every_route_there_is(broker: Broker) -> None:
    said = ask(f"{broker.http_url}/v1/openapi.json").said
    documented = {(method.upper(), path) for path, methods in said["paths"].items() for method in methods}
    assert documented == {(one.method, one.path) for one in all_operations()}
    for path, methods in said["paths"].items():
        for method, described in methods.items():
            assert described["summary"] and described["responses"]["200"]["content"], (method, path)
            schema = described.get("requestBody", {"content": {"application/json": {"schema": {}}}})
            needed = schema["content"]["application/json"]["schema"].get("required", [])
            assert schema.get("required", False) == bool(needed), "whoever may leave out the body leaves out its fields"
            if method == "get" and "{" not in path:
                assert str(ask(broker.http_url + path).status) in described["responses"], path


def test_a_page_of_another_site_is_not_answered(broker: Broker) -> None:
    """Its name was made to lead here, or it sends its visitor here: neither reads nor does anything."""
    url = f"{broker.http_url}/health/live"
    asked = ({"Host": "example.com"}, {"Origin": "http://example.com"}, {"Sec-Fetch-Site": "cross-site"})
    assert [ask(url, headers=headers).status for headers in asked] == [403] * len(asked)
    own = {"Origin": broker.http_url, "Sec-Fetch-Site": "same-origin"}
    assert [ask(url, headers=headers).status for headers in (own, {"Host": "localhost:1"})] == [200, 200]


@pytest.mark.parametrize(
    "sent",
    [
        b"no HTTP at all\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(5000)) + b"\r\n",
        b"POST /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=["no-http", "giant-head", "many-heads", "negative-length", "giant-chunk", "websocket"],
)
def test_nonsense_harms_nobody(broker: Broker, sent: bytes) -> None:
    with connect(broker.http_url) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass  # it did not read all that was sent
    assert ask(f"{broker.http_url}/health/live").status == 200


def test_a_body_without_end_is_not_kept(broker: Broker) -> None:
    with connect(broker.http_url) as connection:
        connection.sendall(b"POST /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        with pytest.raises(OSError):
            for _ in range(200):
                connection.sendall(bytes(1 << 20))
    assert ask(f"{broker.http_url}/health/live").status == 200


def test_who_begins_a_request_and_does_not_end_it_gives_way(broker: Broker) -> None:
    """As many half requests as there may be connections, and more; whoever sends a whole one is answered, and clients
    of Kafka notice nothing."""
    make_topic(broker.bootstrap, "meanwhile")
    slow: list[socket.socket] = []
    try:
        for _ in range(3 * MOST_CONNECTIONS):
            slow.append(connect(broker.http_url))
            slow[-1].sendall(b"GET /health/live HTTP/1.1\r\nHost: local")
        assert ask(f"{broker.http_url}/health/live").status == 200
        write(broker.bootstrap, "meanwhile", [b"x"])
        assert is_closed(slow[0])
        slow[-1].sendall(b"host\r\n\r\n")
        assert slow[-1].recv(8) == b"HTTP/1.1"
    finally:
        for connection in slow:
            connection.close()


def test_who_does_not_take_its_answers_gives_way(broker: Broker) -> None:
    """All places are taken by clients that ask and do not read."""
    silent: list[socket.socket] = []
    try:
        for _ in range(MOST_CONNECTIONS):
            silent.append(connect(broker.http_url, receive_buffer=1024))
            silent[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        wait_until(lambda: answered_now(broker), "an answer")
        write(broker.bootstrap, "meanwhile", [b"x"])
    finally:
        for connection in silent:
            connection.close()


def answered_now(broker: Broker) -> bool:
    """Nobody else gives way until an answer is there that is not taken."""
    try:
        return ask(f"{broker.http_url}/health/live").status == 200
    except OSError:
        return False


def test_a_loop_that_stands_still_is_not_alive(broker: Broker) -> None:
    """The whole process is frozen: a question that came meanwhile is answered when it goes on."""
    with connect(broker.http_url) as connection:
        broker.freeze()
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        broker.thaw()
        assert b"200 OK" in connection.recv(1 << 16)


def test_it_keeps_its_port_and_ends_with_the_broker(tmp_path: Path) -> None:
    with Broker(folder=tmp_path, http=True) as broker:
        before = broker.http_url
        Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=60)
        broker.restart()
        assert broker.http_url == before
        assert ask(f"{before}/health/live").status == 200
        os.kill(broker.pid, signal.SIGTERM)
        assert broker.stop() == 0
        assert "Traceback" not in broker.process.log.read_text()


def test_a_token_is_asked_for_everywhere_but_for_health(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    with Broker(in_memory=True, http=True, config={"tallystick.http.token.file": secret}) as broker:
        url = f"{broker.http_url}/v1/openapi.json"
        assert ask(f"{broker.http_url}/health/live", headers={"Host": "example.com"}).status == 200
        refused = ask(url)
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        given = ("Bearer s3cret", "bearer  s3cret", "Bearer s3cre", "Basic s3cret", "s3cret", "Bearer s\xe9cret")
        assert [ask(url, headers={"Authorization": one}).status for one in given] == [200, 200, *[401] * 4]


def settings(**given: object) -> BrokerConfig:
    return BrokerConfig({f"tallystick.http{name.replace('_', '.')}": str(value) for name, value in given.items()})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"": "0.0.0.0:0"}, "is reached from other machines, and nothing guards it"),
        ({"": "broker.example.com:1"}, "is reached from other machines"),
        ({"": "[::]:0"}, "is reached from other machines"),
        ({"": "here"}, "'here' is no address; it should look like 127.0.0.1:9644"),
        ({"": "127.0.0.1:70000"}, "is no address"),
        ({"": "0", "_token_file": "nowhere"}, "nowhere cannot be read"),
        ({"": "0", "_token_file": os.devnull}, "is to hold one token"),
        ({"": "0.0.0.0:0", "_trusted_network": "true", "_control": "true"}, "control needs a token"),
    ],
)
def test_an_address_that_cannot_be_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        http_address(settings(**given))


def test_addresses_that_can_be(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    local = [http_address(settings(**{"": text})) for text in ("0", ":1", "localhost:2", "[::1]:3", "127.1.2.3:4")]
    assert [str(one.endpoint) for one in local] == [
        "127.0.0.1:0",
        "127.0.0.1:1",
        "localhost:2",
        "[::1]:3",
        "127.1.2.3:4",
    ]
    assert all(one.is_local and one.token is None for one in local)
    trusted = http_address(settings(**{"": "0.0.0.0:0", "_trusted_network": "true"}))
    assert not trusted.is_local and trusted.token is None
    assert http_address(settings(**{"": "0.0.0.0:0", "_token_file": secret})).token == "s3cret"


def test_a_port_that_cannot_be_had_is_named() -> None:
    with pytest.raises(BadListener, match=re.escape("cannot listen on 192.0.2.1:0")):
        HttpSide(settings(**{"": "192.0.2.1:0", "_trusted_network": "true"}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--http", "0.0.0.0:0"), "nothing guards it"),
        (("--http-control",), "there is no HTTP side"),
        (("--http", "::1:0", "--http-trusted-network", "--http-token-file", "nowhere"), "nowhere cannot be read"),
    ],
)
def test_a_broker_that_cannot_tell_as_it_is_told_does_not_start(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    with pytest.raises(BrokerFailed, match=f"status 2(.|\n)*{says}"):
        BrokerProcess(tmp_path, options=options).start()


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("broker.http.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(ConfigError, match=r"needs starlette.applications: pip install 'tallystick\[http\]'"):
        http_of(settings(**{"": "0"}))
