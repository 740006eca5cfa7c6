"""Changing settings of topics and brokers: AlterConfigs replaces all, IncrementalAlterConfigs changes some (KIP-339).

Pure: reads an image, returns an answer per resource and the records that make it true. A resource changes whole or
not at all.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from coordinator.cluster import client_metrics
from coordinator.cluster.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from coordinator.cluster.keys.config_keys import (
    GROUP_KEYS,
    TOPIC_KEYS,
    Layers,
    broker_key,
    check_assignment_intervals,
    check_group_values,
    check_topic_values,
    is_ignored,
)
from coordinator.cluster.keys.config_types import ConfigKey, ConfigType, InvalidConfig, Scope, render
from coordinator.cluster.keys.limit_keys import PER_ADDRESS, canonical_address, connections_by_address
from coordinator.cluster.keys.listener_keys import LISTENER_PREFIX
from coordinator.cluster.keys.tls_keys import ONLY_OF_A_LISTENER
from coordinator.cluster.records import ConfigRecord
from coordinator.cluster.topic_rules import Refused, check_name
from coordinator.cluster.topics import Decided, Rules, never_spent
from protocol.errors import ErrorCode
from protocol.primitives import MAX_STRING_BYTES

LONGEST_NUMBER = 20
"""Digits of the id of a broker, zeros in front of it included."""


class Operation(IntEnum):
    """What an incremental change does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One key of one resource. `operation` as it came in."""

    name: str
    value: str | None
    operation: int = Operation.SET


@dataclass(frozen=True, slots=True)
class AlteredResource:
    """A resource to change; `replace` drops what is not named (AlterConfigs)."""

    resource_type: int
    name: str
    alterations: tuple[Alteration, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterationResult:
    """What became of one resource."""

    resource: AlteredResource
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter(
    image: ClusterImage,
    resources: Sequence[AlteredResource],
    rules: Rules,
    decided: Decided,
    times_named: Mapping[tuple[int, str], int],
    spent: Callable[[], bool] = never_spent,
) -> list[AlterationResult]:
    """Decide resources, each on its own: one at least, and as many as there is time for. `times_named` is for the
    request as a whole, where these are not all of it."""
    results: list[AlterationResult] = []
    for resource in resources:
        try:
            if times_named[resource.resource_type, resource.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            decided.records.extend(_alter_one(image, resource, rules))
            results.append(AlterationResult(resource))
        except Refused as refused:
            results.append(AlterationResult(resource, refused.error, refused.message))
        if spent():
            break
    return results


def _alter_one(image: ClusterImage, resource: AlteredResource, rules: Rules) -> list[ConfigRecord]:
    if resource.resource_type == TOPIC_RESOURCE:
        before = _topic_configs(image, resource.name)
    elif resource.resource_type == BROKER_RESOURCE:
        before = _broker_configs(image, resource.name, rules)
    elif resource.resource_type == CLIENT_METRICS_RESOURCE:
        before = _subscription_configs(image, resource.name)
    elif resource.resource_type == GROUP_RESOURCE:
        before = image.group_configs.get(resource.name, {})  # A group need not exist to have settings.
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    names = Counter(one.name for one in resource.alterations)
    if any(count > 1 for count in names.values()):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    after = altered(before, resource, rules.layers)
    try:
        _check(resource, before, after, rules)
    except InvalidConfig as problem:
        of_a_broker = resource.resource_type == BROKER_RESOURCE
        raise Refused(ErrorCode.INVALID_REQUEST if of_a_broker else ErrorCode.INVALID_CONFIG, str(problem)) from None
    if resource.resource_type == TOPIC_RESOURCE and resource.name not in image.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    return [
        ConfigRecord(
            resource_type=resource.resource_type, resource_name=resource.name, name=name, value=after.get(name)
        )
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


def _check(resource: AlteredResource, before: Mapping[str, str], after: Mapping[str, str], rules: Rules) -> None:
    """Whether a resource may have these settings. Raises `Refused` and `InvalidConfig`."""
    names = dict.fromkeys(one.name for one in resource.alterations)
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_values({name: after[name] for name in after if name in names or name in TOPIC_KEYS}, rules.layers)
    elif resource.resource_type == CLIENT_METRICS_RESOURCE:
        client_metrics.check(after, rules.understands)
    elif resource.resource_type == GROUP_RESOURCE:
        if not resource.name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        check_group_values(after, rules.layers)
    else:
        _check_broker_values({name: after.get(name) for name in (*names, *before)}, before, resource.name)
        check_assignment_intervals(after, rules.layers)
        _check_asker_is_let_in(after.get(PER_ADDRESS) or "", rules.asked_from)


def _subscription_configs(image: ClusterImage, name: str) -> Mapping[str, str]:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    return image.client_metrics.get(name, {})


def _topic_configs(image: ClusterImage, name: str) -> Mapping[str, str]:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    topic = image.topics.get(name)
    return {} if topic is None else topic.configs


def _broker_configs(image: ClusterImage, name: str, rules: Rules) -> Mapping[str, str]:
    # Of several nodes the one that a client has asked has sent it on to the controller.
    if rules.is_alone or name not in map(str, image.brokers):
        check_broker_name(name, rules.node_id)
    return image.broker_configs.get(name, {})


def broker_number(name: str) -> int | None:
    """The number that the name of a broker is; None where it is none, or one that no INT could be."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    # Python would also take "1_000" and digits of other scripts, and does not read thousands of them.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_NUMBER):
        return None
    number = int(name)
    return number if -(1 << 31) <= number < 1 << 31 else None


