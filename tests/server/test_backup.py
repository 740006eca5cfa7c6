"""A broker is backed up under load and restored: whole transactions, offsets that belong to them, nothing that was
acknowledged missing; and what is left of a backup that was killed.
"""

import json
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition

from broker.backups.__main__ import main as copy
from broker.config.broker_config import BrokerConfig
from broker.http.operation import Problem
from broker.http.routes.backups import _pins
from broker.offline.__main__ import main as look
from broker.upkeep.pinned_moments import PINS_FOLDER
from tallystick import Broker
from tallystick.cli.commands import GROUPS
from tallystick.startup_guard import BACKUPS, OFFLINE
from tests.harness.confluent import admin, consumer, make_topic, producer, read_all, values_of, wait_until, write
from tests.harness.http import ask

SETTINGS = {
    "log.cleaner.backoff.ms": 50,
    "log.retention.check.interval.ms": 50,
    "log.segment.delete.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.segment.bytes": 20_000,
    "transaction.state.log.segment.bytes": 20_000,
    "log.flush.offset.checkpoint.interval.ms": 50,
}
PLACES = [("a", 0), ("a", 1), ("b", 0)]
WRITERS = ("w1", "w2")
LONG_S = 120


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("backup") / "broker"
    with Broker(folder=folder, http=True, control=True, config=SETTINGS) as running:
        bootstrap = running.bootstrap
        make_topic(bootstrap, "a", 2, segment__ms="200")
        make_topic(bootstrap, "b", segment__ms="200")
        make_topic(bootstrap, "source")
        make_topic(bootstrap, "c", cleanup__policy="compact", segment__ms="200", min__cleanable__dirty__ratio="0.0")
        make_topic(bootstrap, "r", segment__ms="200", retention__bytes="40000", file__delete__delay__ms="0")
        write(bootstrap, "source", [b"x"] * 3_000)
        yield running
        assert "Traceback" not in running.process.log.read_text()


@dataclass(frozen=True)
class Typed:
    """What a command has said."""

    stdout: str
    stderr: str


def typed(*words: object, status: int = 0) -> Typed:
    """A command, here and now: it becomes another process only where a test kills it."""
    said = [str(word) for word in words]
    command = getattr(import_module(GROUPS[said[0]][0]), said[0])

    def become(name: str, arguments: list[str]) -> None:
        main = {OFFLINE: look, BACKUPS: copy}[name]
        sys.exit(main(arguments[0], arguments[1:]))

    files = "tallystick.cli.files"
    with patch(f"{files}.backup.become_guarded", become), patch(f"{files}.offline.become_guarded", become):
        done = CliRunner().invoke(command, said[1:])
    assert done.exit_code == status, (done.output, done.exc_info)
    return Typed(done.stdout, done.stderr)


def backed_up(broker: Broker, target: Path) -> str:
    done = typed("backup", "create", target, "--http", broker.http_url, "--json")
    return str(json.loads(done.stdout)["id"])


@dataclass
class Load:
    """Writers that go on until they are told to end, and what they know for certain."""

    bootstrap: str
    ended: threading.Event = field(default_factory=threading.Event)
    committed: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in WRITERS})
    aborted: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    latest: dict[bytes, int] = field(default_factory=dict[bytes, int])

    def transactions(self, name: str) -> None:
        """Each is a record in each place, and an offset of the group: the number of the next one."""
        writer = producer(self.bootstrap, transactional__id=name)
        writer.init_transactions(LONG_S)
        group = consumer(self.bootstrap, group__id=f"group-{name}")
        number = 0
        while not self.ended.is_set() and number < 2_999:
            writer.begin_transaction()
            for topic, partition in PLACES:
                writer.produce(topic, f"{name}:{number}".encode().ljust(200), partition=partition)
            offsets = [TopicPartition("source", 0, number + 1)]
            writer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), LONG_S)
            if number % 4 == 3:
                writer.abort_transaction(LONG_S)
                self.aborted[name].append(number)
            else:
                writer.commit_transaction(LONG_S)
                self.committed[name].append(number)
            number += 1
        group.close()

    def keys(self) -> None:
        number = 0
        while not self.ended.is_set():
            number += 1
            write(self.bootstrap, "c", [b"%d=%d" % (key, number) for key in range(5)])
            self.latest = {b"%d" % key: number for key in range(5)}
            write(self.bootstrap, "r", [b"x" * 1_000] * 20)

    def topics(self) -> None:
        """Made and deleted."""
        asker = admin(self.bootstrap)
        while not self.ended.is_set():
            make_topic(self.bootstrap, "comes-and-goes", 2)
            write(self.bootstrap, "comes-and-goes", [b"x"] * 10)
            asker.delete_topics(["comes-and-goes"])["comes-and-goes"].result(LONG_S)

    def certain(self) -> tuple[dict[str, int], dict[bytes, int]]:
        """How many transactions are committed, and the latest value of each key, at least."""
        return {name: len(found) for name, found in self.committed.items()}, dict(self.latest)


