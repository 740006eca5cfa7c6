"""The offsets that kafka-arrow reports to Spark, without a cluster: a fake responds as the test wants."""

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

from spark_connector.errors import BadOption
from spark_connector.source import stream_reader
from spark_connector.source.errors import DataLost
from spark_connector.source.probing import Sample
from spark_connector.source.ranges import OffsetRange, Offsets, cut, limited, wanted_cuts
from spark_connector.source.settings import duration, settings_of
from spark_connector.source.stream_reader import ArrowStreamReader


class FakeLookups:
    """Topic `t`; `answers` are what `latest` gives, one after the other, the last one for ever."""

    def __init__(self, *answers: dict[int, int], earliest: dict[int, int] | None = None) -> None:
        self.answers = list(answers)
        self.starts = earliest or {}
        self.asked = 0
        self.topic_ids = {"t": b"1" * 16}

    def partitions(self) -> list[tuple[str, int]]:
        return [("t", number) for number in self.answers[0]]

    def latest(self, partitions: Iterable[tuple[str, int]]) -> Offsets:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {("t", number): offset for number, offset in answer.items()}

    def earliest(self, partitions: Iterable[tuple[str, int]]) -> Offsets:
        return {where: self.starts.get(where[1], 0) for where in partitions}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "_PAUSE_S", 0)


def reader(lookups: FakeLookups, **options: str) -> ArrowStreamReader:
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"} | options
    made = ArrowStreamReader(settings_of(given, stream=True), StructType([]), ())
    made._lookups = lookups  # type: ignore[assignment]
    return made


def latest(of: ArrowStreamReader, limit: Any = None, **begin: int) -> dict[str, int]:
    start = {"t": {name[1:]: offset for name, offset in begin.items()}}
    return of.latestOffset(start, limit or ReadMaxRows(1 << 40)).get("t", {})


def test_an_end_that_briefly_goes_back_is_requested_again() -> None:
    """As a broker may say that has just come back and does not know its high watermark yet."""
    lookups = FakeLookups({0: 70}, {0: 90}, {0: 120})
    assert latest(reader(lookups), p0=100) == {"0": 120}
    assert lookups.asked == 3


def test_an_end_that_stays_behind_is_data_loss() -> None:
    with pytest.raises(DataLost, match="t-0 ends at 70, and 100 was read already"):
        latest(reader(FakeLookups({0: 70})), p0=100)


def test_an_end_that_stays_back_is_ignored_when_accepting_loss() -> None:
    """Spark would read offsets twice; the query waits where it is."""
    assert latest(reader(FakeLookups({0: 70, 1: 50}), failOnDataLoss="false"), p0=100, p1=20) == {"0": 100, "1": 50}


def test_a_partition_that_is_gone_is_data_loss() -> None:
    with pytest.raises(DataLost, match="t-1 is not there any more"):
        latest(reader(FakeLookups({0: 70})), p0=50, p1=5)
    assert latest(reader(FakeLookups({0: 70}), failOnDataLoss="false"), p0=50, p1=5) == {"0": 70}


def test_a_longer_recreated_topic_is_data_loss() -> None:
    """Its offsets mean other records: its id says so, not its end."""
    lookups = FakeLookups({0: 50}, {0: 70})
    of, accepting = reader(lookups), reader(lookups, failOnDataLoss="false")
    assert latest(of, p0=0) == {"0": 50}
    assert latest(accepting, p0=0) == {"0": 70}
    lookups.topic_ids = {"t": b"2" * 16}
    with pytest.raises(DataLost, match="t was deleted and made anew"):
        latest(of, p0=50)
    assert latest(accepting, p0=50) == {"0": 70}


def test_available_now_ends_where_it_began_to_look() -> None:
    lookups = FakeLookups({0: 100}, {0: 900})
    of = reader(lookups, maxOffsetsPerTrigger="60")
    of.prepareForTriggerAvailableNow()
    assert [latest(of, p0=at) for at in (0, 60, 100)] == [{"0": 60}, {"0": 100}, {"0": 100}]
    assert latest(of, ReadAllAvailable(), p0=0) == {"0": 100}


def test_few_offsets_wait_for_more_or_for_the_timeout() -> None:
    of = reader(FakeLookups({0: 30}, {0: 60}), minOffsetsPerTrigger="50")
    assert isinstance(of.getDefaultReadLimit(), ReadMinRows)
    assert latest(of, p0=0) == {"0": 0}
    assert latest(of, p0=0) == {"0": 60}
    at_once = reader(FakeLookups({0: 30}), minOffsetsPerTrigger="50", maxTriggerDelay="0s")
    assert latest(at_once, p0=0) == {"0": 30}


