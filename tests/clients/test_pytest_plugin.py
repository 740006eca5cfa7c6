"""The fixture as users have it: a project of its own, whose tests run in a pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.broker import KAFKA

pytestmark = pytest.mark.skipif(KAFKA, reason="it is our broker's")

HEAD = """
import pytest, tallystick as package
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

def topics(broker):
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics)

def write(broker, topic):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
"""


def run(folder: Path, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_it.py").write_text(HEAD + text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TALLYSTICK"))}
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def passes(folder: Path, text: str, *options: str) -> str:
    done = run(folder, text, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_test_finds_a_broker_without_topics(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
seen = []

@pytest.mark.parametrize("ends", ["", "freeze", "kill", "stop", "fault", ""])
def test_one(tallystick, ends):
    assert topics(tallystick) == set()
    write(tallystick, "orders")
    assert topics(tallystick) == {"orders"}
    seen.append(tallystick.bootstrap)
    if ends == "fault":
        tallystick.fault("request.Metadata", "drop", times=None)
    elif ends:
        getattr(tallystick, ends)()

def test_it_was_one_broker():
    assert len(seen) == 6 and len(set(seen)) == 1
""",
    )


def test_the_marker_asks_for_another_broker_that_is_shared(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
seen = []

@pytest.mark.tallystick(set={"num.partitions": 3})
@pytest.mark.parametrize("number", [1, 2])
def test_one(tallystick, number):
    write(tallystick, "orders")
    found = AdminClient({"bootstrap.servers": tallystick.bootstrap}).list_topics("orders", timeout=30)
    assert len(found.topics["orders"].partitions) == 3
    seen.append(tallystick.bootstrap)

def test_two(tallystick, tallystick_session, tallystick_factory):
    assert seen[0] == seen[1] != tallystick.bootstrap
    own = tallystick_factory(durability="fsync")
    write(tallystick_session, "kept")
    write(own, "own")
    assert (topics(tallystick), topics(own)) == (set(), {"own"})

def test_three(tallystick_session):
    assert topics(tallystick_session) == {"kept"}
""",
        "--strict-markers",
    )


def test_what_fails_brings_the_log_and_what_is_open(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
def test_one(tallystick):
    producer = Producer({"bootstrap.servers": tallystick.bootstrap, "transactional.id": "copier"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(30)
    assert "the money" == "where it should be"

def test_two(tallystick):
    tallystick.kill()
    assert False
""",
    )
    assert done.returncode == 1 and "2 failed" in done.stdout
    first, second = done.stdout.split("test_two ___")
    assert "tallystick: log" in first and "node started" in first
    opened, timeline = first.split("tallystick: open transactions")[1].split("tallystick: timeline of copier")
    assert "transactional id 'copier'" in opened and "'copier' is held by client 'rdkafka' at 127.0.0.1:" in opened
    assert "--http" not in opened, "a fixture's broker has no HTTP side"
    assert "InitProducerId" in timeline
    assert "the broker does not run" in second


def test_a_fixture_that_fails_brings_them_too(tmp_path: Path) -> None:
    text = """
@pytest.fixture
def orders(tallystick):
    assert "orders" in topics(tallystick)

def test_one(orders):
    pass
"""
    done = run(tmp_path, text)
    assert done.returncode == 1 and "1 error" in done.stdout
    assert "tallystick: log" in done.stdout and "Nothing is held" in done.stdout


def test_equal_wishes_are_one_broker(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
seen = {}

def same(name, broker):
    return seen.setdefault(name, broker.bootstrap) == broker.bootstrap

@pytest.mark.tallystick(set={"num.partitions": 3, "log.retention.ms": 60000})
def test_one(tallystick):
    assert same("three", tallystick)

@pytest.mark.tallystick(set={"log.retention.ms": "60000", "num.partitions": 3})
def test_two(tallystick):
    assert same("three", tallystick)

def test_three(tallystick):
    assert same("any", tallystick)

@pytest.mark.tallystick(durability="page-cache", set={})
def test_four(tallystick):
    assert same("any", tallystick)
""",
    )


def test_the_next_test_has_the_time_of_day(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
import time
from confluent_kafka.admin import NewTopic

@pytest.mark.parametrize("number", [1, 2])
def test_one(tallystick, number):
    config = {"message.timestamp.type": "LogAppendTime"}
    made = AdminClient({"bootstrap.servers": tallystick.bootstrap})
    made.create_topics([NewTopic("orders", 1, config=config)])["orders"].result(30)
    producer, stamps = Producer({"bootstrap.servers": tallystick.bootstrap}), []
    producer.produce("orders", b"x", on_delivery=lambda _, record: stamps.append(record.timestamp()[1]))
    assert producer.flush(30) == 0
    assert abs(stamps[0] / 1000 - time.time()) < 86400
    tallystick.advance_time("30d")
""",
    )


def test_what_a_test_leaves_open_is_not_there_for_the_next(tmp_path: Path) -> None:
    """Killed, too: then it is wiped while it still reads what it knows, and stays the same one, without a warning."""
    passes(
        tmp_path,
        """
seen = set()

@pytest.mark.parametrize("killed", [False, True, False])
def test_one(tallystick, killed):
    seen.add(tallystick.bootstrap)
    assert tallystick.open_transactions() == []
    producer = Producer({"bootstrap.servers": tallystick.bootstrap, "transactional.id": "copier"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(30)
    assert len(tallystick.open_transactions()) == 1
    if killed:
        tallystick.kill()

def test_it_was_one_broker():
    assert len(seen) == 1
""",
        "-W",
        "error::pytest.PytestWarning",
    )