def test_under_load(broker: Broker, tmp_path: Path) -> None:
    load, target = Load(broker.bootstrap), tmp_path / "kept"
    certain: dict[str, tuple[dict[str, int], dict[bytes, int]]] = {}
    with ThreadPoolExecutor(4) as threads:
        works = [threads.submit(load.transactions, name) for name in WRITERS]
        works += [threads.submit(load.keys), threads.submit(load.topics)]
        try:
            wait_until(lambda: load.latest and min(map(len, load.committed.values())) > 5, "the load")
            for _ in range(4):
                known = load.certain()
                certain[backed_up(broker, target)] = known
                wait_until(lambda known=known: load.certain()[0] != known[0], "it goes on")
        finally:
            load.ended.set()
        for work in works:
            work.result()
    assert len(set(certain)) == 4
    typed("backup", "check", target)
    for number, (backup_id, known) in enumerate(certain.items()):
        folder = tmp_path / backup_id
        typed("restore", target, folder / "data", "--backup", backup_id)
        assert "whole" in typed("verify", folder / "data", "--records").stdout
        if number in (1, 3):
            check_restored(folder, load, *known)
    kept = list(certain)[-1]
    typed("backup", "prune", target, "--keep", "1")
    typed("restore", target, tmp_path / "pruned" / "data", "--backup", kept)
    assert tree(tmp_path / "pruned" / "data").keys() >= {"meta.properties", "tallystick.format"}
    assert [one["id"] for one in json.loads(typed("backup", "list", target, "--json").stdout)] == [kept]


def tree(root: Path) -> dict[str, bytes]:
    return {str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()}


def check_restored(folder: Path, load: Load, least: dict[str, int], latest: dict[bytes, int]) -> None:
    with Broker(folder=folder, control=True, config=SETTINGS) as again:
        bootstrap = again.bootstrap
        for name in least:  # ends what was undecided
            producer(bootstrap, transactional__id=name).init_transactions(LONG_S)
        seen: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for message in [*read_all(bootstrap, "a"), *read_all(bootstrap, "b")]:
            name, number = message.value().decode().strip().split(":")
            seen[name][int(number)] += 1
        for name, count in least.items():
            found = sorted(seen[name])
            assert set(seen[name].values()) == {len(PLACES)}, "each transaction is whole"
            assert found == load.committed[name][: len(found)], "none that was aborted, none left out"
            assert len(found) >= count, "what was acknowledged is there"
            reader = consumer(bootstrap, group__id=f"group-{name}")
            offset = reader.committed([TopicPartition("source", 0)], timeout=LONG_S)[0].offset
            reader.close()
            assert offset == found[-1] + 1, "and the offset that was committed in the last of them"
        values = (value.split(b"=") for value in values_of(read_all(bootstrap, "c")))
        found_latest = {key: int(number) for key, number in values}
        assert {key: found_latest[key] >= number for key, number in latest.items()} == dict.fromkeys(latest, True)
        assert again.open_transactions() == []
        write(bootstrap, "a", [b"w1:9999"])
        again.audit()


def test_one_that_is_killed_leaves_nothing_behind(broker: Broker, tmp_path: Path) -> None:
    target = tmp_path / "kept"
    first = backed_up(broker, target)
    command = [sys.executable, "-m", "tallystick", "backup", "create", target, "--http", broker.http_url, "--whole"]

    def unfinished() -> list[Path]:
        return list((target / "packs").glob("*.being-written"))

    def killed() -> bool:
        """In the middle of it, if it was not too fast."""
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: unfinished() or process.poll() is not None, "its beginning")
            process.send_signal(signal.SIGKILL)
        return bool(unfinished())

    wait_until(killed, "one that is killed in the middle")
    said = json.loads(typed("backup", "list", target, "--json").stdout)
    assert said[0]["id"] == first and said[0]["state"] == "whole"
    assert said[-1]["state"] == "unfinished"
    typed("backup", "check", target)
    moments = broker.process.data / PINS_FOLDER
    assert list(moments.iterdir())
    broker.advance_time("2m")
    wait_until(lambda: not list(moments.iterdir()), "the broker lets go of its moment")
    assert (
        f"the backup {said[-1]['id']} had not come"
        in typed("backup", "create", target, "--http", broker.http_url).stderr
    )
    assert unfinished() == []
    typed("backup", "check", target)


