"""A query on a cluster with ACLs: with the rights that `docs/spark.md` names it runs, and what one lacks is said."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from tallystick.client import acls
from tallystick.client.client import Client
from tests.harness.secure_broker import MODULES, SecureBroker, sasl_settings, secure_broker
from tests.spark.eos_queries import input_of, output_of
from tests.spark.queries import finished

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PASSWORD = "secret"
CONTROL = "__spark_sink_progress"


@pytest.fixture(scope="module")
def guarded(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = secure_broker(tmp_path_factory.mktemp("rights"), sasl_settings({"spark": PASSWORD}) | SETTINGS)
    yield made
    made.process.close()


def allowed(kind: ResourceType, name: str, *operations: Operation, prefix: bool = False) -> list[Acl]:
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return [Acl(kind, name, pattern, "User:spark", "*", operation, Permission.ALLOW) for operation in operations]


def rights(name: str) -> list[Acl]:
    """Those of the docs."""
    topic = ResourceType.TOPIC
    return [
        *allowed(topic, f"{name}-in", Operation.READ, Operation.DESCRIBE),
        *allowed(topic, f"{name}-out", Operation.WRITE),
        *allowed(topic, CONTROL, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS, Operation.CREATE),
        *allowed(ResourceType.TRANSACTIONAL_ID, "spark-", Operation.WRITE, prefix=True),
        *allowed(ResourceType.GROUP, f"{name}-group", Operation.READ),
    ]


async def _change(bootstrap: str, made: Sequence[Acl], gone: Sequence[Acl]) -> None:
    client = await Client.connect(bootstrap)
    try:
        await acls.create(client, made)
        await acls.delete(client, [acls.filter_of(one) for one in gone])
    finally:
        await client.close()


def run(spark: Any, guarded: SecureBroker, name: str, checkpoint: str) -> None:
    line = f'{MODULES}.plain.PlainLoginModule required username="spark" password="{PASSWORD}";'
    given = {
        "kafka.bootstrap.servers": guarded.bootstrap,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": line,
    }
    reader = spark.readStream.format("kafka-arrow").options(**given, startingOffsets="earliest")
    rows = reader.option("subscribe", f"{name}-in").load().select("key", "value")
    writer = rows.writeStream.format("kafka-eos").options(**given, topic=f"{name}-out", groupId=f"{name}-group")
    finished(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())


@pytest.mark.whole
def test_the_rights_that_the_docs_name_are_enough_and_needed(
    spark: Any, guarded: SecureBroker, name: str, checkpoint: str
) -> None:
    """One that is taken away ends the query in a sentence, and with it back the same query goes on."""
    wanted = input_of(guarded.open_bootstrap, name)
    there = rights(name)
    asyncio.run(_change(guarded.open_bootstrap, there, ()))
    missing = [one for one in there if one.resource_type != ResourceType.TOPIC or one.operation == Operation.WRITE]
    for one in missing:
        asyncio.run(_change(guarded.open_bootstrap, (), [one]))
        with pytest.raises(Exception, match="AUTHORIZATION_FAILED"):
            run(spark, guarded, name, checkpoint)
        asyncio.run(_change(guarded.open_bootstrap, [one], ()))
        assert output_of(guarded.open_bootstrap, name) == []
    run(spark, guarded, name, checkpoint)
    assert output_of(guarded.open_bootstrap, name) == wanted