def test_another_broker_takes_the_place_of_one_that_does_not_start(tmp_path: Path) -> None:
    said = passes(
        tmp_path,
        """
def test_one(tallystick):
    tallystick.stop()
    (tallystick.process.data / "meta.properties").write_text("nonsense")

def test_two(tallystick):
    write(tallystick, "orders")
    tallystick.close()

def test_three(tallystick):
    assert topics(tallystick) == set()
""",
    )
    assert "another broker takes its place" in said


def test_nothing_but_tallystick_comes_into_the_users_process(tmp_path: Path) -> None:
    for name in ("broker", "protocol", "storage", "coordinator", "keystores", "spark_connector"):
        (tmp_path / f"{name}.py").write_text(f"OWNER = 'the user of {name}'\n")
    passes(
        tmp_path,
        """
import sys

def test_one(tallystick):
    import broker, coordinator, keystores, protocol, spark_connector, storage
    assert broker.OWNER and coordinator.OWNER and keystores.OWNER and protocol.OWNER and storage.OWNER
    write(tallystick, "orders")
    tallystick.restart(kill=True)
    assert topics(tallystick) == {"orders"}
    ours = {name.partition(".")[0] for name in sys.modules if getattr(sys.modules[name], "__file__", None)
            and str(package.__path__[0]).rpartition("/")[0] in str(sys.modules[name].__file__)
            and "site-packages" not in str(sys.modules[name].__file__)}
    assert ours <= {"tallystick"}, ours
""",
    )


def test_each_worker_of_xdist_has_its_own(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
@pytest.mark.parametrize("number", range(6))
def test_one(tallystick, number):
    assert topics(tallystick) == set()
    write(tallystick, f"orders-{number}")
    assert topics(tallystick) == {f"orders-{number}"}
""",
        "-n",
        "2",
    )


def test_the_page_about_it_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "pytest.md").read_text()
    examples = [block.partition("```")[0] for block in page.split("```py\n")[1:]]
    assert "5 passed" in passes(tmp_path, "\n".join(examples))


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("nodes=0", "has no 0 nodes; there are 1 to 16"),
        ("durabilty='fsync'", "has no option 'durabilty'; there are durability, set, tls"),
        ("durability='disk'", "has no durability 'disk'; there are page-cache and fsync"),
        ("'fsync'", "takes its options by name"),
        ("set='num.partitions=3'", "takes settings as set={'num.partitions': 3}"),
        ("set={'num.partitons': 3}", "There is no setting called 'num.partitons'."),
    ],
)
def test_what_a_marker_cannot_have_is_refused_in_a_sentence(tmp_path: Path, wish: str, said: str) -> None:
    done = run(tmp_path, f"\n@pytest.mark.tallystick({wish})\ndef test_one(tallystick):\n    pass\n")
    assert done.returncode == 1 and "1 error" in done.stdout
    assert said in done.stdout
    assert "pytest_plugin.py" not in done.stdout, "a traceback of ours says nothing to a user"


def test_one_node_is_what_there_is(tmp_path: Path) -> None:
    passes(tmp_path, "\n@pytest.mark.tallystick(nodes=1)\ndef test_one(tallystick):\n    pass\n")


def test_several_nodes_that_run_again_for_the_next_test(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
@pytest.mark.tallystick(nodes=3)
@pytest.mark.parametrize("number", range(2))
def test_one(tallystick, number):
    assert sorted(tallystick.node_addresses()) == [1, 2, 3]
    assert "orders" not in topics(tallystick)
    write(tallystick, "orders")
    tallystick.kill_node(2)
    tallystick.kill_node(tallystick.controller())
    write(tallystick, "orders")
    assert len(tallystick.node_addresses()) == 1
""",
    )


def test_a_broker_with_tls(tmp_path: Path) -> None:
    """Everything that asks it goes through TLS: clients, the audit, a fork, what is said of a test that fails."""
    done = run(
        tmp_path,
        """
from confluent_kafka import KafkaException

@pytest.mark.tallystick(tls=True)
def test_one(tallystick):
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": tallystick.bootstrap}).list_topics(timeout=3)

@pytest.mark.tallystick(tls=True)
def test_two(tallystick):
    assert tallystick.ca_file.read_text().startswith("-----BEGIN CERTIFICATE")
    producer = Producer({**tallystick.client_settings, "transactional.id": "copier"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(30)
    tallystick.audit()
    with tallystick.fork() as fork:
        assert set(AdminClient(fork.client_settings).list_topics(timeout=30).topics) >= {"orders"}
        fork.audit()
    tallystick.restart(kill=True)
    assert set(AdminClient(tallystick.client_settings).list_topics(timeout=30).topics) >= {"orders"}
    assert False
""",
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "transactional id 'copier'" in done.stdout.split("tallystick: open transactions")[1]


def test_settings_of_a_client_without_tls(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
def test_one(tallystick):
    assert tallystick.client_settings == {"bootstrap.servers": tallystick.bootstrap}
    assert tallystick.ca_file is None
""",
    )
