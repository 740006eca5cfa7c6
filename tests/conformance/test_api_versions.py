"""Every API of Apache Kafka 4.3.1, in the same versions."""

from pathlib import Path

import pytest

from broker.api.api_families import load_handlers
from tests.conformance.api_versions import MORE, NEITHER, asked, recorded
from tests.harness import jars
from tests.harness.apache_kafka import ApacheKafka


def test_ours_are_kafkas_and_more_that_is_explained() -> None:
    ours = {entry.api_key: (entry.advertised.start, entry.advertised.stop - 1) for entry in load_handlers().values()}
    kafkas = recorded()
    assert ours.keys() - kafkas.keys() == MORE.keys()
    assert {key: ours.get(key) for key in kafkas} == kafkas


def test_every_other_key_is_spoken_between_brokers() -> None:
    between = set()
    for words in NEITHER.replace(" and ", ", ").split(", "):
        first, _, last = words.partition("–")
        between |= set(range(int(first), int(last or first) + 1))
    listed = recorded().keys() | MORE.keys()
    assert between == set(range(max(listed) + 1)) - listed


@pytest.mark.other_languages
def test_a_running_kafka_lists_what_is_recorded(tmp_path: Path) -> None:
    try:
        kafka = ApacheKafka(tmp_path, heap="512m")
    except jars.JarsMissing as reason:
        pytest.skip(f"needs Kafka's jars: {reason}")
    try:
        assert asked(kafka.start().bootstrap) == recorded()
    finally:
        kafka.close()
