"""librdkafka aborts while a batch waits to be sent again, whose records are in the log, and gives the batch's sequences
to records of its next transaction.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.broker import EXTERNAL, KAFKA, NODES, server
from tests.harness.confluent import SECONDS, Deliveries, make_topic, producer, read_all, values_of, wait_until

BACKOFF_MS = 5_000
"""Before it sends a batch again: the abort comes before that."""


def test_records_with_sequences_of_an_aborted_batch_are_refused_and_not_lost(tmp_path: Path) -> None:
    """Apache Kafka 4.3.1 answers them with the offsets of the aborted ones, the commit succeeds, and they are nowhere
    (decision 0051)."""
    if EXTERNAL or KAFKA or NODES == "postgresql":  # of which another node may lead the partition
        pytest.skip("a fault of ours loses the answer")
    broker = server(tmp_path)
    broker.environment = {"TALLYSTICK_FAULTS": "answer.Produce=drop@2"}
    broker.start()
    try:
        assert _story(broker.bootstrap) == [b"before", b"third-0", b"third-1"]
    finally:
        broker.close()


def _story(bootstrap: str) -> list[bytes]:
    make_topic(bootstrap, "t")
    lost: list[int] = []
    sender = producer(
        bootstrap,
        transactional__id="x",
        retry__backoff__ms=BACKOFF_MS,
        retry__backoff__max__ms=BACKOFF_MS,
        statistics__interval__ms=20,
        stats_cb=lambda told: lost.append(sum(one["disconnects"] for one in json.loads(told)["brokers"].values())),
    )
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    sender.produce("t", b"before")
    sender.commit_transaction(SECONDS)
    wait_until(lambda: (sender.poll(0.01), lost)[1], "statistics")

    lost_before = lost[-1]
    sender.begin_transaction()
    purged = _two(sender, "first")
    wait_until(lambda: (sender.poll(0.01), lost[-1] > lost_before)[1], "an answer is lost, and its connection")
    sender.abort_transaction(SECONDS)
    assert [error.code() for error in purged.failed] == 2 * [KafkaError._PURGE_QUEUE]

    sender.begin_transaction()
    _two(sender, "second")
    try:
        sender.commit_transaction(SECONDS)
    except KafkaException as refused:
        error = refused.args[0]
        assert (error.code(), error.txn_requires_abort()) == (KafkaError.INVALID_TXN_STATE, True)
    else:
        raise AssertionError("committed without its records")
    sender.abort_transaction(SECONDS)

    sender.begin_transaction()
    _two(sender, "third")
    sender.commit_transaction(SECONDS)
    return values_of(read_all(bootstrap, "t"))


def _two(sender: Any, name: str) -> Deliveries:
    deliveries = Deliveries()
    for number in range(2):
        sender.produce("t", f"{name}-{number}".encode(), on_delivery=deliveries)
    return deliveries
