"""Options: defaults, stock names, and the sentences for what would silently break the guarantee."""

from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from spark_connector.checkpoint import end_offsets, source_lines
from spark_connector.errors import BadOption, SourceOffsetsUnknown
from spark_connector.sink.settings import SinkSettings

LEAST = {"kafka.bootstrap.servers": "h:1", "checkpointLocation": "/c"}


def test_stock_names_in_any_case_and_defaults() -> None:
    given = LEAST | {"KAFKA.Compression.Type": "zstd", "kafka.linger.ms": "5", "kafka.acks": "all", "someOther": "x"}
    settings = SinkSettings.of(given, streaming=True)
    assert (settings.codec, settings.batch_bytes, settings.patience_s) == (4, 512 << 10, 120)
    assert settings.progress_topic == "__spark_sink_progress"


def test_the_sink_id_is_the_checkpoints_unless_named() -> None:
    """The same after a restart, however the folder is written."""
    made = SinkSettings.of(LEAST, streaming=True).sink_id
    assert made == SinkSettings.of(LEAST | {"checkpointLocation": "/c/"}, streaming=True).sink_id
    assert made != SinkSettings.of(LEAST | {"checkpointLocation": "/d"}, streaming=True).sink_id
    assert SinkSettings.of(LEAST | {"sinkId": "mine"}, streaming=True).sink_id == "mine"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"kafka.transactional.id": "x"}, "sinkId"),
        ({"asyncProgressTrackingEnabled": "true"}, "async progress tracking"),
        ({"kafka.acks": "1"}, "kafka.acks=1"),
        ({"kafka.enable.idempotence": "false"}, "idempotence"),
        ({"kafka.compression.type": "rar"}, "zstd"),
        ({"kafka.batch.size": "-3"}, "above zero"),
        ({"kafka.batch.size": "many"}, "kafka.batch.size=many"),
        ({"kafka.security.protocol": "SSL"}, "PLAINTEXT"),
        ({"kafka.fetch.min.bytes": "1"}, "not known here"),
        ({"sinkId": "a|b"}, "sinkId"),
        ({"topic": "__spark_sink_progress"}, "control topic"),
        ({"jobId": "x"}, "batch jobs"),
    ],
)
def test_what_is_refused_of_a_stream(change: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        SinkSettings.of(LEAST | change, streaming=True)


def test_neither_checkpoint_nor_sink_id() -> None:
    with pytest.raises(BadOption, match="checkpointLocation, or sinkId"):
        SinkSettings.of({"kafka.bootstrap.servers": "h:1"}, streaming=True)
    with pytest.raises(BadOption, match="groupId needs checkpointLocation"):
        SinkSettings.of({"kafka.bootstrap.servers": "h:1", "sinkId": "s", "groupId": "g"}, streaming=True)


def test_a_batch_job_needs_neither() -> None:
    assert SinkSettings.of({"kafka.bootstrap.servers": "h:1"}, streaming=False).sink_id == ""
    named = SinkSettings.of({"kafka.bootstrap.servers": "h:1", "jobId": "load 7"}, streaming=False)
    assert named.sink_id.startswith("spark-job-")
    with pytest.raises(BadOption, match="groupId"):
        SinkSettings.of({"kafka.bootstrap.servers": "h:1", "groupId": "g"}, streaming=False)


def offsets_file(folder: Path, batch: int, *lines: str) -> str:
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    return str(folder)


def test_offsets_of_all_kafka_sources_of_a_batch(tmp_path: Path) -> None:
    """A stream-stream join has two; a file source has none that count."""
    lines = ("v1", "{}", '{"a":{"0":5,"1":7}}', "-", '{"logOffset":3}', '{"a":{"1":6},"b":{"0":1}}')
    location = offsets_file(tmp_path, 4, *lines)
    for form in (location, f"{location}/", f"file:{location}", f"file://{location}"):
        assert end_offsets(form, 4) == {("a", 0): 5, ("a", 1): 6, ("b", 0): 1}


def test_checkpoints_that_do_not_say(tmp_path: Path) -> None:
    for batch, lines in ((1, ("v9", "{}", "{}")), (2, ("v1", "{}", "-")), (3, ("v1", "{}", "not json"))):
        location = offsets_file(tmp_path, batch, *lines)
        with pytest.raises(SourceOffsetsUnknown):
            end_offsets(location, batch)
    with pytest.raises(SourceOffsetsUnknown, match="cannot be read"):
        source_lines(str(tmp_path), 99)
