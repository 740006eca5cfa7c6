"""`tallystick spark` as people run it: in a process of its own, against a real broker, with sinks in every state."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from protocol.records.record import NewRecord, build_batch
from spark_connector.progress import Marker, ProgressTopic, progress_key
from tallystick.client.background import now_ms
from tallystick.client.client import LATEST, Client
from tallystick.client.errors import Fenced
from tallystick.client.lease import Lease, commit_offsets, end_transaction, take_lease
from tallystick.client.sender import Sender
from tests.harness.confluent import make_topic, write
from tests.harness.proxy import free_port
from tests.harness.secure_broker import MODULES, sasl_settings, secure_broker

PATIENCE_S = 120.0


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tallystick", "spark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class Sink:
    """A sink as a query leaves it, made request by request; its control topic is its own."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.id = f"{name}-sink"
        self.topic = make_topic(bootstrap, f"{name}-out")
        self.control = f"{name}-control"

    def run(self, story: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        async def whole() -> Any:
            client = await Client.connect(self.bootstrap)
            try:
                return await story(client)
            finally:
                await client.close()

        return asyncio.run(whole())

    def batch(self, query: str, number: int, source: list[str], *, commit: bool, group: str | None = None) -> Lease:
        """One micro-batch of three records; left open where it is not committed."""

        async def story(client: Client) -> Lease:
            lease = await take_lease(client, self.id, timeout_ms=60_000, patience_s=PATIENCE_S)
            progress = ProgressTopic(client, self.control, PATIENCE_S)
            await progress.ensure()
            values = [NewRecord(value=b"%d" % record, timestamp_ms=now_ms()) for record in range(3)]
            rows = bytearray(build_batch(values, transactional=True))
            marker = Marker(number, source, {self.topic: {"0": 3}}, now_ms())
            sender = Sender(client, lease, patience_s=PATIENCE_S)
            await sender.offer([((self.topic, 0), rows), progress.batch(progress_key(self.id, query), marker)])
            await sender.flush()
            if group is not None:
                await commit_offsets(client, lease, group, {(self.topic, 0): 2}, patience_s=PATIENCE_S)
            if commit:
                await end_transaction(client, lease, commit=True, patience_s=PATIENCE_S)
                await take_lease(client, self.id, timeout_ms=60_000, patience_s=PATIENCE_S)  # Now it is settled.
            return lease

        return self.run(story)

    def ask(self, command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        where = ("--bootstrap-server", self.bootstrap, "--progress-topic", self.control)
        return run_command(command, *arguments, *where)

    def ends(self) -> tuple[int, int]:
        """Where the target ends for readers of committed records, and where it ends."""

        async def story(client: Client) -> tuple[int, int]:
            return (
                await client.offset_at(self.topic, 0, LATEST, read_committed=True),
                await client.offset_at(self.topic, 0, LATEST),
            )

        return self.run(story)


@pytest.fixture
def sink(bootstrap: str, name: str) -> Sink:
    return Sink(bootstrap, name)


def test_a_sink_between_two_batches(sink: Sink, name: str) -> None:
    """The last committed batch of each query, what it wrote, and how much of its source has come since."""
    make_topic(sink.bootstrap, f"{name}-in", 2)
    write(sink.bootstrap, f"{name}-in", [b"x"] * 10, partition=1)
    source = [json.dumps({f"{name}-in": {"0": 0, "1": 4}, f"{name}-elsewhere": {"0": 9}})]
    sink.batch("old", 7, source, commit=True)
    sink.batch("new", 0, source, commit=True)
    sink.batch("new", 1, source, commit=True, group=f"{name}-group")
    state = json.loads(sink.ask("describe", sink.id, "--json", "--group", f"{name}-group").stdout)
    assert state["transaction"]["open"] is False
    assert [(query["query"], query["batch"]) for query in state["queries"]] == [("new", 1), ("old", 7)]
    newest = state["queries"][0]
    assert newest["records"] == {sink.topic: {"0": 3}} and newest["lag"] == 6
    assert [(p["topic"], p["partition"], p["offset"], p["end"]) for p in newest["source"]] == [
        (f"{name}-elsewhere", 0, 9, None),
        (f"{name}-in", 0, 0, 0),
        (f"{name}-in", 1, 4, 10),
    ]
    assert state["group_lag"] == sink.ends()[1] - 2
    shown = sink.ask("describe", sink.id).stdout
    assert "none open" in shown and "last batch 1" in shown and f"{name}-in: lag 6 in 2 partitions" in shown
    shown = sink.ask("progress", sink.id).stdout
    assert f"{name}-in-1  up to 4 of 10, lag 6" in shown and f"{sink.topic}-0  3 records" in shown
    assert "not on this cluster" in shown


def test_an_open_transaction_of_a_dead_query_can_be_aborted(sink: Sink) -> None:
    """Its marker counts for nothing; after the end readers go on, and its writer is fenced (KIP-360)."""
    sink.batch("q", 3, [], commit=True)
    left = sink.batch("q", 4, [], commit=False)
    state = json.loads(sink.ask("describe", sink.id, "--json").stdout)
    found = state["transaction"]
    assert (found["state"], found["open"], found["producer_id"]) == ("Ongoing", True, left.producer_id)
    assert found["producer_epoch"] == left.producer_epoch and found["age_ms"] >= 0
    assert f"{sink.topic}-0" in found["partitions"] and len(found["partitions"]) == 2
    assert [query["batch"] for query in state["queries"]] == [3]
    stable, end = sink.ends()
    assert stable < end
    done = sink.ask("abort-open", sink.id)
    assert done.returncode == 0 and "aborted" in done.stdout, done.stderr
    stable, end = sink.ends()
    assert stable == end

    async def late(client: Client) -> None:
        with pytest.raises(Fenced):
            await end_transaction(client, left, commit=True, patience_s=PATIENCE_S)

    sink.run(late)
    again = sink.ask("abort-open", sink.id, "--json")
    assert again.returncode == 0 and json.loads(again.stdout) == {"sink": sink.id, "ended": None}
    sink.batch("q", 4, [], commit=True)
    assert [query["batch"] for query in json.loads(sink.ask("describe", sink.id, "--json").stdout)["queries"]] == [4]


def test_all_sinks_by_line(sink: Sink) -> None:
    assert sink.ask("progress").stdout == "no sink has committed a batch yet\n"
    sink.batch("q", 11, [], commit=True)
    assert sink.ask("progress").stdout.startswith(f"{sink.id}  query q  batch 11  ")
    sinks = json.loads(sink.ask("progress", "--json").stdout)["sinks"]
    assert [marker["batch"] for marker in sinks[sink.id]] == [11]


@pytest.mark.parametrize("command", ["describe", "progress", "abort-open"])
def test_a_sink_that_nobody_knows(sink: Sink, command: str) -> None:
    """A misspelt id is not made by asking for it."""
    for _ in range(2):
        done = sink.ask(command, f"{sink.id}-misspelt")
        assert (done.returncode, done.stdout) == (1, "")
        assert "misspelt" in done.stderr and "option sinkId" in done.stderr


def test_a_control_topic_with_something_else_in_it(sink: Sink) -> None:
    make_topic(sink.bootstrap, sink.control)
    write(sink.bootstrap, sink.control, [b"not a marker"])
    done = sink.ask("progress")
    assert done.returncode == 0 and "passed over" in done.stderr and "Traceback" not in done.stderr


def test_no_broker_and_no_address() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    done = run_command("describe", "x", "--bootstrap-server", nobody)
    assert done.returncode == 1 and f"no broker answers at {nobody}" in done.stderr
    assert run_command("describe", "x", "--bootstrap-server", "localhost").returncode == 2
    assert run_command("describe", "x").returncode == 2


def test_a_secured_cluster_is_spoken_to_by_a_file_of_settings(tmp_path: Path) -> None:
    """The file that Kafka's own tools take."""
    broker = secure_broker(tmp_path / "broker", sasl_settings({"ute": "secret"}), "SASL_PLAINTEXT")
    settings = tmp_path / "client.properties"
    where = ("--bootstrap-server", broker.bootstrap, "--command-config", str(settings))

    def told(password: str) -> "subprocess.CompletedProcess[str]":
        settings.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULES}.plain.PlainLoginModule required username="ute" password="{password}";\n'
        )
        return run_command("progress", *where)

    try:
        shown = told("secret")
        assert (shown.returncode, shown.stdout) == (0, "no sink has committed a batch yet\n"), shown.stderr
        refused = told("guessed")
        assert refused.returncode == 1 and "SASL_AUTHENTICATION_FAILED" in refused.stderr
        settings.write_text("security.protocol=SASL_PLAINTEXT\n")
        unusable = run_command("progress", *where)
        assert unusable.returncode == 1 and "sasl.mechanism is missing" in unusable.stderr
    finally:
        broker.process.close()
