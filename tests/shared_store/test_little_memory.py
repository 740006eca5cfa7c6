"""A reader of more partitions than memory holds gets on: what was brought for one may be gone when another has come."""

import time
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tallystick.process import BrokerProcess
from tests.shared_store.postgresql_server import PostgresqlServer

PATIENCE_S = 60.0
RECORDS = 3


@pytest.mark.parametrize("partitions", [2, 5])
def test_what_does_not_fit_into_memory_together_is_read(
    postgresql: PostgresqlServer, schema: str, tmp_path: Path, partitions: int
) -> None:
    memory = ["--set", "tallystick.store.memory.bytes=1"]
    broker = BrokerProcess(tmp_path, options=["--store", postgresql.url(schema), *memory])
    try:
        broker.start()
        where = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(where)
        admin.create_topics([NewTopic("t", partitions, 1)])["t"].result()
        writer = ck.Producer(where)
        for _ in range(RECORDS):
            for index in range(partitions):
                writer.produce("t", b"v", partition=index)
            writer.flush()
        assert broker.stop() == 0
        broker.start()
        reader = ck.Consumer({**where, "group.id": "g"})
        reader.assign([ck.TopicPartition("t", index, 0) for index in range(partitions)])
        read: list[tuple[int | None, int | None]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < RECORDS * partitions:
            assert time.monotonic() < deadline, f"only these were read: {read}"
            message = reader.poll(0.1)
            if message is not None:
                assert message.error() is None
                read.append((message.partition(), message.offset()))
        reader.close()
        assert sorted(read) == [(index, offset) for index in range(partitions) for offset in range(RECORDS)]
    finally:
        broker.close()
