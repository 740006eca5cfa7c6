"""The broker's disk fills up in the middle of a micro-batch; once there is room and the broker is back, all is right.

A broker that cannot write ends (ours and Apache Kafka do), so to a query it is a broker that is away: it waits as
long as configured, and then fails with a sentence. Nothing acknowledged is lost, nothing comes twice.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost, KafkaError
from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA
from tests.harness.confluent import wait_until
from tests.harness.small_disk import fill_up, small_disk
from tests.spark.eos_queries import PATIENCE_MS, eos_query, input_of, run_eos
from tests.spark.outcome import flag_of, right
from tests.spark.queries import SECONDS, finished

SIZE_BYTES = (256 if KAFKA else 16) << 20
IMPATIENT_MS = 3000
SHORT = ("written", PATIENCE_MS, "kafka")
CASES = [
    *((step, PATIENCE_MS, source) for step in ("opened", "written", "marked") for source in ("kafka", "kafka-arrow")),
    *((step, IMPATIENT_MS, "kafka") for step in ("written", "marked")),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE_BYTES) as folder:
        yield folder


async def _write_until_it_is_gone(broker: BrokerProcess) -> None:
    """What is left in pages that are allocated is filled, and then the broker cannot go on."""
    batch = build_batch([NewRecord(value=bytes(20_000), timestamp_ms=1)])
    while broker.running:
        with suppress(KafkaError, ConnectionLost, OSError, TimeoutError):
            client = await Client.connect(broker.bootstrap)
            try:
                while broker.running:
                    await asyncio.wait_for(client.produce("filler", 0, batch), 5)
            finally:
                await client.close()


@pytest.mark.parametrize(
    ("step", "patience_ms", "source"),
    [pytest.param(*case, marks=() if case == SHORT else pytest.mark.whole) for case in CASES],
)
def test_the_disk_fills_up_in_the_middle_of_a_batch(
    spark: Any,
    own_broker: Callable[..., BrokerProcess],
    disk: Path,
    name: str,
    checkpoint: str,
    step: str,
    patience_ms: int,
    source: str,
) -> None:
    """With patience the query does not notice; without, it says so and the next start finishes the work (I1, I2)."""
    broker = own_broker()
    broker.data = disk / "data"
    wanted = input_of(broker.start().bootstrap, name)
    asyncio.run(_make_filler(broker.bootstrap))
    flag = flag_of(checkpoint)
    faulty = {"fault": f"wait@{step}", "faultFlag": flag, "kafka.delivery.timeout.ms": patience_ms, "source": source}
    query = eos_query(spark, broker.bootstrap, name, checkpoint, "kafka-eos-faulty", **faulty)
    wait_until(lambda: query.exception() or Path(flag).exists(), "the fault", seconds=SECONDS)
    fill_up(disk / "room")
    asyncio.run(_write_until_it_is_gone(broker))
    assert "No space left on device" in broker.log_end(1 << 20)
    Path(f"{flag}.go").touch()
    if patience_ms == IMPATIENT_MS:
        with pytest.raises(Exception, match=r"kafka\.delivery\.timeout\.ms"):
            finished(query)
    (disk / "room").unlink()
    broker.start()
    if patience_ms == IMPATIENT_MS:
        run_eos(spark, broker.bootstrap, name, checkpoint, source=source)
    else:
        finished(query)
    right(broker.bootstrap, name, wanted)


async def _make_filler(bootstrap: str) -> None:
    client = await Client.connect(bootstrap)
    await client.create_topic("filler")
    await client.close()
