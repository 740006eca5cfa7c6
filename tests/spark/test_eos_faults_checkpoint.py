"""What becomes of a checkpoint: lost between two batches or in one, an older copy, one batch short."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.harness.confluent import consumer, write
from tests.spark.eos_queries import BATCH, RECORDS, input_of, output_of, run_eos
from tests.spark.outcome import flag_of, right
from tests.spark.queries import finished, options, stream


def committed_offsets(bootstrap: str, group: str, topic: str) -> str:
    """Where a group is, as Spark's `startingOffsets` wants it."""
    reader = consumer(bootstrap, group__id=group)
    found = reader.committed([TopicPartition(topic, number) for number in range(3)], 60)
    reader.close()
    return json.dumps({topic: {str(where.partition): max(where.offset, 0) for where in found}})


@pytest.mark.parametrize("step", ["written", pytest.param("ended", marks=pytest.mark.whole)])
def test_a_lost_checkpoint_is_replaced_by_the_groups_offsets(
    spark: Any, bootstrap: str, name: str, checkpoint: str, step: str
) -> None:
    """They are committed with the batch (option groupId), so they say exactly what was written, open batch or not."""
    wanted = input_of(bootstrap, name)
    named = {"sinkId": f"{name}-sink", "groupId": f"{name}-group"}
    fault = {"fault": f"worker@{step}", "faultFlag": flag_of(checkpoint)}
    with pytest.raises(Exception, match=r"."):
        run_eos(spark, bootstrap, name, checkpoint, "kafka-eos-faulty", **named, **fault)
    shutil.rmtree(checkpoint)
    starting = committed_offsets(bootstrap, f"{name}-group", f"{name}-in")
    frame = stream(spark, bootstrap, subscribe=f"{name}-in", startingOffsets=starting, maxOffsetsPerTrigger=BATCH)
    to = options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": f"{checkpoint}-new", **named})
    query = frame.selectExpr("key", "value").writeStream.format("kafka-eos").options(**to)
    finished(query.trigger(availableNow=True).start())
    right(bootstrap, name, wanted)


@pytest.mark.whole
def test_a_deleted_checkpoint_begins_anew(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """It is another query, under the same sinkId too: markers of the old one must not make it skip what it was to
    write.
    """
    wanted = input_of(bootstrap, name)
    for _ in range(2):
        run_eos(spark, bootstrap, name, checkpoint, sinkId=f"{name}-sink")
        shutil.rmtree(checkpoint)
    assert output_of(bootstrap, name) == sorted([*wanted, *wanted])


def take_back(checkpoint: str, batches: int) -> None:
    """Make of a checkpoint what it was so many batches ago."""
    last = RECORDS // BATCH - 1
    for number in range(last, last - batches, -1):
        for kind in ("commits", "offsets"):
            path = Path(checkpoint) / kind
            (path / str(number)).unlink()
            (path / f".{number}.crc").unlink(missing_ok=True)


@pytest.mark.whole
def test_a_checkpoint_copy_one_batch_old_catches_up(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """It requests the last batch again with the offsets that the marker has: that batch is skipped, rightly."""
    wanted = input_of(bootstrap, name)
    run_eos(spark, bootstrap, name, checkpoint)
    take_back(checkpoint, 1)
    run_eos(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)
    write(bootstrap, f"{name}-in", [b"later"], partition=0)
    run_eos(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, sorted([*wanted, b"later"]))


@pytest.mark.whole
def test_a_copy_that_is_two_batches_old_is_refused(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Whether the batches in between are the same is unknown: the control topic has the last marker."""
    wanted = input_of(bootstrap, name)
    run_eos(spark, bootstrap, name, checkpoint)
    take_back(checkpoint, 2)
    with pytest.raises(Exception, match="older copy"):
        run_eos(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)
