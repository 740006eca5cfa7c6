"""Changing settings: AlterConfigs replaces all, IncrementalAlterConfigs changes some."""

from collections import Counter
from typing import Any

import pytest

from coordinator.cluster.configs import Alteration, AlterationResult, AlteredResource, Operation
from protocol.errors import ErrorCode
from protocol.primitives import MAX_STRING_BYTES
from tests.unit.cluster.cluster_rig import ClusterRig, topic

SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT
TOPIC, BROKER = 2, 4


def alter(
    rig: ClusterRig,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    replace: bool = False,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    resource = AlteredResource(
        resource_type, name, tuple(Alteration(key, value, how) for key, how, value in changes), replace
    )
    (result,) = altered(rig, resource, validate_only=validate_only)
    return result.error, result.message


def altered(rig: ClusterRig, *resources: AlteredResource, **options: Any) -> list[AlterationResult]:
    times_named = Counter((one.resource_type, one.name) for one in resources)
    results: list[AlterationResult] = rig.ask(
        lambda machine, ticket: machine.alter_configs(ticket, resources, rig.rules, times_named, **options)
    )
    return results


def with_topic() -> ClusterRig:
    rig = ClusterRig()
    rig.create(topic("t", 1, 1, {"retention.ms": "5"}))
    return rig


def configs(rig: ClusterRig) -> dict[str, str]:
    return dict(rig.machine.image.topics["t"].configs)


def test_set_delete_append_and_subtract() -> None:
    rig = with_topic()
    assert alter(rig, TOPIC, "t", ("retention.ms", DELETE, None), ("segment.ms", SET, "7")) == (0, None)
    assert configs(rig) == {"segment.ms": "7"}
    assert alter(rig, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert configs(rig)["cleanup.policy"] == "delete,compact", "appending starts from the default"
    alter(rig, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert configs(rig)["cleanup.policy"] == "delete,compact", "no word is there twice"
    alter(rig, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert configs(rig)["cleanup.policy"] == "compact"


def test_an_appended_value_is_bounded_by_the_string_length() -> None:
    rig = with_topic()
    key = "leader.replication.throttled.replicas"
    longest = ",".join(f"{number}:1" for number in range(4_500))
    assert alter(rig, TOPIC, "t", (key, SET, longest)) == (0, None)
    more = ",".join(f"{number}:2" for number in range(4_500))
    assert alter(rig, TOPIC, "t", (key, APPEND, more))[0] == ErrorCode.INVALID_CONFIG
    assert configs(rig)[key] == longest


def test_replacing_drops_what_is_not_named() -> None:
    rig = with_topic()
    assert alter(rig, TOPIC, "t", ("segment.ms", SET, "7"), replace=True) == (0, None)
    assert configs(rig) == {"segment.ms": "7"}
    assert alter(rig, TOPIC, "t", replace=True) == (0, None)
    assert configs(rig) == {}


def test_validate_only_changes_nothing() -> None:
    rig = with_topic()
    assert alter(rig, TOPIC, "t", ("retention.ms", SET, "7"), validate_only=True) == (0, None)
    assert configs(rig) == {"retention.ms": "5"}


REFUSED_TOPIC = [
    (("retention.ms", SET, "x"), 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    (("retention.ms", APPEND, "5"), 40, "Can't APPEND to key retention.ms because its type is not LIST."),
    (("retention.ms", SET, None), 42, "Null value not supported for : retention.ms"),
    (("retention.ms", 9, "5"), 42, None),
    (("nope", SET, "5"), 40, "Unknown topic config name: nope"),
    (("cleanup.policy", APPEND, "compact,foo"), 40, None),
    (("cleanup.policy", SET, "compact,,delete"), 40, "Configuration 'cleanup.policy' values must not be empty."),
    (("cleanup.policy", SET, ","), 40, "Configuration 'cleanup.policy' values must not be empty."),
    (("remote.storage.enable", SET, "true"), 40, None),
]


@pytest.mark.parametrize(("change", "code", "sentence"), REFUSED_TOPIC)
def test_a_resource_changes_whole_or_not_at_all(
    change: tuple[str, int, str | None], code: int, sentence: str | None
) -> None:
    rig = with_topic()
    error, message = alter(rig, TOPIC, "t", ("segment.ms", SET, "7"), change)
    assert error == code and (sentence is None or message == sentence)
    assert configs(rig) == {"retention.ms": "5"}


def test_resources_that_are_not_there() -> None:
    rig = with_topic()
    assert alter(rig, TOPIC, "nope", ("retention.ms", SET, "5")) == (3, "The topic 'nope' does not exist.")
    assert alter(rig, TOPIC, "../t", ("retention.ms", SET, "5"))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert alter(rig, TOPIC, "", ("retention.ms", SET, "5")) == (42, "Default topic resources are not allowed.")
    assert alter(rig, BROKER, "2", ("log.retention.ms", SET, "5")) == (
        42, "Unexpected broker id, expected 1, but received 2"
    )  # fmt: skip
    assert alter(rig, BROKER, "x", ("log.retention.ms", SET, "5")) == (42, "Node id must be an integer, but it is: x")
    assert alter(rig, 99, "x", ("a", SET, "b"))[0] == 42
    twice = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert alter(rig, TOPIC, "t", *twice) == (42, "Error due to duplicate config keys")


def test_broker_settings_that_may_change_and_those_that_may_not() -> None:
    rig = ClusterRig()
    assert alter(rig, BROKER, "1", ("log.retention.ms", SET, "7")) == (0, None)
    assert alter(rig, BROKER, "", ("message.max.bytes", SET, "10")) == (0, None)
    assert rig.machine.image.broker_configs == {"1": {"log.retention.ms": "7"}, "": {"message.max.bytes": "10"}}
    assert alter(rig, BROKER, "1", ("log.dirs", SET, "x")) == (
        42,
        "Cannot update these configs dynamically: [log.dirs]",
    )
    assert alter(rig, BROKER, "1", ("log.retention.ms", SET, "x"))[0] == 42
    assert alter(rig, BROKER, "1", ("log.retentoin.ms", SET, "5"))[0] == 40
    assert alter(rig, BROKER, "1", replace=True) == (0, None)
    assert rig.machine.image.broker_configs["1"] == {}


def test_a_value_that_is_no_value_is_told_before_whom_it_would_keep_out() -> None:
    rig = ClusterRig(asked_from="10.0.0.1")
    key, other = "max.connections.per.ip.overrides", "log.retention.ms"
    keeps_out = alter(rig, BROKER, "1", (key, SET, "10.0.0.1:0"))
    assert keeps_out[0] == 42 and rig.machine.image.broker_configs == {}
    assert alter(rig, BROKER, "1", (key, SET, "10.0.0.1:1,10.0.0.2:0")) == (0, None)
    both = alter(rig, BROKER, "1", (key, SET, "10.0.0.1:0"), (other, SET, "x"))
    assert both == alter(rig, BROKER, "1", (other, SET, "x")) != keeps_out


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
@pytest.mark.parametrize("broker", ["1", ""])
def test_nobody_can_be_locked_out(key: str, broker: str) -> None:
    """Nobody could connect to take it back."""
    rig = ClusterRig()
    assert alter(rig, BROKER, broker, (key, SET, "0"))[0] == 42
    assert alter(rig, BROKER, broker, (key, SET, "1")) == (0, None)
    assert rig.machine.image.broker_configs == {broker: {key: "1"}}


def test_a_resource_named_twice_is_refused_twice() -> None:
    rig = with_topic()
    resource = AlteredResource(TOPIC, "t", (Alteration("retention.ms", "9"),))
    results = altered(rig, resource, resource)
    assert [(one.error, one.message) for one in results] == [(42, "Each resource must appear at most once.")] * 2
    assert configs(rig) == {"retention.ms": "5"}


def test_as_many_resources_change_as_there_is_time_for() -> None:
    rig = with_topic()
    topics = AlteredResource(TOPIC, "t", (Alteration("retention.ms", "9"),))
    brokers = AlteredResource(BROKER, "", (Alteration("log.retention.ms", "9"),))
    (result,) = altered(rig, topics, brokers, spent=lambda: True)
    assert result == AlterationResult(topics)
    assert configs(rig) == {"retention.ms": "9"} and rig.machine.image.broker_configs == {}


PATH = "ssl.keystore.location"
OF_LISTENERS = [
    ("1", f"listener.name.secure.{PATH}", 0, None),
    ("", f"listener.name.secure.{PATH}", 42, "Cannot update these configs at default cluster level"),
    ("1", PATH, 42, "These security configs can be dynamically updated only per-listener using the listener prefix"),
    ("", PATH, 42, "These security configs can be dynamically updated only per-listener using the listener prefix"),
    ("1", "listener.name.secure.ssl.principal.mapping.rules", 42, "Cannot update these configs dynamically"),
    ("1", "listener.name.secure.ssl.nonsense", 40, "Unknown broker config name"),
    ("1", "listener.name.secure.log.dirs", 40, "Unknown broker config name"),
]


@pytest.mark.parametrize(("broker", "name", "code", "sentence"), OF_LISTENERS)
def test_settings_of_one_listener(broker: str, name: str, code: int, sentence: str | None) -> None:
    rig = ClusterRig()
    error, message = alter(rig, BROKER, broker, (name, SET, "/keys.p12"))
    assert error == code
    assert message is None if sentence is None else sentence in str(message)
    assert rig.machine.image.broker_configs.get(broker, {}) == ({} if code else {name: "/keys.p12"})


def test_what_a_later_version_has_set_of_a_topic_is_left_alone() -> None:
    rig = with_topic()
    rig.machine.image.topics["t"].configs["of.a.later.version"] = "x"
    assert alter(rig, TOPIC, "t", ("retention.ms", SET, "6")) == (0, None)
    assert configs(rig) == {"retention.ms": "6", "of.a.later.version": "x"}
    assert alter(rig, TOPIC, "t", ("of.a.later.version", SET, "y"))[0] == ErrorCode.INVALID_CONFIG
    assert alter(rig, TOPIC, "t", ("of.a.later.version", DELETE, None)) == (0, None)
    assert configs(rig) == {"retention.ms": "6"}


def test_a_setting_is_held_against_those_that_were_there_before() -> None:
    rig = with_topic()
    shortest, longest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert alter(rig, TOPIC, "t", (longest, SET, "10")) == (0, None)
    assert alter(rig, TOPIC, "t", (shortest, SET, "11"))[0] == ErrorCode.INVALID_CONFIG
    assert alter(rig, TOPIC, "t", (shortest, SET, "10")) == (0, None)


def test_only_what_changes_is_written_down() -> None:
    rig = with_topic()
    end = rig.log.end_offset
    assert alter(rig, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)) == (0, None)
    assert rig.log.end_offset == end
    assert alter(rig, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == (0, None)
    assert rig.log.end_offset == end + 1


METRICS, GROUP = 16, 32
NOTHING_IS_KEPT = [
    (GROUP, "g", ("nope", DELETE, None), 0, None),
    (GROUP, "", ("nope", DELETE, None), 42, "Default group resources are not allowed."),
    (GROUP, "g", ("nope", SET, "1"), 40, "Unknown group config name: nope"),
]


@pytest.mark.parametrize(("kind", "name", "change", "code", "message"), NOTHING_IS_KEPT)
def test_of_groups_nothing_can_be_set(
    kind: int, name: str, change: tuple[str, int, str | None], code: int, message: str | None
) -> None:
    rig = with_topic()
    end = rig.log.end_offset
    assert alter(rig, kind, name, change) == (code, message)
    assert alter(rig, kind, name, ("first", DELETE, None), change) == (code, message)
    assert alter(rig, kind, name, change, change) == (42, "Error due to duplicate config keys")
    assert rig.log.end_offset == end


def test_a_list_is_altered_word_by_word() -> None:
    rig = with_topic()
    key = "leader.replication.throttled.replicas"
    assert alter(rig, TOPIC, "t", (key, SET, " 0:1 , 1:1")) == (0, None)
    assert alter(rig, TOPIC, "t", (key, APPEND, " 1:1, 2:1 ,")) == (0, None)
    assert configs(rig)[key] == "0:1,1:1,2:1"
    assert alter(rig, TOPIC, "t", (key, SUBTRACT, " 0:1 , 9:9")) == (0, None)
    assert configs(rig)[key] == "1:1,2:1"
    room = MAX_STRING_BYTES - len("1:1,2:1,")
    assert alter(rig, TOPIC, "t", (key, APPEND, "x" * (room + 1))) == (
        40,
        f"The configuration value of {key} would be longer than {MAX_STRING_BYTES} bytes.",
    )
    assert alter(rig, TOPIC, "t", (key, APPEND, "3:" + "1" * (room - 2))) == (0, None)
    assert len(configs(rig)[key]) == MAX_STRING_BYTES


NAMES_OF_BROKERS = [
    ("-1", "Unexpected broker id, expected 1, but received -1"),
    ("01", "Unexpected broker id, expected 1, but received 01"),
    ("--1", "Node id must be an integer, but it is: --1"),
    ("\u00b9", "Node id must be an integer, but it is: \u00b9"),
    ("1.0", "Node id must be an integer, but it is: 1.0"),
    ("+1", "Unexpected broker id, expected 1, but received +1"),
    ("+", "Node id must be an integer, but it is: +"),
    ("-2147483648", "Unexpected broker id, expected 1, but received -2147483648"),
    ("2147483648", "Node id must be an integer, but it is: 2147483648"),
    ("9" * 5000, f"Node id must be an integer, but it is: {'9' * 5000}"),
]


@pytest.mark.parametrize(("name", "message"), NAMES_OF_BROKERS)
def test_names_of_brokers(name: str, message: str) -> None:
    rig = ClusterRig()
    assert alter(rig, BROKER, name, ("log.retention.ms", SET, "5")) == (42, message)
    assert rig.machine.image.broker_configs == {}


def test_lists_of_a_broker_begin_with_what_is_in_force() -> None:
    rig = ClusterRig()
    assert alter(rig, BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == (0, None)
    assert rig.machine.image.broker_configs["1"] == {"log.cleanup.policy": "delete,compact"}
    assert alter(rig, BROKER, "1", ("log.retention.ms", SUBTRACT, "1"))[0] == ErrorCode.INVALID_CONFIG
    assert alter(rig, BROKER, "1", ("no.such.key", APPEND, "1")) == (
        40,
        "Can't APPEND to key no.such.key because its type is not LIST.",
    )


def test_what_cannot_change_may_be_deleted_where_it_is_not_set() -> None:
    rig = ClusterRig()
    assert alter(rig, BROKER, "1", ("log.dirs", DELETE, None)) == (0, None)
    rig.machine.image.broker_configs["1"] = {"log.dirs": "x"}
    assert alter(rig, BROKER, "1", ("log.dirs", DELETE, None))[0] == 42
    assert alter(rig, BROKER, "1", ("log.retention.ms", SET, "5"))[0] == 42


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
@pytest.mark.parametrize("name", ["", "1"])
def test_how_often_groups_are_assigned_changes_while_the_broker_runs_within_its_bounds(kind: str, name: str) -> None:
    rig = ClusterRig()
    key = f"group.{kind}.assignment.interval.ms"
    assert alter(rig, BROKER, name, (key, SET, "15000")) == (0, None)
    assert alter(rig, BROKER, name, (key, SET, "15001")) == (
        42,
        f"{key} must be less than or equal to group.{kind}.max.assignment.interval.ms",
    )
    assert rig.machine.image.broker_configs == {name: {key: "15000"}}
    assert alter(rig, BROKER, name, (f"group.{kind}.max.assignment.interval.ms", SET, "20000"))[0] == 42
    assert alter(rig, BROKER, name, (key, DELETE, None)) == (0, None)
