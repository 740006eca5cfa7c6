"""Options: defaults, stock names, and the sentences for what would silently break the guarantee."""

import os
import pickle
import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from spark_connector.access import Access
from spark_connector.errors import BadOption
from spark_connector.sink.settings import SinkSettings
from spark_connector.source.settings import settings_of
from spark_connector.stock_settings import OF_THE_SINK, OF_THE_SOURCE, REFUSED_BY_THE_SINK, REFUSED_BY_THE_SOURCE
from tallystick.client.client import addresses_in
from tests.harness import jars, spark_settings
from tests.harness.certificates import Certificates

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
        ({"kafka.security.protocol": "TLS"}, "plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ({"kafka.ssl.engine.factory.class": "mine.Factory"}, "classes of Java"),
        ({"kafka.interceptor.classes": "mine.Interceptor"}, "classes of Java"),
        ({"kafka.fetch.min.bytes": "1"}, "not known here"),
        ({"sinkId": "a|b"}, "sinkId"),
        ({"topic": "__spark_sink_progress"}, "control topic"),
        ({"jobId": "x"}, "batch jobs"),
        ({"job_id": "x"}, "was jobId meant"),
        ({"SINK_ID": "x"}, "was sinkId meant"),
        ({"topics": "x"}, "was topic meant"),
        ({"group.id": "x"}, "was groupId meant"),
        ({"progres-topic": "x"}, "was progressTopic meant"),
        ({"compression.type": "gzip"}, "was kafka.compression.type meant"),
        ({"kafka.compresion.type": "gzip"}, "was kafka.compression.type meant"),
        ({"kafka.bootstrap.servers": "h"}, "'h' is not host:port"),
        ({"kafka.bootstrap.servers": "h:1,h:port"}, "'h:port' is not host:port"),
        ({"kafka.bootstrap.servers": "h:65536"}, "'h:65536' is not host:port"),
        ({"kafka.bootstrap.servers": "h:0"}, "'h:0' is not host:port"),
        ({"kafka.bootstrap.servers": ","}, "no host:port"),
        ({"kafka.transaction.timeout.ms": "2147483648"}, "above 2147483647"),
    ],
)
def test_what_is_refused_of_a_stream(change: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        SinkSettings.of(LEAST | change, streaming=True)


def test_addresses_as_java_takes_them() -> None:
    settings = SinkSettings.of(LEAST | {"kafka.bootstrap.servers": "PLAINTEXT://h:1, [::1]:65535,"}, streaming=True)
    assert addresses_in(settings.access.bootstrap) == [("h", 1), ("::1", 65535)]


READING = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize("name", ["kafka.max.partition.fetch.bytes", "kafka.fetch.max.wait.ms"])
def test_what_is_too_wide_for_a_request_is_refused(name: str) -> None:
    settings_of(READING | {name: "2147483647"})
    with pytest.raises(BadOption, match="above 2147483647"):
        settings_of(READING | {name: "2147483648"})


def test_a_setting_without_its_prefix_is_not_lost() -> None:
    with pytest.raises(BadOption, match=r"was kafka\.isolation\.level meant"):
        settings_of(READING | {"isolation.level": "read_uncommitted"})


def test_what_is_without_effect_is_taken() -> None:
    SinkSettings.of(LEAST | dict.fromkeys(OF_THE_SINK, "5"), streaming=True)
    settings_of(READING | dict.fromkeys(OF_THE_SOURCE, "5"))


def test_what_is_refused_says_why_and_is_taken_where_it_is_switched_off() -> None:
    for name, why in REFUSED_BY_THE_SINK.items():
        with pytest.raises(BadOption, match=re.escape(why)):
            SinkSettings.of(LEAST | {name: "5"}, streaming=True)
        SinkSettings.of(LEAST | {name: "false"}, streaming=True)
    for name, why in REFUSED_BY_THE_SOURCE.items():
        with pytest.raises(BadOption, match=re.escape(why)):
            settings_of(READING | {name: "5"})


def test_the_table_of_settings_is_current() -> None:
    assert spark_settings.TABLE.is_current(), "run `make docs`"


@pytest.mark.parametrize("clients", ["spark", "kafka"])
@pytest.mark.parametrize("sort", spark_settings.CLIENTS)
def test_every_setting_of_javas_clients_has_been_thought_of(clients: str, sort: str) -> None:
    """Those of the client that is in Spark's own connector, and of a newer one."""
    try:
        names = set().union(*(spark_settings.names_of_java(clients, one) for one in spark_settings.CLIENTS[sort]))
    except jars.JarsMissing as reason:
        pytest.skip(str(reason))
    assert len(names) > 80, "Java has described its settings"
    table = spark_settings.TABLES[sort]
    assert [name for name in sorted(names) if spark_settings.what_becomes_of(f"kafka.{name}", table) is None] == []


def test_how_a_cluster_is_spoken_to_is_a_value_that_shows_no_secret() -> None:
    """It is pickled, and is the key of connections."""
    given = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "the secret", "kafka.client.id": "me"}
    sink, source = SinkSettings.of(LEAST | given, streaming=True).access, settings_of(READING | given).access
    assert sink == source == Access("h:1", "me", sink.settings) and "the secret" not in repr(sink)
    assert pickle.loads(pickle.dumps(sink)) == sink
    with pytest.raises(BadOption, match=r"kafka\.sasl\.mechanism is missing"):
        sink.security()


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_in_place_of_another_is_noticed_whatever_its_time(tmp_path: Path, store: str) -> None:
    """As where a folder of secrets is exchanged: all files of both have one time."""
    path, other = tmp_path / "store", tmp_path / "other"
    for written in (path, other):
        written.write_bytes(b"as long as the other one")
        os.utime(written, (1, 1))
    access = SinkSettings.of(LEAST | {f"kafka.ssl.{store}.location": str(path)}, streaming=True).access
    before = access.state()
    assert access.state() == before
    other.replace(path)
    assert access.state() != before


def test_a_file_of_certificates_that_changes_is_read_anew(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    path = certificates.path("ca")
    given = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}
    access = SinkSettings.of(LEAST | given | {"kafka.ssl.truststore.location": str(path)}, streaming=True).access
    first = access.security()
    assert access.security() is first
    path.write_bytes(Certificates(tmp_path / "other").path("ca").read_bytes())
    os.utime(path, (1, 1))
    assert access.security() is not first
    path.unlink()
    with pytest.raises(BadOption, match="cannot be read"):
        access.security()
