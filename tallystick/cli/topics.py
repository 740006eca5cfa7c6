"""`tallystick topics`: the topics of a cluster, in the words of `kafka-topics`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from collections.abc import Coroutine, Sequence
from typing import Any

import click

from protocol.errors import ErrorCode
from tallystick.administration import topics as of_cluster
from tallystick.administration.topics import BY_BROKER, Topic
from tallystick.cli.connecting import asked, connecting
from tallystick.cli.tables import show
from tallystick.cli.written_configs import pairs
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError
from tallystick.written import counted

as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
topic_option = click.option("--topic", required=True, help="Its name.")
exclude_internal_option = click.option(
    "--exclude-internal", is_flag=True, help="Without topics of the brokers themselves, such as __consumer_offsets."
)


@click.group()
def topics() -> None:
    """Look after topics, on any Kafka 3.0 or newer."""


@topics.command("list")
@exclude_internal_option
@as_json_option
@connecting
def list_(*, exclude_internal: bool, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """The names of all topics."""
    found = asked(bootstrap, command_config, lambda client: of_cluster.names(client, internal=not exclude_internal))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    for name in [] if as_json else found:
        click.echo(name)


@topics.command()
@click.argument("topic", required=False)
@exclude_internal_option
@as_json_option
@connecting
def describe(*, topic: str | None, exclude_internal: bool, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Id, partitions, leaders, replicas and the configs that are not Kafka's defaults, of one topic or of all."""
    wanted = None if topic is None else [topic]

    async def look(client: Client) -> list[Topic]:
        return await of_cluster.described(client, wanted, internal=not exclude_internal)

    found = asked(bootstrap, command_config, look)
    if as_json:
        click.echo(json.dumps([_as_json(one) for one in found], indent=2))
        return
    for one in found:
        shown = None if one.configs is None else ",".join(f"{name}={value}" for name, value in one.configs.items())
        configs = "may not be seen (DESCRIBE_CONFIGS)" if shown is None else shown or "-"
        click.echo(
            f"Topic: {one.name}  TopicId: {one.written_id}  PartitionCount: {len(one.partitions)}  "
            f"ReplicationFactor: {one.replication_factor}  Configs: {configs}"
        )
        rows = [(p.number, p.leader, _listed(p.replicas), _listed(p.in_sync)) for p in one.partitions]
        show(("Partition", "Leader", "Replicas", "Isr"), rows)


@topics.command()
@topic_option
@click.option("--partitions", default=BY_BROKER, help="How many; num.partitions of the broker where it is not given.")
@click.option(
    "--replication-factor",
    default=BY_BROKER,
    help="Replicas of each partition; default.replication.factor of the broker where it is not given.",
)
@click.option("--config", "configs", multiple=True, help="name=value; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing where there is a topic of this name.")
@as_json_option
@connecting
def create(
    *,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Make a topic, and wait until its partitions have leaders."""
    wanted = pairs(configs)

    async def work(client: Client) -> None:
        await of_cluster.create(
            client, topic, partitions=partitions, replication_factor=replication_factor, configs=wanted
        )

    forgiven = ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None
    is_done = asked(bootstrap, command_config, lambda client: _done(work(client), forgiven))
    _say(as_json, topic, "created", is_done, f"Created topic {topic}.", f"Topic '{topic}' already exists.")


@topics.command()
@topic_option
@click.option("--if-exists", is_flag=True, help="Do nothing where there is no topic of this name.")
@as_json_option
@connecting
def delete(*, topic: str, if_exists: bool, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Delete a topic, with all its records."""
    forgiven = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None
    is_done = asked(bootstrap, command_config, lambda client: _done(of_cluster.delete(client, topic), forgiven))
    _say(as_json, topic, "deleted", is_done, f"Deleted topic {topic}.", f"Topic '{topic}' does not exist.")


@topics.command()
@topic_option
@click.option("--partitions", required=True, type=int, help="How many it is to have in all.")
@as_json_option
@connecting
def alter(*, topic: str, partitions: int, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Give a topic more partitions. Records stay where they are; a key may go to another partition from then on."""
    asked(bootstrap, command_config, lambda client: of_cluster.grow(client, topic, partitions))
    _say(as_json, topic, "altered", True, f"Topic {topic} has {counted(partitions, 'partition')}.", "")


async def _done(work: Coroutine[Any, Any, None], forgiven: ErrorCode | None) -> bool:
    """False where it failed with the error that is forgiven."""
    try:
        await work
    except KafkaError as error:
        if error.code != forgiven:
            raise
        return False
    return True


def _say(as_json: bool, topic: str, what: str, is_done: bool, sentence: str, otherwise: str) -> None:
    click.echo(json.dumps({"topic": topic, what: is_done}) if as_json else sentence if is_done else otherwise)


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _as_json(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": topic.written_id,
        "isInternal": topic.is_internal,
        "partitionCount": len(topic.partitions),
        "replicationFactor": topic.replication_factor,
        "configs": None if topic.configs is None else dict(topic.configs),
        "partitions": [
            {
                "partition": one.number,
                "leader": one.leader,
                "replicas": list(one.replicas),
                "isr": list(one.in_sync),
            }
            for one in topic.partitions
        ],
    }
