"""`tallystick topics` and `tallystick configs`: topics made, grown, described and deleted, and configs of what there
is."""

import json
from functools import partial
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tallystick.cli.configs import configs
from tallystick.cli.topics import topics
from tallystick.cli.written_configs import added, deleted, pairs
from tests.clients.test_explain_command import said
from tests.harness.confluent import admin, wait_until


def described(bootstrap: str, topic: str) -> dict[str, Any]:
    (found,) = json.loads(said(topics, bootstrap, "describe", topic, "--json"))
    assert isinstance(found, dict)
    return found


def set_on(bootstrap: str, of_type: str, *name: str) -> dict[str, str]:
    """What `configs describe` shows of one entity."""
    (found,) = json.loads(said(configs, bootstrap, "describe", "--entity-type", of_type, *name, "--json"))
    return {one["name"]: one["value"] for one in found["configs"]}


def is_set(bootstrap: str, which: tuple[str, ...], value: str | None) -> bool:
    """Whether this is the number of cleaners that is set on a broker, or on all."""
    return set_on(bootstrap, "brokers", *which).get("log.cleaner.threads") == value


def test_a_topic_is_made_described_grown_and_deleted(bootstrap: str, name: str) -> None:
    made = ("--topic", name, "--partitions", "2", "--replication-factor", "1", "--config", "cleanup.policy=compact")
    assert said(topics, bootstrap, "create", *made) == f"Created topic {name}.\n"
    found = described(bootstrap, name)
    assert (found["topic"], found["partitionCount"], found["replicationFactor"]) == (name, 2, 1)
    assert found["configs"]["cleanup.policy"] == "compact" and "retention.ms" not in found["configs"]
    assert [one["partition"] for one in found["partitions"]] == [0, 1] and len(found["topicId"]) == 22
    leaders = [one["leader"] for one in found["partitions"]]
    assert found["partitions"][0]["replicas"] == found["partitions"][0]["isr"] == [leaders[0]]
    head, columns, *rows = said(topics, bootstrap, "describe", name).splitlines()
    assert head.startswith(f"Topic: {name}  TopicId: {found['topicId']}  PartitionCount: 2  ReplicationFactor: 1  Conf")
    assert columns.split() == ["Partition", "Leader", "Replicas", "Isr"]
    assert [row.split() for row in rows] == [[str(at), *[str(leader)] * 3] for at, leader in enumerate(leaders)]
    assert "5 partitions" in said(topics, bootstrap, "alter", "--topic", name, "--partitions", "5")
    assert described(bootstrap, name)["partitionCount"] == 5
    assert name in json.loads(said(topics, bootstrap, "list", "--json"))
    assert json.loads(said(topics, bootstrap, "delete", "--topic", name, "--json")) == {"topic": name, "deleted": True}
    wait_until(lambda: name not in said(topics, bootstrap, "list").splitlines(), "the topic is gone")


def test_what_is_there_and_what_is_not(bootstrap: str, name: str) -> None:
    created = json.loads(said(topics, bootstrap, "create", "--topic", name, "--json"))
    assert created == {"topic": name, "created": True}
    assert described(bootstrap, name)["partitionCount"] >= 1, "as many as num.partitions of the broker says"
    again = ("create", "--topic", name, "--partitions", "1")
    assert "TOPIC_ALREADY_EXISTS" in said(topics, bootstrap, *again, status=1)
    assert json.loads(said(topics, bootstrap, *again, "--if-not-exists", "--json"))["created"] is False
    assert "already exists" in said(topics, bootstrap, *again, "--if-not-exists")
    fewer = ("alter", "--topic", name, "--partitions", "0")
    assert "INVALID_PARTITIONS" in said(topics, bootstrap, *fewer, status=1)
    nobody = f"{name}-nobody"
    for command in (
        ("describe", nobody),
        ("delete", "--topic", nobody),
        ("alter", "--topic", nobody, "--partitions", "3"),
    ):
        assert f"Topic '{nobody}' does not exist as expected" in said(topics, bootstrap, *command, status=1)
    assert "does not exist" in said(topics, bootstrap, "delete", "--topic", nobody, "--if-exists")
    assert nobody not in said(topics, bootstrap, "list"), "nothing was made by asking for it"
    refused = ("create", "--topic", nobody, "--config", "cleanup.policy=never")
    assert "INVALID_CONFIG" in said(topics, bootstrap, *refused, status=1)


def test_internal_topics_are_left_out_where_asked(bootstrap: str, name: str) -> None:
    said(topics, bootstrap, "create", "--topic", name, "--partitions", "1")
    everything = json.loads(said(topics, bootstrap, "describe", "--json"))
    ours = json.loads(said(topics, bootstrap, "describe", "--exclude-internal", "--json"))
    assert [one for one in everything if not one["isInternal"]] == ours
    assert sorted(one["topic"] for one in everything) == json.loads(said(topics, bootstrap, "list", "--json"))
    names = json.loads(said(topics, bootstrap, "list", "--exclude-internal", "--json"))
    assert [one["topic"] for one in ours] == names and name in names


