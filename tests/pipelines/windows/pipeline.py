"""Topics, end and verdict of the windows pipeline."""

import json
from collections.abc import Iterator

from spark_connector.pipelines.settings import Settings
from tests.pipelines.batch_log import batches, has_read, last_committed
from tests.pipelines.pipeline import Run, Sent, Topic, Transaction
from tests.pipelines.reading import markers_of, read_topic, records_undecided
from tests.pipelines.verdict import Verdict
from tests.pipelines.windows.plan import PARTITIONS, Click, decode, encode, last_ms, transactions
from tests.pipelines.windows.verdict import Found, judge, recompute

SIZE = 500_000
WATERMARK_MS = 10 * 60_000


class WindowsPipeline:
    """See `pipeline.Pipeline`."""

    name = "windows"
    queries: tuple[str, ...] = ("windows",)
    source_topic = "clicks"
    sink_topic = "page_counts"

    def topics(self, settings: Settings) -> list[Topic]:
        return [Topic(settings.topic(name), PARTITIONS, {}) for name in (self.source_topic, self.sink_topic)]

    def records(self, settings: Settings) -> int:
        return settings.size(SIZE)

    def transactions(self, settings: Settings) -> Iterator[Transaction]:
        for clicks, void in transactions(settings.seed, self.records(settings)):
            records = [Sent(one.user % PARTITIONS, str(one.user).encode(), encode(one)) for one in clicks]
            yield Transaction(records, void)

    def is_finished(self, run: Run) -> bool:
        """All is read, and the watermark that the last click sets has closed what it closes."""
        checkpoint = run.settings.checkpoint("windows")
        if not has_read(checkpoint, run.settings.topic("clicks"), run.last_written):
            return False
        batch = last_committed(checkpoint)
        end_ms = last_ms(run.settings.seed, self.records(run.settings)) - WATERMARK_MS
        return batch is not None and batch.watermark_ms >= end_ms

    def judge(self, run: Run) -> Verdict:
        settings = run.settings
        arrived: dict[int, list[tuple[int, Click]]] = {number: [] for number in range(PARTITIONS)}
        for message in read_topic(settings.bootstrap, settings.topic("clicks")):
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            arrived[partition].append((offset, decode(message.value() or b"")))
        markers = [marker.batch for marker in markers_of(settings.bootstrap, settings.sink_id("windows"))]
        log = [batch for batch in batches(settings.checkpoint("windows")) if batch.number <= max(markers, default=-1)]
        wanted = recompute(log, settings.topic("clicks"), arrived)
        written = read_topic(settings.bootstrap, settings.topic("page_counts"))
        rows = [json.loads(message.value() or b"") for message in written]
        found = Found(
            counts=[((row["page"], row["start_ms"]), row["count"]) for row in rows],
            markers=markers,
            states={number: _state(state) for number, state in run.states.items()},
            undecided=records_undecided(settings.bootstrap, settings.topic("page_counts")),
        )
        verdict = judge(wanted, found)
        verdict.figures["clicks"] = sum(map(len, arrived.values()))
        return verdict


def _state(rows: list[list[object]]) -> dict[tuple[int, int], int]:
    return {(int(str(page)), int(str(start))): int(str(count)) for page, start, count in rows}