def test_a_new_partition_is_read_from_its_first_offset() -> None:
    """A replay of the batch reads the same offsets, so where its log begins today has no say; gone is data loss."""
    start, end = {"t": {"0": 10}}, {"t": {"0": 20, "1": 7}}
    planned = reader(FakeLookups({0: 20, 1: 7})).partitions(start, end)
    assert [task.value for task in planned] == [(OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 7))]
    with pytest.raises(DataLost, match="the log begins at 3"):
        reader(FakeLookups({0: 20, 1: 7}, earliest={1: 3})).partitions(start, end)
    some = reader(FakeLookups({0: 20, 1: 7}, earliest={1: 3}), failOnDataLoss="false").partitions(start, end)
    assert [task.value for task in some] == [(OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 3, 7))]


def test_short_ranges_share_a_task_unless_more_tasks_are_wanted() -> None:
    """To start a task costs more than to read a few hundred records. What is wanted by options goes before that."""
    start, end = {"t": {}}, {"t": {"0": 400, "1": 600, "2": 1, "3": 5000, "4": 9}}
    lookups = FakeLookups({0: 400, 1: 600, 2: 1, 3: 5000, 4: 9})
    tasks = [[piece.partition for piece in task.value] for task in reader(lookups).partitions(start, end)]
    assert tasks == [[0, 1], [2], [3], [4]]
    apart = reader(lookups, minPartitions="5").partitions(start, end)
    assert [[piece.partition for piece in task.value] for task in apart] == [[0], [1], [2], [3], [4]]


def test_limits_are_shared_by_backlog_and_starve_nobody() -> None:
    begin, end = {("t", 0): 0, ("t", 1): 0, ("t", 2): 5}, {("t", 0): 900, ("t", 1): 3, ("t", 2): 5}
    assert limited(begin, end, 10_000) == end
    assert limited(begin, end, 100) == {("t", 0): 99, ("t", 1): 1, ("t", 2): 5}


def test_partitions_are_split_by_count_and_by_most_records() -> None:
    pieces = [OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 50, 150)]
    assert wanted_cuts(pieces, 10, 0) == {pieces[0]: [100, 200, 300, 400, 500, 600, 700, 800]}
    assert wanted_cuts(pieces, 0, 50) == {
        pieces[0]: list(range(50, 900, 50)),
        pieces[1]: [100],
    }
    assert wanted_cuts(pieces, 2, 1000) == {}
    assert cut(pieces[1], [50, 70, 70, 200]) == [OffsetRange("t", 1, 50, 70), OffsetRange("t", 1, 70, 150)]


def test_bytes_are_counted_by_batch_where_known_and_estimated_behind() -> None:
    sample = Sample(100, [(110, 1000), (120, 2000), (130, 3000)])
    assert [sample.end_within(most, 1000) for most in (1, 1000, 2500, 3000, 6000)] == [110, 110, 120, 130, 160]
    assert sample.end_within(6000, 140) == 140
    assert sample.bytes_until(1000) == 90_000
    assert Sample(100, []).end_within(5, 1000) == 1000


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffsets": "yesterday"}, 'wanted is {"topic"'),
        ({"startingOffsets": '{"t": 5}'}, 'wanted is {"topic"'),
        ({"maxOffsetsPerTrigger": "0"}, "not above zero"),
        ({"endingTimestamp": "5"}, "of no use in a stream"),
        ({"reportGaps": "true"}, "of no use in a stream"),
        ({"kafka.isolation.level": "committed"}, "not one of read_committed"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"maxTriggerDelay": "5 parsecs"}, "not one of"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, str], sentence: str) -> None:
    """A setting that is silently without effect is worse than one that is missing."""
    subscription = {} if "subscribePattern" in given else {"subscribe": "t"}
    with pytest.raises(BadOption, match=sentence):
        settings_of({"kafka.bootstrap.servers": "nowhere:1"} | subscription | given, stream=True)


def test_durations_are_those_of_spark() -> None:
    assert [duration(text) for text in ("250", "90s", "15m", "2h", " 5ms ")] == [250, 90_000, 900_000, 7_200_000, 5]
