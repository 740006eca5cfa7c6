"""`tallystick acls`: who may do what, in the words of `kafka-acls`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import click

from protocol.acls import ANYBODY, CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from protocol.messages.acls import (
    DeleteAclsFilter,
)
from tallystick.cli.connecting import asked, connecting
from tallystick.cli.tables import printable, say
from tallystick.client.acls import create, delete, described, filter_of
from tallystick.written import counted

PATTERNS = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
FILTERS = PATTERNS | {"match": PatternType.MATCH, "any": PatternType.ANY}
OPERATIONS = {one.name.replace("_", "").lower(): one for one in Operation if one >= Operation.ALL}
PRODUCES = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
CONSUMES = {ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE), ResourceType.GROUP: (Operation.READ,)}
"""What `--producer` and `--consumer` stand for, as in kafka-acls."""

Command = Callable[..., None]
Resource = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options name."""

    resources: tuple[Resource, ...]
    pattern: PatternType
    allowed: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    denied: tuple[str, ...]
    denied_hosts: tuple[str, ...]
    operations: tuple[Operation, ...]
    produces: bool
    consumes: bool
    is_idempotent: bool

    def acls(self) -> list[Acl]:
        """Raises `click.UsageError` where something is missing."""
        if not self.resources:
            raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
        if not self.allowed and not self.denied:
            raise click.UsageError("name somebody: --allow-principal or --deny-principal")
        if self.denied and (self.produces or self.consumes):
            raise click.UsageError("--producer and --consumer allow something, and go with --allow-principal")
        found = [
            Acl(kind, name, self.pattern, principal, host, operation, permission)
            for kind, name in self.resources
            for operation in self._operations_of(kind)
            for permission, principals, hosts in (
                (Permission.ALLOW, self.allowed, self.allowed_hosts),
                (Permission.DENY, self.denied, self.denied_hosts),
            )
            for principal, host in product(principals, hosts or (WILDCARD,))
        ]
        if self.is_idempotent:
            found += [
                Acl(
                    ResourceType.CLUSTER,
                    CLUSTER_NAME,
                    PatternType.LITERAL,
                    principal,
                    host,
                    Operation.IDEMPOTENT_WRITE,
                    Permission.ALLOW,
                )
                for principal, host in product(self.allowed, self.allowed_hosts or (WILDCARD,))
            ]
        return list(dict.fromkeys(found))

    def _operations_of(self, kind: ResourceType) -> tuple[Operation, ...]:
        chosen: tuple[Operation, ...] = ()
        if self.produces:
            chosen += PRODUCES.get(kind, ())
        if self.consumes:
            chosen += CONSUMES.get(kind, ())
        if self.produces or self.consumes:
            return chosen
        return self.operations or (Operation.ALL,)


