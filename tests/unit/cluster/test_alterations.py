"""Changing settings: AlterConfigs replaces all, IncrementalAlterConfigs changes some."""

import pytest

from coordinator.cluster.configs import Alteration, AlterationResult, AlteredResource, Operation
from protocol.errors import ErrorCode
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
    results: list[AlterationResult] = rig.ask(
        lambda machine, ticket: machine.alter_configs(ticket, [resource], rig.rules, validate_only=validate_only)
    )
    return results[0].error, results[0].message


def with_topic() -> ClusterRig:
    rig = ClusterRig()
    rig.create(topic("t", 1, 1, {"retention.ms": "5"}))
    return rig


def configs(rig: ClusterRig) -> dict[str, str]:
    return dict(rig.machine.image.topics["t"].configs)


def test_set_delete_append_and_subtract() -> None:
    rig = with_topic()
    assert alter(rig, TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", DELETE, None)) == (0, None)
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
    results = rig.ask(lambda machine, ticket: machine.alter_configs(ticket, [resource, resource], rig.rules))
    assert [result.error for result in results] == [42, 42] and configs(rig) == {"retention.ms": "5"}


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
