"""Two copies of one checkpoint: which of them a batch is compared with."""

import shutil
from typing import Any

import pytest

from spark_connector.sink.foreach_batch import eos_writer
from tests.harness.confluent import write
from tests.spark.eos_queries import input_of, output_of
from tests.spark.faulty_writer import many_query
from tests.spark.queries import finished


def test_the_option_of_many_writers_names_the_copy_that_was_left_behind(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Both copies have gone on from one batch with other rows. The second to do so has none of its rows in Kafka; by
    the plan of the first, which has the same id, they would be taken for written.
    """
    wanted = input_of(bootstrap, name)
    copy = f"{checkpoint}-copy"
    write_batch = eos_writer(
        {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
    )
    finished(many_query(spark, bootstrap, name, write_batch, checkpoint))
    shutil.copytree(checkpoint, copy)
    write(bootstrap, f"{name}-in", [b"later 1"], partition=0)
    finished(many_query(spark, bootstrap, name, write_batch, checkpoint))
    write(bootstrap, f"{name}-in", [b"later 2"], partition=1)
    with pytest.raises(Exception, match="older copy that has been run on"):
        finished(many_query(spark, bootstrap, name, write_batch, copy))
    assert output_of(bootstrap, name) == sorted([*wanted, b"later 1"])
