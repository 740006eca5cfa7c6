"""Partitions as they are written on a command line: `orders`, or `orders:0,2`."""

from collections.abc import Iterable, Mapping

import click

from tallystick.client.client import Client
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Place, places

group_option = click.option("--group", "group_id", required=True, help="Whose offsets.")
topic_option = click.option(
    "--topic", "topics", multiple=True, help="T, or T:0,1 for some of its partitions; may be repeated."
)
Named = Mapping[str, frozenset[int] | None]
"""Topic -> partitions; None: all of them."""


class BadPlace(Exception):
    """Nothing is committed there."""


def read_places(written: Iterable[str]) -> Named:
    """Raises `click.BadParameter`."""
    found: dict[str, frozenset[int] | None] = {}
    for one in written:
        topic, colon, numbers = one.partition(":")
        parts = [part.strip() for part in numbers.split(",")] if colon else []
        if not topic or topic in found or not all(part.isascii() and part.isdecimal() for part in parts):
            raise click.BadParameter(f"{one!r} is not TOPIC or TOPIC:0,1, each topic once", param_hint="--topic")
        found[topic] = frozenset(map(int, parts)) if colon else None
    return found


async def existing(client: Client, named: Named) -> list[Place]:
    """Raises `KafkaError` where there is no such topic or partition."""
    found: list[Place] = []
    for topic, numbers in named.items():
        for number in [None] if numbers is None else sorted(numbers):
            found += await places(client, [topic], number)
    return sorted(found)


async def committed_or_named(client: Client, group: str, named: Named) -> list[Place]:
    """Partitions that are named, and of topics without partitions those with a committed offset: the topic may be
    gone. Raises `BadPlace` where there is none."""
    offsets = await committed(client, group)
    found = []
    for topic, numbers in named.items():
        its = sorted(number for of, number in offsets if of == topic) if numbers is None else sorted(numbers)
        if not its:
            raise BadPlace(f"{group} has committed no offset of {topic}")
        found += [(topic, number) for number in its]
    return found
