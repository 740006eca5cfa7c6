"""A broker is forked, and rewound: what a copy has, what it does not hear of, and what goes back."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import tallystick
from tallystick import copied_folder
from tests.harness.confluent import Deliveries, admin, make_topic, read_all, values_of, wait_until, write


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tallystick.Broker]:
    with tallystick.Broker(folder=tmp_path_factory.mktemp("fork") / "broker", control=True) as broker:
        yield broker


@pytest.fixture
def broker(shared: tallystick.Broker) -> Iterator[tallystick.Broker]:
    if not shared.process.running:
        shared.start()
    yield shared
    shared.forget_copies()
    assert not list(shared.process.folder.glob("fork-*")) + list(shared.process.folder.glob("mark-*"))


def begun(broker: tallystick.Broker, name: str, topic: str) -> Producer:
    """A producer with a transaction that is under way, with one record in it."""
    settings = {"transactional.id": name, "transaction.timeout.ms": 600_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap} | settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    assert producer.flush(60) == 0
    return producer


def undecided(broker: tallystick.Broker) -> list[str]:
    return [one["transactionalId"] for one in broker.open_transactions()]


def committed(broker: tallystick.Broker, topic: str) -> list[bytes]:
    return values_of(read_all(broker.bootstrap, topic))


def committed_offset(broker: tallystick.Broker, topic: str) -> int:
    asker = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    try:
        return int(asker.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)
    finally:
        asker.close()


def commit_offset(broker: tallystick.Broker, topic: str, offset: int) -> None:
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    member.close()


def test_a_transaction_ends_in_each_by_itself(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "ends")
    write(broker.bootstrap, "ends", [b"before"])
    producer = begun(broker, "payer", "ends")
    with broker.fork() as fork:
        assert fork.bootstrap != broker.bootstrap
        assert fork.pid != broker.pid
        known = [admin(one.bootstrap).list_topics(timeout=60) for one in (broker, fork)]
        assert known[0].cluster_id == known[1].cluster_id
        assert list(known[0].brokers) == list(known[1].brokers)
        assert undecided(fork) == ["payer"]
        producer.commit_transaction(60)
        write(broker.bootstrap, "ends", [b"behind"])
        wait_until(lambda: undecided(broker) == [], "its end")
        assert undecided(fork) == ["payer"]
        assert committed(fork, "ends") == [b"before"]
        aborting = begun(fork, "payer", "ends")  # It aborts the one before it, KIP-98.
        aborting.abort_transaction(60)
        wait_until(lambda: undecided(fork) == [], "its end")
        write(fork.bootstrap, "ends", [b"of the fork"])
        assert committed(broker, "ends") == [b"before", b"undecided", b"behind"]
        assert committed(fork, "ends") == [b"before", b"of the fork"]
        broker.audit()
        fork.audit()
    assert not fork.process.folder.exists()
    assert broker.forks == []


def test_two_forks_at_once_under_load(tmp_path: Path) -> None:
    ended = threading.Event()
    with tallystick.Broker(folder=tmp_path / "broker", durability="page-cache", control=True) as broker:
        make_topic(broker.bootstrap, "load")
        deliveries = Deliveries()
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 1}
        producer = Producer({"bootstrap.servers": broker.bootstrap} | settings)

        def load() -> None:
            number = 0
            while not ended.is_set():
                if len(producer) < 500:
                    producer.produce("load", b"%d" % number, on_delivery=deliveries)
                    number += 1
                producer.poll(0 if len(producer) < 500 else 0.01)
            assert producer.flush(60) == 0

        with ThreadPoolExecutor(3) as threads:
            loading = threads.submit(load)
            try:
                wait_until(lambda: len(deliveries.acknowledged) > 200, "the load")
                least = len(deliveries.acknowledged)
                forks = [one.result() for one in [threads.submit(broker.fork) for _ in range(2)]]
                then = len(deliveries.acknowledged)
                wait_until(lambda: len(deliveries.acknowledged) > then, "the first goes on")
            finally:
                ended.set()
            loading.result()
        assert deliveries.failed == []
        assert broker.forks == forks or broker.forks == forks[::-1]
        for fork in forks:
            found = committed(fork, "load")
            assert found == [b"%d" % number for number in range(len(found))]
            assert least <= len(found) < len(deliveries.acknowledged)
            fork.audit()
    assert not any(fork.process.running for fork in forks)


def test_rewound(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "rewound")
    write(broker.bootstrap, "rewound", [b"kept"])
    commit_offset(broker, "rewound", 1)
    producer = begun(broker, "undone", "rewound")
    mark, address = broker.mark(), broker.bootstrap
    producer.commit_transaction(60)
    write(broker.bootstrap, "rewound", [b"undone"])
    make_topic(broker.bootstrap, "later")
    commit_offset(broker, "rewound", 3)
    assert committed(broker, "rewound") == [b"kept", b"undecided", b"undone"]
    wait_until(lambda: undecided(broker) == [], "its end")
    broker.rewind(mark)
    assert broker.bootstrap == address
    assert undecided(broker) == ["undone"]
    assert committed(broker, "rewound") == [b"kept"]
    assert committed_offset(broker, "rewound") == 1
    assert "later" not in admin(broker.bootstrap).list_topics(timeout=60).topics
    begun(broker, "undone", "rewound").abort_transaction(60)  # the new client ends what was undecided
    wait_until(lambda: undecided(broker) == [], "its end")
    broker.audit()
    broker.rewind(mark)
    assert undecided(broker) == ["undone"], "as often as one likes"


def test_a_producer_that_goes_on_is_not_taken_for_another(broker: tallystick.Broker) -> None:
    """After the mark both would be given the same id: what the one sends would pass for repeats of what the other did,
    and be acknowledged without being written."""
    topic, acked = "goes-on", list[bytes]()
    make_topic(broker.bootstrap, topic)

    def begun() -> Producer:
        settings = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        return Producer({"bootstrap.servers": broker.bootstrap} | settings)

    def send(producer: Producer, value: bytes) -> None:
        producer.produce(topic, value, on_delivery=lambda error, _: None if error else acked.append(value))
        assert producer.flush(60) == 0

    mark = broker.mark()
    broker.restart()
    one = begun()
    for number in range(10):
        send(one, b"one %d" % number)
    acked.clear()
    broker.rewind(mark)
    another = begun()
    for number in range(12):
        send(another, b"another %d" % number)
    for number in range(10, 14):
        send(one, b"one %d" % number)
    assert len(acked) >= 12 and set(acked) <= set(committed(broker, topic))


def test_a_moved_clock_stays_behind(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "clocks")
    begun(broker, "slow", "clocks")
    broker.advance_time("9m")
    fork = broker.fork()
    assert broker.is_ahead
    assert not fork.is_ahead
    for one in (broker, fork):
        one.advance_time("2m")
    wait_until(lambda: "slow" not in undecided(broker), "the abort by timeout")
    assert "slow" in undecided(fork)
    fork.advance_time("9m")
    wait_until(lambda: "slow" not in undecided(fork), "the abort by timeout, in the fork")


def test_one_that_is_frozen_stays_frozen_and_one_that_was_killed_is_forked(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "still")
    broker.freeze()
    mark = broker.mark()
    state = Path(f"/proc/{broker.pid}/stat")
    if state.exists():
        assert state.read_text().rpartition(") ")[2].startswith("T")
    broker.thaw()
    write(broker.bootstrap, "still", [b"x"])
    broker.kill()
    fork = broker.fork()
    assert not broker.process.running
    assert committed(fork, "still") == [b"x"]
    with pytest.raises(tallystick.NotDone, match="not of this broker"):
        fork.rewind(mark)
    broker.rewind(mark)
    assert committed(broker, "still") == []
    broker.forget_copies()
    with pytest.raises(tallystick.NotDone, match="forgotten"):
        broker.rewind(mark)
    assert committed(broker, "still") == [], "it was not killed for nothing"


def test_where_there_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(tallystick.NotDone, match="in memory alone"):
        tallystick.Broker(folder=tmp_path / "memory", in_memory=True).mark()
    with pytest.raises(tallystick.NotDone, match="never started"):
        tallystick.Broker(folder=tmp_path / "new").fork()


def test_only_large_segments_that_are_final_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_folder, "_LARGE_BYTES", 100)
    monkeypatch.setattr(copied_folder, "_cloned", lambda source, target: target.write_bytes(b"") < 0)
    source = tmp_path / "data" / "orders-0"
    source.mkdir(parents=True)
    sizes = {"00.log": 100, "01.log": 99, "02.log": 100, "03.log": 100, "00.index": 100}
    for name, size in sizes.items():
        (source / name).write_bytes(name[:1].encode() * size)
    (tmp_path / "data" / ".lock").write_bytes(b"1")
    (tmp_path / "data" / ".backups" / "one").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "00.log").write_bytes(b"x")
    (tmp_path / "data" / "payments-0").symlink_to(tmp_path / "elsewhere")
    copied_folder.copy_folder(tmp_path / "data", tmp_path / "copy")
    copies = tmp_path / "copy" / "orders-0"
    assert {one.name: one.read_bytes() for one in copies.iterdir()} == {
        one.name: one.read_bytes() for one in source.iterdir()
    }
    for name in sizes:
        assert (copies / name).stat().st_mtime_ns == (source / name).stat().st_mtime_ns, "retention may go by it"
    assert [name for name in sizes if (copies / name).samefile(source / name)] == ["00.log"]
    assert sorted(one.name for one in (tmp_path / "copy").iterdir()) == ["orders-0", "payments-0"]
    elsewhere = tmp_path / "copy" / "payments-0"
    assert not elsewhere.is_symlink() and (elsewhere / "00.log").read_bytes() == b"x"


def test_one_that_does_not_stop_in_time_keeps_no_other(tmp_path: Path) -> None:
    broker = tallystick.Broker(folder=tmp_path)
    closed: list[str] = []

    def close(name: str) -> None:
        closed.append(name)
        if name == "second":
            raise tallystick.BrokerFailed("did not stop")

    for name in ("first", "second", "third"):
        broker._forks.append(SimpleNamespace(close=partial(close, name)))  # type: ignore[arg-type]
        (tmp_path / f"mark-{name}" / "data").mkdir(parents=True)
        broker._marks.append(tallystick.Mark(tmp_path / f"mark-{name}" / "data"))
    with pytest.raises(tallystick.BrokerFailed, match="did not stop"):
        broker.forget_copies()
    assert sorted(closed) == ["first", "second", "third"] and broker.forks == []
    assert list(tmp_path.iterdir()) == []
    broker.close()
