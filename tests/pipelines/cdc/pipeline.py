"""Topics, end and verdict of the cdc pipeline."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from spark_connector.pipelines.settings import DELTA, Settings
from tests.pipelines.batch_log import has_read, last_committed
from tests.pipelines.cdc.delta_log import batches_of, files_of
from tests.pipelines.cdc.plan import PARTITIONS, Change, Source, encode
from tests.pipelines.cdc.verdict import Found, Log, Wanted, Written, judge
from tests.pipelines.needs import why_not_delta
from tests.pipelines.pipeline import Run, Sent, Topic, Transaction
from tests.pipelines.reading import (
    Ends,
    admin,
    group_offsets,
    markers_of,
    read_topic,
    records_undecided,
)
from tests.pipelines.verdict import Verdict

SIZE = 200_000
PATIENCE_SECONDS = 60.0
NOT_YET = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(7 * 86_400_000),
}
"""The topic is compacted when the verdict has seen all of it, and not before."""


class CdcPipeline:
    """See `pipeline.Pipeline`."""

    name = "cdc"
    queries: tuple[str, ...] = ("cdc", "table")
    source_topic = "account_changes"
    sink_topic = "accounts_latest"
    dead_letter_topic = "account_dead_letters"

    def topics(self, settings: Settings) -> list[Topic]:
        source = Topic(settings.topic(self.source_topic), PARTITIONS, {})
        dead_letters = Topic(settings.topic(self.dead_letter_topic), 1, {})
        return [source, Topic(settings.topic(self.sink_topic), PARTITIONS, NOT_YET), dead_letters]

    def records(self, settings: Settings) -> int:
        return settings.size(SIZE)

    def transactions(self, settings: Settings) -> Iterator[Transaction]:
        for values, void in Source(settings.seed, self.records(settings)).transactions():
            yield Transaction([_sent(value, number) for number, value in enumerate(values)], void)

    def is_finished(self, run: Run) -> bool:
        settings = run.settings
        if not has_read(settings.checkpoint("cdc"), settings.topic(self.source_topic), run.last_written):
            return False
        topic = settings.topic(self.sink_topic)
        ends = Ends(settings.bootstrap, topic).wait(committed=True)
        return has_read(settings.checkpoint("table"), topic, {partition: end - 1 for partition, end in ends.items()})

    def judge(self, run: Run) -> Verdict:
        settings = run.settings
        bootstrap, topic = settings.bootstrap, settings.topic(self.sink_topic)
        source_topic = settings.topic(self.source_topic)
        source = Source(settings.seed, self.records(settings)).replayed()
        log = _read(bootstrap, topic)
        batch = last_committed(settings.checkpoint("cdc"))
        markers = markers_of(bootstrap, settings.sink_id("cdc"))
        dead_letters = settings.topic(self.dead_letter_topic)
        of_table = last_committed(settings.checkpoint("table"))
        done = of_table.number + 1 if of_table else 0
        found = Found(
            log=log,
            compacted=_compacted(bootstrap, topic, log),
            table_rows=rows_of(settings, done),
            markers=[marker.batch for marker in markers],
            group=group_offsets(bootstrap, settings.topic("accounts-cdc"), source_topic),
            source={partition: end for (_, partition), end in batch.ends.items()} if batch else {},
            log_end=Ends(bootstrap, source_topic).wait(committed=True),
            undecided=records_undecided(bootstrap, topic) + records_undecided(bootstrap, dead_letters),
            dead_letters=[message.value() or b"" for message in read_topic(bootstrap, dead_letters)],
            dead_letters_marked=sum(sum(marker.records.get(dead_letters, {}).values()) for marker in markers),
            table_batches=batches_of(Path(settings.table())) if settings.table_format == DELTA else None,
            table_batches_done=done,
        )
        verdict = judge(Wanted(source.table, source.deleted, source.dead_letters), found)
        verdict.remarks.append(_format_said(settings))
        return verdict


def _sent(value: Change | bytes, number: int) -> Sent:
    if isinstance(value, bytes):
        return Sent(number % PARTITIONS, b"", encode(value))
    return Sent(value.account % PARTITIONS, str(value.account).encode(), encode(value))


def _read(bootstrap: str, topic: str) -> Log:
    log: dict[int, list[Written]] = {}
    for message in read_topic(bootstrap, topic):
        key, value, partition = message.key(), message.value(), message.partition()
        assert key is not None and partition is not None
        version = int(dict(message.headers() or [])["version"] or b"0")
        row = None if value is None else Change(deleted=False, **json.loads(value))
        log.setdefault(partition, []).append(Written(int(key), version, row))
    return log


def _format_said(settings: Settings) -> str:
    if settings.table_format == DELTA:
        return "the table is Delta"
    return f"the table is Parquet: {why_not_delta() or 'so it was asked for'}"


def _compacted(bootstrap: str, topic: str, before: Log) -> Log:
    """Let the topic be compacted now; what is in it once that has been done, or when patience ends."""
    change = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    asker = admin(bootstrap)
    for future in asker.incremental_alter_configs([resource]).values():
        future.result(30)
    deadline = time.monotonic() + PATIENCE_SECONDS
    after = before
    while time.monotonic() < deadline and sum(map(len, after.values())) == sum(map(len, before.values())):
        time.sleep(0.2)
        after = _read(bootstrap, topic)
    return after


def rows_of(settings: Settings, done: int) -> list[Change]:
    """The rows of the table after all micro-batches that are done."""
    if done == 0:
        return []
    folder = Path(settings.table())
    files = files_of(folder) if settings.table_format == DELTA else sorted((folder / f"{done - 1}").glob("*.parquet"))
    return [Change(deleted=False, **row) for file in files for row in pq.read_table(file).to_pylist()]
