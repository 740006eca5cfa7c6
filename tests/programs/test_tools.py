"""Kafka's tools say the same of this broker as of Apache Kafka 4.3.1, word for word but for what is declared here.

Both are told one story (`tools_story.py`), at the same time. Every tool of Kafka's that speaks with a broker is in it,
or in a test that is named here.
"""

import json
import re
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness import jars
from tests.harness.confluent import make_topic, wait_until, write
from tests.harness.kafka_tools import PACKAGE, KafkaTools, Said
from tests.programs.java_program import JavaPrograms
from tests.programs.tools_story import DECLARED, STORY, Ask, in_our_words, meaning

ELSEWHERE = {
    "DumpLogSegments": "clients/test_dump_log_segments.py",
    "TransactionalMessageCopier": "clients/test_kafka_tools.py",
    "VerifiableProducer": "clients/test_kafka_tools.py",
    "reassign.ReassignPartitionsCommand": "clients/test_administration.py",
    "ReplicaVerificationTool": "programs/test_tools.py",
}
"""These want files, kills or a process of their own."""
NO_BROKER = {
    "ConnectPluginPath": "looks at folders",
    "JmxTool": "asks a Java machine",
    "OAuthCompatibilityTool": "asks for tokens",
}


def told(folder: Path, bootstrap: str) -> list[Said]:
    """The whole story."""
    records = {"version": 1, "partitions": [{"topic": "one", "partition": 0, "offset": 2}]}
    (folder / "records.json").write_text(json.dumps(records))
    (folder / "empty").write_text("")
    names = {"server": bootstrap, "records": str(folder / "records.json"), "empty": str(folder / "empty")}
    tools = KafkaTools(folder)
    try:
        return [tools.run(ask.tool, *ask.filled(names), stdin=ask.stdin) for ask in STORY]
    finally:
        tools.close()


def words(ask: Ask, said: Said) -> tuple[int, str, str]:
    return said.status, meaning(ask, said.output), meaning(ask, said.errors)


def test_tools_say_of_ours_what_they_say_of_kafka(broker: BrokerProcess, theirs: BrokerProcess, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        ours, kafkas = pool.map(lambda one: told(tmp_path, one.bootstrap), (broker, theirs))
    other = []
    for ask, here, there in zip(STORY, ours, kafkas, strict=True):
        expected = in_our_words(words(ask, there))
        if words(ask, here) != expected:
            other.append(f"{ask.tool} {ask.arguments}\n--- ours: {words(ask, here)}\n--- Kafka: {expected}")
    assert not other, "\n".join(other)
    answers = "\n".join(meaning(ask, said.output) for ask, said in zip(STORY, kafkas, strict=True))
    assert all(re.search(pattern, answers) for pattern, _, _ in DECLARED), "what is declared, Kafka says"


def test_replicas_are_verified(broker: BrokerProcess, programs: JavaPrograms) -> None:
    """kafka-replica-verification reads as a follower would, for as long as it is let live."""
    make_topic(broker.bootstrap, "verified", 2)
    write(broker.bootstrap, "verified", [b"value"] * 10)
    asked = ("--broker-list", broker.bootstrap, "--topics-include", "verified", "--report-interval-ms", "200")
    tool = programs.program("verifier", programs.class_path("kafka"), PACKAGE + "ReplicaVerificationTool", *asked)
    tool.start()
    report = r"max lag is (-?\d+) for partition (\S+) at"
    wait_until(lambda: re.search(report, tool.said()) or not tool.running, "a report")
    found = re.search(report, tool.said())
    assert found is not None
    assert found[1] == "0"
    assert found[2].startswith("verified-")


def test_every_tool_of_kafka_is_told() -> None:
    """By what is in Kafka's jar of tools and has a `main`."""
    java_p = shutil.which("javap")
    if java_p is None or not jars.is_complete("kafka"):
        pytest.skip("needs a JDK and Kafka's jars")
    (jar,) = (jars.JARS / "kafka").glob("kafka-tools-[0-9]*.jar")
    with zipfile.ZipFile(jar) as inside:
        names = [
            name[:-6].replace("/", ".") for name in inside.namelist() if name.endswith(".class") and "$" not in name
        ]
    command = [java_p, "-public", "-cp", f"{jar}:{jars.class_path('kafka')}", *names]
    described = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("Compiled from")
    found = {
        match[1].removeprefix(PACKAGE)
        for one in described
        if "void main(java.lang.String" in one and (match := re.search(r"class (\S+)", one)) is not None
    }
    assert len(found) > 30
    assert found - {ask.tool for ask in STORY} - set(NO_BROKER) == set(ELSEWHERE)
    tests = Path(__file__).resolve().parents[1]
    assert all(
        f'"{tool}"' in (tests / file).read_text() or f".{tool}" in (tests / file).read_text()
        for tool, file in ELSEWHERE.items()
    )
