"""`tallystick configs`: configs of topics, brokers and groups, in the words of `kafka-configs`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from tallystick.administration import configs as of_cluster
from tallystick.administration.configs import BROKER, CLUSTER_WIDE, GROUP, TOPIC, Config, Resource
from tallystick.administration.topics import names
from tallystick.cli.connecting import asked, connecting
from tallystick.cli.tables import show
from tallystick.cli.written_configs import added, deleted
from tallystick.client.client import Client

Command = Callable[..., None]
_TYPES = {"topics": TOPIC, "brokers": BROKER, "groups": GROUP}
_SINGULAR = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}


def of_entity(command: Command) -> Command:
    """The options that say whose configs, and `--json`."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON on stdout."),
        click.option("--entity-default", is_flag=True, help="What holds for all brokers of the cluster."),
        click.option("--entity-name", "name", help="The topic, the id of the broker, or the group."),
        click.option("--entity-type", "of_type", required=True, type=click.Choice(list(_TYPES)), help="Of what."),
    ):
        command = option(command)
    return command


@click.group()
def configs() -> None:
    """Look after configs of topics, brokers and groups, on any Kafka 3.0 or newer."""


@configs.command()
@of_entity
@click.option("--all", "all_of_them", is_flag=True, help="Those that are not set on it, too.")
@connecting
def describe(
    *,
    of_type: str,
    name: str | None,
    entity_default: bool,
    all_of_them: bool,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
) -> None:
    """What is set on one topic, broker or group, or on each of them; with --all, every value that holds."""
    one = _named(of_type, name, entity_default)

    async def look(client: Client) -> Mapping[Resource, Sequence[Config]]:
        return await of_cluster.configs_of(client, [one] if one else await _every(client, _TYPES[of_type]))

    found = {
        resource: [one for one in its if all_of_them or one.source == of_cluster.dynamic_source(resource)]
        for resource, its in asked(bootstrap, command_config, look).items()
    }
    if as_json:
        click.echo(json.dumps([_as_json(*item) for item in found.items()], indent=2))
        return
    for resource, its in found.items():
        click.echo(f"{'All' if all_of_them else 'Dynamic'} configs for {_words(resource)} are:")
        if its:
            show(("Name", "Value", "Source"), [(one.name, one.value, one.source) for one in its])


@configs.command()
@of_entity
@click.option("--add-config", default="", help="name=value,name=[value,value]: brackets around a value with commas.")
@click.option("--delete-config", default="", help="name,name: what is not set any more.")
@connecting
def alter(
    *,
    of_type: str,
    name: str | None,
    entity_default: bool,
    add_config: str,
    delete_config: str,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Set configs of one topic, broker or group, and take others back: all of it or nothing."""
    resource = _named(of_type, name, entity_default)
    if resource is None:
        raise click.UsageError("it needs --entity-name, or --entity-default")
    wanted, gone = added(add_config) if add_config else {}, deleted(delete_config)
    if not wanted and not gone:
        raise click.UsageError("it needs --add-config or --delete-config")
    asked(bootstrap, command_config, lambda client: of_cluster.alter(client, resource, add=wanted, delete=gone))
    if as_json:
        said = {"entityType": of_type, "entityName": resource[1] or None, "added": wanted, "deleted": gone}
        click.echo(json.dumps(said, indent=2))
    else:
        click.echo(f"Completed updating config for {_words(resource)}.")


def _named(of_type: str, name: str | None, is_default: bool) -> Resource | None:
    kind = _TYPES[of_type]
    if is_default and (name is not None or kind != BROKER):
        raise click.UsageError("--entity-default is for brokers, without --entity-name")
    if is_default:
        return kind, CLUSTER_WIDE
    if name == "":
        raise click.UsageError("--entity-name is empty")
    return None if name is None else (kind, name)


async def _every(client: Client, kind: int) -> list[Resource]:
    if kind == TOPIC:
        found = await names(client)
    elif kind == BROKER:
        found = [*await of_cluster.broker_names(client), CLUSTER_WIDE]
    else:
        found = await of_cluster.groups_with_configs(client)
    return [(kind, name) for name in found]


def _words(resource: Resource) -> str:
    kind, name = resource
    return f"default {_SINGULAR[kind]}s in the cluster" if name == CLUSTER_WIDE else f"{_SINGULAR[kind]} {name}"


def _as_json(resource: Resource, its: Sequence[Config]) -> dict[str, Any]:
    kind, name = resource
    return {
        "entityType": f"{_SINGULAR[kind]}s",
        "entityName": name or None,
        "configs": [
            {
                "name": one.name,
                "value": one.value,
                "source": one.source,
                "readOnly": one.is_read_only,
                "sensitive": one.is_sensitive,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": synonym.source} for synonym in one.synonyms
                ],
            }
            for one in its
        ],
    }
