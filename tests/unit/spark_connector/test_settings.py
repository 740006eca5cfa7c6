"""Options: defaults, stock names, and the sentences for what would silently break the guarantee."""

from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from spark_connector.errors import BadOption
from spark_connector.options import WITHOUT_EFFECT
from spark_connector.sink.settings import SinkSettings
from spark_connector.source.settings import WITHOUT_EFFECT as OF_THE_SOURCE
from spark_connector.source.settings import settings_of

LEAST = {"kafka.bootstrap.servers": "h:1", "checkpointLocation": "/c"}


def test_stock_names_in_any_case_and_defaults() -> None:
    given = LEAST | {"KAFKA.Compression.Type": "zstd", "kafka.linger.ms": "5", "kafka.acks": "all", "someOther": "x"}
    settings = SinkSettings.of(given, streaming=True)
    assert (settings.codec, settings.batch_bytes, settings.patience_s) == (4, 512 << 10, 120)
    assert settings.progress_topic == "__spark_sink_progress"


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
        ({"job_id": "x"}, "was jobId meant"),
        ({"SINK_ID": "x"}, "was sinkId meant"),
        ({"topics": "x"}, "was topic meant"),
        ({"group.id": "x"}, "was groupId meant"),
        ({"progres-topic": "x"}, "was progressTopic meant"),
    ],
)
def test_what_is_refused_of_a_stream(change: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        SinkSettings.of(LEAST | change, streaming=True)


def test_what_is_without_effect_is_taken_and_documented() -> None:
    """Each with its reason."""
    documented = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    SinkSettings.of(LEAST | dict.fromkeys(WITHOUT_EFFECT, "5"), streaming=True)
    settings_of({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | dict.fromkeys(OF_THE_SOURCE, "5"))
    for name, reason in (WITHOUT_EFFECT | OF_THE_SOURCE).items():
        assert f"| `{name}` | {reason} |" in documented


def test_names_of_others_are_left_alone() -> None:
    for name in ("path", "groupIdPrefix", "fetchOffset.numRetries", "compression", "mergeSchema", "queryName"):
        SinkSettings.of(LEAST | {name: "x"}, streaming=True)


def test_misspelled_names_of_the_source() -> None:
    """Silently without effect they would read everything in one micro-batch."""
    for name in ("maxOffsetPerTrigger", "max_offsets_per_trigger", "startingOffset"):
        with pytest.raises(BadOption, match="meant"):
            settings_of({"kafka.bootstrap.servers": "h:1", "subscribe": "t", name: "5"})


def test_a_batch_job_needs_neither() -> None:
    assert SinkSettings.of({"kafka.bootstrap.servers": "h:1"}, streaming=False).sink_id is None
    named = SinkSettings.of({"kafka.bootstrap.servers": "h:1", "jobId": "load 7"}, streaming=False)
    assert (named.sink_id or "").startswith("spark-job-")
    with pytest.raises(BadOption, match="groupId"):
        SinkSettings.of({"kafka.bootstrap.servers": "h:1", "groupId": "g"}, streaming=False)