def test_configs_of_a_topic(bootstrap: str, name: str) -> None:
    said(topics, bootstrap, "create", "--topic", name, "--partitions", "1")
    mine = ("--entity-type", "topics", "--entity-name", name)
    add = ("--add-config", "cleanup.policy=[compact,delete], retention.ms=4000,segment.ms=60000")
    assert said(configs, bootstrap, "alter", *mine, *add) == f"Completed updating config for topic {name}.\n"
    wanted = {"cleanup.policy": "compact,delete", "retention.ms": "4000", "segment.ms": "60000"}
    wait_until(lambda: set_on(bootstrap, *mine[1:]) == wanted, "what was set")
    head, columns, *rows = said(configs, bootstrap, "describe", *mine).splitlines()
    assert head == f"Dynamic configs for topic {name} are:" and columns.split() == ["Name", "Value", "Source"]
    assert rows[0].split() == ["cleanup.policy", "compact,delete", "DYNAMIC_TOPIC_CONFIG"]
    (whole,) = json.loads(said(configs, bootstrap, "describe", *mine, "--all", "--json"))
    by_name = {one["name"]: one for one in whole["configs"]}
    assert by_name["max.message.bytes"]["source"] == "DEFAULT_CONFIG" and by_name["retention.ms"]["value"] == "4000"
    assert by_name["retention.ms"]["synonyms"][0]["source"] == "DYNAMIC_TOPIC_CONFIG"
    both = ("--add-config", "retention.ms=5000", "--delete-config", "segment.ms,cleanup.policy", "--json")
    done = json.loads(said(configs, bootstrap, "alter", *mine, *both))
    assert done["added"] == {"retention.ms": "5000"} and done["deleted"] == ["segment.ms", "cleanup.policy"]
    wait_until(lambda: set_on(bootstrap, *mine[1:]) == {"retention.ms": "5000"}, "what was taken back")
    bad = ("alter", *mine, "--add-config", "retention.ms=6000,cleanup.policy=never")
    assert "INVALID_CONFIG" in said(configs, bootstrap, *bad, status=1)
    assert set_on(bootstrap, *mine[1:]) == {"retention.ms": "5000"}, "all or nothing"
    everybodys = json.loads(said(configs, bootstrap, "describe", "--entity-type", "topics", "--json"))
    assert [one["entityName"] for one in everybodys if one["entityName"] == name] == [name]
    nobody = ("--entity-type", "topics", "--entity-name", f"{name}-nobody")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in said(configs, bootstrap, "describe", *nobody, status=1)
    assert "UNKNOWN_TOPIC" in said(configs, bootstrap, "alter", *nobody, "--add-config", "retention.ms=1", status=1)


def test_configs_of_brokers_and_groups(bootstrap: str, name: str) -> None:
    brokers = [str(one) for one in admin(bootstrap).list_topics(timeout=60).brokers]
    broker = brokers[-1]
    for which in (("--entity-name", broker), ("--entity-default",)):
        where = ("--entity-type", "brokers", *which)
        said(configs, bootstrap, "alter", *where, "--add-config", "log.cleaner.threads=2")
        wait_until(partial(is_set, bootstrap, which, "2"), "it is set")
        said(configs, bootstrap, "alter", *where, "--delete-config", "log.cleaner.threads")
        wait_until(partial(is_set, bootstrap, which, None), "it is taken back")
    every = json.loads(said(configs, bootstrap, "describe", "--entity-type", "brokers", "--all", "--json"))
    assert [one["entityName"] for one in every] == [*brokers, None]
    assert "log.dirs" in {one["name"] for one in every[0]["configs"]}
    unknown = ("describe", "--entity-type", "brokers", "--entity-name", "77")
    assert "there is no broker '77'" in said(configs, bootstrap, *unknown, status=1)
    mine = ("--entity-name", name)
    said(
        configs,
        bootstrap,
        "alter",
        "--entity-type",
        "groups",
        *mine,
        "--add-config",
        "consumer.session.timeout.ms=50000",
    )
    wait_until(lambda: set_on(bootstrap, "groups", *mine) == {"consumer.session.timeout.ms": "50000"}, "it is set")
    groups = json.loads(said(configs, bootstrap, "describe", "--entity-type", "groups", "--json"))
    assert name in [one["entityName"] for one in groups]


def test_how_configs_are_written() -> None:
    assert added("a=1, b=[2,3] ,c=,d=[x=1,y]") == {"a": "1", "b": "2,3", "c": "", "d": "x=1,y"}
    assert deleted("a, b,") == ["a", "b"]
    assert pairs(("a=b=c", "d= e,f")) == {"a": "b=c", "d": "e,f"}
    for wrong in ("a", "=1", "a=1=2", "a=1,,b=2"):
        with pytest.raises(click.BadParameter, match="is not name=value"):
            added(wrong)
    with pytest.raises(click.BadParameter, match="is not name=value"):
        pairs(("a",))


@pytest.mark.parametrize(
    "arguments",
    [
        ("alter", "--entity-type", "topics", "--entity-name", "t"),
        ("alter", "--entity-type", "topics", "--add-config", "a=1"),
        ("describe", "--entity-type", "topics", "--entity-default"),
        ("describe", "--entity-type", "brokers", "--entity-default", "--entity-name", "1"),
        ("describe", "--entity-type", "topics", "--entity-name", ""),
        ("describe", "--entity-type", "users"),
    ],
)
def test_what_cannot_be_meant(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(configs, [*arguments, "--bootstrap-server", "localhost:1"])
    assert done.exit_code == 2, done.output
    assert "--entity" in done.output or "--add-config" in done.output