def check_broker_name(name: str, node_id: int) -> None:
    """The id of this broker, or nothing for all brokers. Raises `Refused`."""
    if not name:
        return
    if broker_number(name) is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name != str(node_id):
        message = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, message)


_KEYS_OF: dict[int, Callable[[str], ConfigKey | None]] = {
    TOPIC_RESOURCE: TOPIC_KEYS.get,
    GROUP_RESOURCE: GROUP_KEYS.get,
    CLIENT_METRICS_RESOURCE: lambda name: None,
}
"""Lists that can be appended to. Those of a subscription cannot, in Kafka."""


def altered(before: Mapping[str, str], resource: AlteredResource, layers: Layers) -> dict[str, str]:
    """What is set of a resource after a change of what was set before. Raises `Refused`."""
    after = {} if resource.replace else dict(before)
    key_of = _KEYS_OF.get(resource.resource_type, broker_key)
    for one in resource.alterations:
        if one.operation == Operation.DELETE:
            after.pop(one.name, None)
            continue
        if one.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {one.name}")
        if one.operation == Operation.SET:
            after[one.name] = one.value
        elif one.operation in (Operation.APPEND, Operation.SUBTRACT):
            after[one.name] = _list_altered(one, one.value, key_of(one.name), after, layers)
        else:
            message = f"Unknown operation type {one.operation} is specified for config key {one.name}."
            raise Refused(ErrorCode.INVALID_REQUEST, message)
    return after


def _check_asker_is_let_in(limits: str, asked_from: str) -> None:
    """Who asks has to be able to come back and ask for something else."""
    address = canonical_address(asked_from)
    if address is not None and connections_by_address(limits).get(address) == 0:
        message = f"{PER_ADDRESS} would shut out {asked_from}, which this is asked from."
        raise Refused(ErrorCode.INVALID_REQUEST, message)


def _list_altered(one: Alteration, value: str, key: ConfigKey | None, after: Mapping[str, str], layers: Layers) -> str:
    """An empty element counts, but at the end, as where Java splits a text; most lists may not have one."""
    if key is None or key.type is not ConfigType.LIST:
        message = f"Can't {Operation(one.operation).name} to key {one.name} because its type is not LIST."
        raise Refused(ErrorCode.INVALID_CONFIG, message)
    current = after.get(one.name)
    if current is None:
        resolved = layers.topic(key, {}) if key is TOPIC_KEYS.get(one.name) else layers.broker(key)
        current = resolved.value or ""
    parts = [part.strip() for part in value.rstrip(",").split(",")] if value.strip(",") or not value else []
    words = [part.strip() for part in current.split(",") if part.strip()]
    if one.operation == Operation.APPEND:
        appended = render(tuple(dict.fromkeys((*words, *parts))))
        if len(appended.encode()) > MAX_STRING_BYTES:
            message = f"The configuration value of {one.name} would be longer than {MAX_STRING_BYTES} bytes."
            raise Refused(ErrorCode.INVALID_CONFIG, message)
        return appended
    return render(tuple(word for word in words if word not in parts))


def _check_broker_values(named: Mapping[str, str | None], before: Mapping[str, str], resource: str) -> None:
    """Broker settings: only what can change while the broker runs, and only readable values. Raises `Refused` and
    `InvalidConfig`."""
    touched = [name for name, value in named.items() if value != before.get(name) or value is not None]
    scopes = {name: key.scope for name in touched if (key := broker_key(name)) is not None}
    fixed = [name for name, scope in scopes.items() if scope is Scope.READ_ONLY]
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    if of_a_listener := [name for name in scopes if name in ONLY_OF_A_LISTENER]:
        message = (
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(of_a_listener)}]"
        )
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    own = [name for name, scope in scopes.items() if scope is Scope.PER_BROKER]
    if own and not resource:
        message = (
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(own)}]"
        )
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    for name, value in named.items():
        if value is None:
            continue
        key = broker_key(name)
        if key is None and is_ignored(name) and not name.startswith(LISTENER_PREFIX):
            continue
        if key is None:
            # Kafka stores it silently, for plug-ins. Here nothing could ever read it: a typing error, most likely.
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}")
        key.parse(value)
