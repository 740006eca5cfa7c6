"""Listeners by their names: each has an address and settings of its own; and addresses that are known only later."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import ApiVersionsRequest, MetadataRequest
from tallystick import Broker
from tallystick.client.blocking import BlockingClient
from tallystick.process import BrokerProcess
from tests.harness.confluent import wait_until
from tests.harness.proxy import free_port
from tests.server.wire import Wire

OPTIONS = (
    *("--listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
    *("--set", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
    *("--set", "listener.name.outside.max.connections=2"),
    "--in-memory",
)
BROKER, SET = 4, 0


def set_to(name: str, value: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=SET, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def test_the_limit_of_one_listener_does_not_hold_for_another(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, options=OPTIONS).start()
    try:
        inside, outside = (cast(Broker, SimpleNamespace(bootstrap=address)) for address in process.bootstrap.split(","))
        wires = [Wire(outside) for _ in range(2)]
        for wire in wires:
            assert wire.ask(ApiVersionsRequest(), 0).error_code == 0  # type: ignore[attr-defined]
        assert Wire(outside).closed()
        others = [Wire(inside) for _ in range(3)]
        answers = [wire.ask(ApiVersionsRequest(), 0) for wire in others]
        assert [answer.error_code for answer in answers] == [0, 0, 0]  # type: ignore[attr-defined]
        changed = others[0].ask(set_to("listener.name.outside.max.connections", "3"), 0)
        assert changed.responses[0].error_code == 0  # type: ignore[attr-defined]
        assert Wire(outside).ask(ApiVersionsRequest(), 0).error_code == 0  # type: ignore[attr-defined]
    finally:
        process.close()


WAITING = "waiting for the addresses that clients are to be told"
Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Started]:
    """Starts a broker that waits for `told` in the folder; it has said that it does."""
    started: list[subprocess.Popen[str]] = []

    def start(port: int = 0) -> "subprocess.Popen[str]":
        options = ["--in-memory", "--port", str(port), "--ready-file", str(tmp_path / "ready")]
        options += ["--advertised-listeners-file", str(tmp_path / "told")]
        command = [sys.executable, "-m", "tallystick", "serve", *options]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        said = started[-1].stderr
        assert said is not None and any(WAITING in line for line in said)
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_clients_are_told_what_is_written_after_the_start(waiting: Started, tmp_path: Path) -> None:
    port = free_port()
    process = waiting(port)
    (tmp_path / "told").write_text("PLAINTEXT://outside.example:4711\n")
    wait_until((tmp_path / "ready").exists, "a broker that serves")
    with BlockingClient(f"127.0.0.1:{port}") as client:
        (broker,) = client.ask(MetadataRequest(topics=[])).brokers
    assert (broker.host, broker.port) == ("outside.example", 4711)
    process.terminate()
    assert process.wait(60) == 0


def test_who_waits_for_an_address_ends_when_told(waiting: Started) -> None:
    process = waiting()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("\n", "names no address"),
        ("PLAINTEXT://0.0.0.0:9092\n", "is no address a client can connect to"),
        ("OTHER://host:9092\n", "there is no listener called OTHER"),
        ("x" * 70_000, "is too long"),
    ],
)
def test_a_line_that_is_no_address_ends_it_with_a_sentence(
    waiting: Started, tmp_path: Path, line: str, sentence: str
) -> None:
    process = waiting()
    (tmp_path / "written").write_text(line)
    (tmp_path / "written").rename(tmp_path / "told")
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, sentence in said) == (2, True), said
