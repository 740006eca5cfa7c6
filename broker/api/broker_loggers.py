"""Loggers of the broker as resources with settings (KIP-412): the level of each part of the log.

Sentences and their order as a running Kafka 4.3 gives them.
"""

from collections.abc import Collection

from broker.process.log_levels import LEVELS, ROOT, level_of, logger_names, set_level
from coordinator.cluster.configs import Alteration, AlterationResult, AlteredResource, Operation, broker_number
from coordinator.cluster.keys.config_keys import Resolved
from coordinator.cluster.keys.config_types import ConfigKey, ConfigSource, ConfigType
from coordinator.cluster.topic_rules import Refused
from protocol.errors import ErrorCode

SUPPORTED = ", ".join(sorted(LEVELS))


def logger_levels(name: str, node_id: int) -> list[Resolved]:
    """The loggers of the broker of this name, with their levels. Raises `Refused`."""
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    number = broker_number(name)
    if number is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != node_id:
        message = f"Unexpected broker id, expected {node_id} but received {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    return [
        Resolved(ConfigKey(logger, ConfigType.UNKNOWN, None, ""), level_of(logger), ConfigSource.BROKER_LOGGER, ())
        for logger in logger_names()
    ]


def alter_loggers(resource: AlteredResource, node_id: int, *, validate_only: bool) -> AlterationResult:
    """Change levels, all that are named or none. They hold until the process ends."""
    try:
        _check(resource, node_id)
    except Refused as refused:
        return AlterationResult(resource, refused.error, refused.message)
    if not validate_only:
        for one in resource.alterations:
            set_level(one.name, None if one.operation == Operation.DELETE else one.value)
    return AlterationResult(resource)


def _check(resource: AlteredResource, node_id: int) -> None:
    names = [one.name for one in resource.alterations]
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for one in resource.alterations:
        if one.value is None and one.operation != Operation.DELETE:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {one.name}")
    number = broker_number(resource.name)
    if number is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource.name}")
    if number != node_id:
        message = f"Unexpected node id. Expected {node_id}, but received {resource.name}"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    known = frozenset(logger_names())
    for one in resource.alterations:
        _check_one(one, known)


def _check_one(one: Alteration, known: Collection[str]) -> None:
    if one.operation in (Operation.APPEND, Operation.SUBTRACT):
        message = f"{Operation(one.operation).name} operation is not allowed for the BROKER_LOGGER resource"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    if one.operation not in (Operation.SET, Operation.DELETE):
        message = f"Unknown operation type {one.operation} is specified for config key {one.name}."
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    if one.name not in known:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {one.name} does not exist!")
    if one.operation == Operation.DELETE:
        if one.name == ROOT:
            raise Refused(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    elif one.value not in LEVELS:
        message = (
            f"Cannot set the log level of {one.name} to {one.value} as it is not a supported log level. "
            f"Valid log levels are {SUPPORTED}"
        )
        raise Refused(ErrorCode.INVALID_CONFIG, message)
