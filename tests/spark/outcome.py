"""The verdict on a query into the exactly-once sink: nothing lost, nothing doubled, nothing left open."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import TopicPartition

from tallystick.process import BrokerProcess
from tests.harness.confluent import SECONDS, consumer, wait_until
from tests.spark.eos_queries import output_of


def until_nothing_is_open(bootstrap: str, topic: str, partitions: int = 3) -> None:
    """Wait until readers of committed records get to the very end of each partition: an answer to EndTxn comes before
    its markers. What stays open fails here.
    """
    reader = consumer(bootstrap, isolation__level="read_committed")
    watcher = consumer(bootstrap, isolation__level="read_uncommitted")
    where = [TopicPartition(topic, number) for number in range(partitions)]

    def all_is_decided() -> bool:
        return all(
            reader.get_watermark_offsets(one, SECONDS) == watcher.get_watermark_offsets(one, SECONDS) for one in where
        )

    try:
        wait_until(all_is_decided, f"the end of every transaction in {topic}")
    finally:
        reader.close()
        watcher.close()


def right(bootstrap: str, name: str, wanted: list[bytes]) -> None:
    until_nothing_is_open(bootstrap, f"{name}-out")
    found = output_of(bootstrap, name)
    assert [value for value, count in Counter(found).items() if count > 1] == [], "doubled"
    assert sorted(set(wanted) - set(found)) == [], "lost"
    assert found == wanted


def flag_of(checkpoint: str) -> str:
    """The file that says that the fault of a query has happened."""
    return f"{checkpoint}.fault"


@contextmanager
def started_again(broker: BrokerProcess) -> Iterator[None]:
    """Whenever the broker dies meanwhile, it is started again."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            if not broker.running:
                broker.start()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
