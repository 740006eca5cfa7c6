"""Topics, end and verdict of the transfers pipeline."""

import json
from collections.abc import Iterator

from spark_connector.pipelines.settings import EOS, Settings
from tests.pipelines.batch_log import has_read
from tests.pipelines.pipeline import Run, Sent, Topic, Transaction
from tests.pipelines.reading import markers_of, read_topic, records_undecided
from tests.pipelines.transfers.plan import PARTITIONS, encode, transactions
from tests.pipelines.transfers.verdict import Entry, Ledger, judge, judge_control
from tests.pipelines.verdict import Verdict

SIZE = 1_000_000


class TransfersPipeline:
    """See `pipeline.Pipeline`."""

    name = "transfers"
    queries: tuple[str, ...] = ("transfers",)
    source_topic = "transfers"
    sink_topic = "ledger"

    def topics(self, settings: Settings) -> list[Topic]:
        return [Topic(settings.topic(name), PARTITIONS, {}) for name in (self.source_topic, self.sink_topic)]

    def records(self, settings: Settings) -> int:
        return settings.size(SIZE)

    def transactions(self, settings: Settings) -> Iterator[Transaction]:
        for transfers, void in transactions(settings.seed, self.records(settings)):
            records = [Sent(one.number % PARTITIONS, str(one.number).encode(), encode(one)) for one in transfers]
            yield Transaction(records, void)

    def is_finished(self, run: Run) -> bool:
        return has_read(run.settings.checkpoint("transfers"), run.settings.topic("transfers"), run.last_written)

    def judge(self, run: Run) -> Verdict:
        settings = run.settings
        planned = list(transactions(settings.seed, self.records(settings)))
        transfers = [transfer for batch, void in planned if not void for transfer in batch]
        aborted = {transfer.number for batch, void in planned if void for transfer in batch}
        ledger = Ledger(undecided=records_undecided(settings.bootstrap, settings.topic("ledger")))
        for message in read_topic(settings.bootstrap, settings.topic("ledger")):
            partition = message.partition()
            assert partition is not None
            ledger.entries.setdefault(partition, []).append(Entry(**json.loads(message.value() or b"")))
        if settings.sink != EOS:
            return judge_control(transfers, aborted, ledger)
        for marker in markers_of(settings.bootstrap, settings.sink_id("transfers")):
            counts = marker.records.get(settings.topic("ledger"), {})
            ledger.batches.append((marker.batch, {int(partition): count for partition, count in counts.items()}))
        verdict = judge(transfers, aborted, ledger)
        verdict.figures["transfers"] = len(transfers)
        verdict.figures["batches"] = len(ledger.batches)
        return verdict