def test_a_stopped_broker_and_one_that_was_killed(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    with Broker(folder=tmp_path / "broker", durability="page-cache") as broker:
        make_topic(broker.bootstrap, "t", segment__bytes=str(1 << 20))
        write(broker.bootstrap, "t", [b"%03d" % number * 2_000 for number in range(500)])
        refused = typed("backup", "create", target, "--data-dir", broker.process.data, status=1).stderr
        assert f"in use by process {broker.pid}" in refused and "--http" in refused
        broker.kill()
        typed("backup", "create", target, "--data-dir", broker.process.data)
        broker.start()
        write(broker.bootstrap, "t", [b"later"])
    inside = typed("backup", "create", broker.process.data / "kept", "--data-dir", broker.process.data, status=1)
    assert "is in the data folder" in inside.stderr
    new = json.loads(typed("backup", "create", target, "--data-dir", broker.process.data, "--json").stdout)
    assert 0 < new["newBytes"] < new["bytes"] / 2 and new["running"] is False
    first = json.loads(typed("backup", "list", target, "--json").stdout)[0]["id"]
    for backup_id, count in ((first, 500), (new["id"], 501)):
        folder = tmp_path / backup_id
        typed("restore", target, folder / "data", "--backup", backup_id)
        assert "whole" in typed("verify", folder / "data").stdout
        with Broker(folder=folder) as again:
            assert len(read_all(again.bootstrap, "t")) == count
            assert admin(again.bootstrap).list_topics(timeout=LONG_S).cluster_id == new["clusterId"]
    assert "not empty" in typed("restore", target, folder / "data", status=1).stderr
    piece = max((one for one in (target / "packs").iterdir()), key=lambda one: one.stat().st_size)
    piece.write_bytes(b"?" + piece.read_bytes()[1:])
    assert piece.name in typed("restore", target, tmp_path / "damaged", status=3).stderr
    assert json.loads(typed("backup", "check", target, "--json", status=3).stdout)["whole"] is False
    assert not (tmp_path / "damaged").exists()


def test_who_may_ask_and_what_has_no_files(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    config = {"tallystick.http.token.file": token}
    with Broker(folder=tmp_path / "broker", http=True, in_memory=True, config=config) as broker:
        words = ("backup", "create", tmp_path / "kept", "--http", broker.http_url)
        assert "carries the token" in typed(*words, status=1).stderr
        in_memory = typed(*words, "--http-token-file", token, status=1).stderr
        assert "keeps everything in memory" in in_memory
        headers = {"Authorization": "Bearer secret"}
        assert ask(f"{broker.http_url}/v1/backups/none", headers=headers).status == 409
    assert not (tmp_path / "kept").exists()
    assert "where is the broker?" in typed("backup", "create", tmp_path / "kept", status=2).stderr
    assert "which ones?" in typed("backup", "prune", tmp_path, status=2).stderr
    assert "no folder of backups" in typed("backup", "list", tmp_path, status=1).stderr
    assert "no data folder" in typed("backup", "create", tmp_path / "k", "--data-dir", tmp_path, status=1).stderr
    assert "cannot be asked" in typed("backup", "create", tmp_path / "k", "--http", broker.http_url, status=1).stderr


def test_no_moment_for_a_network_that_is_only_trusted() -> None:
    config = BrokerConfig({"tallystick.http": "0.0.0.0:1", "tallystick.http.trusted.network": "true"})
    with pytest.raises(Problem, match="backups need a token"):
        _pins(SimpleNamespace(node=SimpleNamespace(config=config)))  # type: ignore[arg-type]


def test_a_moment_over_http(broker: Broker) -> None:
    url = f"{broker.http_url}/v1/backups"
    assert ask(f"{url}/none").status == 404
    assert ask(f"{url}/none", "DELETE").said == {"released": False}
    assert ask(url, "POST", body={"folder": "/"}).status == 400
    made = ask(url, "POST").said
    wait_until(lambda: ask(f"{url}/{made['id']}").said["state"] == "ready", "its links")
    assert Path(made["folder"]).parent == broker.process.data / PINS_FOLDER
    assert ask(f"{url}/{made['id']}", "DELETE").said == {"released": True}
    assert not Path(made["folder"]).exists()