def _read_operations(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[Operation, ...]:
    found = [OPERATIONS.get(name.replace("_", "").lower()) for name in given]
    if None in found:
        raise click.BadParameter(f"one of {', '.join(OPERATIONS)}")
    return tuple(one for one in found if one is not None)


def _read_principals(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        if not all(name.partition(":")):
            raise click.BadParameter(f"{name!r} is not Type:name, as User:alice or {ANYBODY}")
    return given


def _many(*names: str, says: str, callback: Any = None) -> Callable[[Command], Command]:
    return click.option(*names, multiple=True, help=says, callback=callback)


@click.command()
@click.option("--add", "action", flag_value="add", help="Make ACLs.")
@click.option("--remove", "action", flag_value="remove", help="Take ACLs away.")
@click.option("--list", "action", flag_value="list", help="Show ACLs: all, or those of resources and principals.")
@_many("--topic", "topics", says="A topic, or * for all.")
@_many("--group", "groups", says="A group, or * for all.")
@_many("--transactional-id", "ids", says="A transactional id, or * for all.")
@click.option("--cluster", is_flag=True, help="The cluster.")
@click.option(
    "--resource-pattern-type", "pattern", type=click.Choice(list(FILTERS)), default="literal", show_default=True
)
@_many("--allow-principal", "allowed", says="Who is let in.", callback=_read_principals)
@_many("--allow-host", "allowed_hosts", says="From where; everywhere if none is named.")
@_many("--deny-principal", "denied", says="Who is kept out.", callback=_read_principals)
@_many("--deny-host", "denied_hosts", says="From where; everywhere if none is named.")
@_many("--principal", "principals", says="Whose ACLs --list shows.", callback=_read_principals)
@_many("--operation", "operations", says="Read, Write, ...; All if none is named.", callback=_read_operations)
@click.option("--producer", "produces", is_flag=True, help="What a producer needs of the topics and transactional ids.")
@click.option("--consumer", "consumes", is_flag=True, help="What a consumer needs of the topics and groups.")
@click.option("--idempotent", "is_idempotent", is_flag=True, help="Also IdempotentWrite of the cluster.")
@click.option("--force", is_flag=True, help="Do not ask back before ACLs are taken away.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout; --remove then needs --force.")
@connecting
def acls(*, action: str | None, bootstrap: str, command_config: Any, force: bool, as_json: bool, **named: Any) -> None:
    """Look after ACLs, on any Kafka 2.0 or newer that has an authorizer."""
    if action is None:
        raise click.UsageError("it is one of --add, --remove and --list")
    principals, pattern = named.pop("principals"), FILTERS[named.pop("pattern")]
    wanted = Wanted(resources=_resources(named), pattern=pattern, **named)
    if action == "list":
        filters = _filters(wanted, principals)
        found = asked(bootstrap, command_config, lambda client: described(client, filters))
        _say("Current ACLs for", found, as_json=as_json)
        return
    if action == "add":
        if pattern not in PATTERNS.values():
            raise click.UsageError("an ACL is of a literal or a prefixed pattern")
        made = wanted.acls()
        asked(bootstrap, command_config, lambda client: create(client, made))
        _say("Adding ACLs for", made, as_json=as_json)
        return
    filters = [filter_of(acl) for acl in wanted.acls()] if wanted.allowed or wanted.denied else _filters(wanted, ())
    if as_json and not force:
        raise click.UsageError("nobody is asked back with --json: --remove needs --force")
    if not force:
        click.confirm(f"Are you sure you want to remove what {counted(len(filters), 'filter')} mean?", abort=True)
    removed = asked(bootstrap, command_config, lambda client: delete(client, filters))
    _say("Removed ACLs of", removed, as_json=as_json)


def _resources(named: dict[str, Any]) -> tuple[Resource, ...]:
    """Takes the options that name them away."""
    found: list[Resource] = [(ResourceType.CLUSTER, CLUSTER_NAME)] if named.pop("cluster") else []
    for option, kind in (
        ("topics", ResourceType.TOPIC),
        ("groups", ResourceType.GROUP),
        ("ids", ResourceType.TRANSACTIONAL_ID),
    ):
        found += [(kind, name) for name in named.pop(option)]
    return tuple(found)


def _filters(wanted: Wanted, principals: Sequence[str]) -> list[DeleteAclsFilter]:
    """All ACLs of the resources, and of the principals where some are named."""
    anything = [(ResourceType.ANY, None)]
    resources: Sequence[tuple[ResourceType, str | None]] = wanted.resources or anything
    return [
        DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=wanted.pattern if wanted.resources else PatternType.ANY,
            principal_filter=principal,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        for kind, name in resources
        for principal in principals or (None,)
    ]


def _say(what: str, acls: Iterable[Acl], *, as_json: bool) -> None:
    """As kafka-acls writes them, by resource pattern; or a JSON array."""
    if as_json:
        click.echo(json.dumps([_in_json(acl) for acl in sorted(acls)], indent=2))
        return
    by_pattern: dict[str, list[str]] = {}
    for acl in sorted(acls):
        kind, pattern = ResourceType(acl.resource_type).name, PatternType(acl.pattern_type).name
        named = f"ResourcePattern(resourceType={kind}, name={acl.resource_name}, patternType={pattern})"
        by_pattern.setdefault(named, []).append(
            f"\t(principal={acl.principal}, host={acl.host}, operation={Operation(acl.operation).name}, "
            f"permissionType={Permission(acl.permission).name})"
        )
    for named, lines in by_pattern.items():
        say(f"{what} resource `{named}`:")
        for line in lines:
            click.echo(f"\t{printable(line[1:])}")


def _in_json(acl: Acl) -> dict[str, str]:
    return {
        "resourceType": ResourceType(acl.resource_type).name,
        "resourceName": acl.resource_name,
        "patternType": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name,
        "permissionType": Permission(acl.permission).name,
    }
