"""`tallystick audit`: it finds nothing where all is well, and what is planted where it is not."""

import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from protocol.messages.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tallystick.cli.audit import FOUND, audit
from tallystick.client.client import Client
from tallystick.client.reading import joined
from tallystick.inspection.audit import End, torn
from tallystick.process import BrokerProcess
from tests.clients.test_explain_command import UNVERIFIED, run
from tests.harness.broker import server
from tests.harness.confluent import make_topic, write
from tests.harness.transactional import TransactionalProducer


@pytest.fixture
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker where transactions can hang."""
    process = server(tmp_path_factory.mktemp("lax"), more=UNVERIFIED)
    try:
        yield process.start()
    finally:
        process.close()


def found(bootstrap: str, *options: str) -> list[tuple[str, Any]]:
    done = CliRunner().invoke(audit, ["--json", *options, "--bootstrap-server", bootstrap])
    said = [(one["promise"], one["place"]) for one in json.loads(done.output)]
    assert done.exit_code == (FOUND if said else 0)
    return said


Story = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.mark.parametrize("version", [0, 2])
def test_nothing_is_found_where_all_is_well(bootstrap: str, name: str, version: int) -> None:
    topic = make_topic(bootstrap, name, 3)
    write(bootstrap, topic, [b"plain"] * 5, partition=0)

    async def story(client: Client) -> None:
        producer = TransactionalProducer(client, f"{name}-id", transaction_version=version)
        await producer.init()
        for committed in (True, False, False, True, None):
            producer.begin()
            for partition in range(3):
                await producer.produce(topic, partition, [b"a", b"b"])
            await producer.send_offsets(f"{name}-group", {(topic, 0): 3})
            if committed is not None:
                await producer.end(committed=committed)

    run(bootstrap, story)
    assert found(bootstrap, "--topic", topic) == []
    assert [one for one in found(bootstrap) if one[1] is None or one[1][0] in (topic, "__consumer_offsets")] == []


def test_what_is_planted_is_found(lax: BrokerProcess) -> None:
    """Somebody ends a transaction behind the back of its coordinator, in each partition otherwise."""
    topic = make_topic(lax.bootstrap, "torn", 3)

    async def story(client: Client) -> None:
        producer = TransactionalProducer(client, "torn-id", transaction_version=0)
        await producer.init()
        for partition in range(3):
            await producer.produce(topic, partition, [b"a", b"b"], add=False)
        for partition, committed in ((0, True), (1, False)):
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch + 1,
                transaction_result=committed,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=0,
            )
            leader = await client.leader(topic, partition)
            answer = await leader.ask(WriteTxnMarkersRequest(markers=[marker]))
            assert answer.markers[0].topics[0].partitions[0].error_code == 0

    run(lax.bootstrap, story)
    assert sorted(found(lax.bootstrap)) == [("ended", [topic, 2]), ("whole", [topic, 1])]


def test_offsets_beyond_the_end(lax: BrokerProcess) -> None:
    topic = make_topic(lax.bootstrap, "beyond")

    async def story(client: Client) -> None:
        producer = TransactionalProducer(client, "beyond-id")
        await producer.init()
        await producer.send_offsets("beyond-group", {(topic, 0): 7})
        await producer.commit()

    run(lax.bootstrap, story)
    assert found(lax.bootstrap) == [("offsets", [topic, 0])]
    assert found(lax.bootstrap, "--topic", topic) == []


def test_only_ends_that_raised_the_epoch_are_of_one_transaction() -> None:
    def end(partition: int, *, raised: bool, commit: bool, epoch: int = 1) -> End:
        return End(7, epoch, raised, commit, ("t", partition), 10)

    assert torn([end(0, raised=False, commit=True), end(1, raised=False, commit=False)]) == []
    assert torn([end(0, raised=True, commit=True), end(1, raised=False, commit=False)]) == []
    assert torn([end(0, raised=True, commit=True), end(1, raised=True, commit=False, epoch=2)]) == []
    assert [one.place for one in torn([end(0, raised=True, commit=True), end(1, raised=True, commit=False)])] == [
        ("t", 1)
    ]


def test_a_broker_that_lies_is_found_out(bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make_topic(bootstrap, name)

    async def story(client: Client) -> None:
        producer = TransactionalProducer(client, f"{name}-id")
        await producer.init()
        for committed in (False, True):
            producer.begin()
            await producer.produce(topic, 0, [b"a", b"b"])
            await producer.end(committed=committed)

    run(bootstrap, story)
    fetch = Client.fetch

    def lying(alter: Callable[[Any], None], *, to_committed: bool) -> None:
        async def fetched(self: Client, *place: Any, **options: Any) -> Any:
            answer = await fetch(self, *place, **options)
            if bool(options.get("read_committed")) is to_committed:
                alter(answer)
            return answer

        monkeypatch.setattr(Client, "fetch", fetched)

    def none_aborted(answer: Any) -> None:
        answer.aborted_transactions = []

    def all_aborted(answer: Any) -> None:
        for one in answer.aborted_transactions:
            one.first_offset = 3

    def damaged(answer: Any) -> None:
        data = bytearray(joined(answer))
        data[70] ^= 1
        answer.records = bytes(data)

    def said() -> list[str]:
        done = CliRunner().invoke(audit, ["--topic", topic, "--bootstrap-server", bootstrap])
        assert done.exit_code == FOUND
        return done.output.splitlines()

    lying(none_aborted, to_committed=True)
    wrong = f"{topic}-0: the record at offset 0 is shown to readers of committed records, and aborted (2 such records)."
    assert said() == [wrong, "1 finding."]
    lying(all_aborted, to_committed=True)
    missed = f"{topic}-0: the record at offset 3 is not shown to them, and ought to be (2 such records)."
    assert said() == [wrong, missed, "2 findings."]
    lying(damaged, to_committed=False)
    assert said() == [f"{topic}-0: the checksum of the batch at 0 is wrong.", "1 finding."]
