"""What the query of the pipeline cdc makes of changes and of what is none, in one batch and without kills."""

import json
from typing import Any

from spark_connector.pipelines.cdc.query import arriving, dead_letters, newest
from spark_connector.pipelines.settings import Settings
from tests.harness.confluent import make_topic, write
from tests.harness.schema_registry import serving
from tests.pipelines.cdc.plan import Change, Source, encode, register_schemas


def test_the_newest_changes_and_the_dead_letters_of_a_batch(spark: Any, bootstrap: str, name: str) -> None:
    source = Source(5, 1000)
    values = [value for sent, is_void in source.transactions() if not is_void for value in sent]
    settings = Settings(bootstrap, "", ("cdc",), prefix=f"{name}-")
    topic = make_topic(bootstrap, settings.topic("account_changes"))
    write(bootstrap, topic, [encode(value) for value in values])
    with serving() as registry:
        register_schemas(registry, topic)
        settings = Settings(bootstrap, "", ("cdc",), prefix=f"{name}-", registry=registry.url)
        changes = arriving(spark.read, settings).load()
        rows = newest(changes.where("value is not null"), "latest").collect()
        letters = dead_letters(changes.where("value is null"), "dead").collect()
    last = {value.account: value for value in values if isinstance(value, Change)}
    versions = {int(row.key): int(row.headers[0].value) for row in rows}
    assert versions == {account: change.version for account, change in last.items()}
    found = {int(row.key): Change(deleted=False, **json.loads(row.value)) for row in rows if row.value is not None}
    assert found == source.table
    assert sorted(bytes(letter.value) for letter in letters) == sorted(source.dead_letters)
    assert {letter.topic for letter in letters} == {"dead"}
    places = {bytes(letter.headers[0].value).decode() for letter in letters}
    assert places == {f"{topic}/0/{number}" for number, value in enumerate(values) if isinstance(value, bytes)}
