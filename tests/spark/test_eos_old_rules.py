"""Both modes of the sink where the cluster speaks the old rules of transactions (transaction.version 0 and 1).

An epoch outlives its transaction there, and a leader does not know by itself what may still be written under it
(KIP-890). So a lease is taken for each micro-batch, and nothing is ended by EndTxn(abort).
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from tallystick.client.client import Client
from tallystick.client.errors import check
from tests.harness.broker import EXTERNAL, server
from tests.spark import faulty_writer
from tests.spark.eos_queries import RECORDS, input_of, output_of, run_driver, run_eos
from tests.spark.faulty_writer import Fault, run_many
from tests.spark.outcome import flag_of, right
from tests.spark.test_eos_faults import forget_the_last_commit

SAFE_DOWNGRADE = 2
TASK_FAULTS = ["raise@taken", "raise@written", "worker@written", "zombie@taken"]
DRIVER_FAULTS = ["jvm@opened", "driver@acknowledged", "jvm@marked", "jvm@ended"]
ONE_WRITER = ["worker@writing", "raise@written", "worker@marked", "raise@ended", "takeover@written", "outlive@marked"]
SHORT = "raise@written"


async def _finalise(bootstrap: str, level: int) -> None:
    client = await Client.connect(bootstrap)
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=SAFE_DOWNGRADE)
    check((await client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)).error_code)
    await client.close()
    client = await Client.connect(bootstrap)
    assert client.seed.features.get("transaction.version", 0) == level
    await client.close()


@pytest.fixture(scope="module", params=[pytest.param(0, id="TV0"), pytest.param(1, id="TV1", marks=pytest.mark.whole)])
def old_rules(spark: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    process = server(tmp_path_factory.mktemp("old-rules"))
    try:
        bootstrap = process.start().bootstrap
        asyncio.run(_finalise(bootstrap, request.param))
        yield bootstrap
    finally:
        process.close()


def of(faults: list[str], *short: str) -> list[Any]:
    return [pytest.param(fault, marks=() if fault in short else pytest.mark.whole) for fault in faults]


@pytest.mark.parametrize("fault", of(TASK_FAULTS, SHORT))
def test_many_writers_through_a_task_that_fails(
    spark: Any, old_rules: str, name: str, checkpoint: str, fault: str
) -> None:
    """The whole batch is tried again under a lease of its own; the late task of the old one is fenced (I4)."""
    wanted = input_of(old_rules, name)
    action, _, step = fault.partition("@")
    flag = Path(flag_of(checkpoint))
    run_many(spark, old_rules, name, checkpoint, fault=Fault(action, step, str(flag)), groupId=f"{name}-group")
    assert flag.read_text() == step
    right(old_rules, name, wanted)
    if action == "zombie":
        assert flag.with_suffix(".fenced").exists() and not flag.with_suffix(".written").exists()


@pytest.mark.whole
@pytest.mark.parametrize("fault", DRIVER_FAULTS)
def test_many_writers_through_a_driver_that_dies(
    spark: Any, old_rules: str, name: str, checkpoint: str, fault: str
) -> None:
    wanted = input_of(old_rules, name)
    who, _, step = fault.partition("@")
    flag = flag_of(checkpoint)
    assert faulty_writer.run_driver(old_rules, name, checkpoint, who, step, flag) != 0
    assert Path(flag).read_text() == step
    run_many(spark, old_rules, name, checkpoint)
    right(old_rules, name, wanted)


@pytest.mark.whole
@pytest.mark.parametrize("fault", ONE_WRITER)
def test_one_writer_through_a_fault(spark: Any, old_rules: str, name: str, checkpoint: str, fault: str) -> None:
    wanted = input_of(old_rules, name)
    faulty = {"fault": fault, "faultFlag": flag_of(checkpoint), "groupId": f"{name}-group"}
    timeout = {"kafka__transaction__timeout__ms": 10_000} if fault.startswith("outlive") else {}
    with pytest.raises(Exception, match=r"."):
        run_eos(spark, old_rules, name, checkpoint, "kafka-eos-faulty", **faulty, **timeout)
    assert Path(flag_of(checkpoint)).exists()
    run_eos(spark, old_rules, name, checkpoint, "kafka-eos-faulty", **faulty)
    right(old_rules, name, wanted)


@pytest.mark.whole
def test_one_writer_through_a_driver_that_dies(spark: Any, old_rules: str, name: str, checkpoint: str) -> None:
    wanted = input_of(old_rules, name)
    done = run_driver(old_rules, name, checkpoint, fault="jvm@marked", faultFlag=flag_of(checkpoint))
    assert Path(flag_of(checkpoint)).exists(), done.stderr.decode(errors="replace")[-3000:]
    run_eos(spark, old_rules, name, checkpoint)
    right(old_rules, name, wanted)


@pytest.mark.whole
@pytest.mark.parametrize("many", [False, True], ids=["one-writer", "many-writers"])
def test_a_replay_writes_nothing(spark: Any, old_rules: str, name: str, checkpoint: str, many: bool) -> None:
    wanted = input_of(old_rules, name)
    run = run_many if many else run_eos
    run(spark, old_rules, name, checkpoint)
    forget_the_last_commit(checkpoint)
    run(spark, old_rules, name, checkpoint)
    right(old_rules, name, wanted)
    assert len(output_of(old_rules, name, read_committed=False)) == RECORDS
