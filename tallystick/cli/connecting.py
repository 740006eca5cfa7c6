"""What commands that ask a broker have in common: where it is, and how it is spoken to.

`--command-config` takes the file that Kafka's own tools take: `security.protocol`, `sasl.mechanism`,
`sasl.jaas.config`, `ssl.truststore.location`, `ssl.keystore.location` and what goes with them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import click

from protocol.properties import BadProperties, read_properties
from tallystick.cli.tables import say
from tallystick.client.client import Client, addresses_in
from tallystick.client.errors import ConnectionLost, KafkaError, NoWayIn, UnsupportedByBroker
from tallystick.client.security_settings import BadSettings, security_of

T = TypeVar("T")
Command = Callable[..., None]


def connecting(command: Command) -> Command:
    """The options of a command that asks a broker: `bootstrap` and `command_config`, for `asked`."""
    for option in (
        click.option("--command-config", type=click.File(encoding="utf-8"), help="Settings of a client, as for Kafka."),
        click.option("--bootstrap-server", "bootstrap", required=True, callback=addresses, help="host:port,host:port"),
    ):
        command = option(command)
    return command


def addresses(context: click.Context, option: click.Parameter, given: str) -> str:
    """Raises `click.BadParameter` for what is no list of host:port."""
    try:
        addresses_in(given)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    return given


def asked(bootstrap: str, command_config: Any, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run some work beside a client; ends the process with a sentence where it fails."""

    async def connected() -> T:
        async with client_of(bootstrap, command_config) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except (BadProperties, BadSettings) as problem:
        say_and_end(f"the settings cannot be used: {problem}")
    except (OSError, ConnectionLost) as problem:
        say_and_end(f"{bootstrap} cannot be reached: {problem}")
    except (KafkaError, NoWayIn, UnsupportedByBroker) as problem:
        say_and_end(str(problem))
    except UnicodeEncodeError as problem:  # an argument is what names and ids are made of
        say_and_end(f"{problem.object!r} is no UTF-8, and cannot be sent")


@asynccontextmanager
async def client_of(bootstrap: str, command_config: Any) -> AsyncIterator[Client]:
    """A client, and its end. Raises what `asked` explains."""
    settings = read_properties("" if command_config is None else command_config.read())
    client = await Client.connect(bootstrap, client_id="tallystick-cli", security=security_of(settings))
    try:
        yield client
    finally:
        await client.close()


def connecting_words(bootstrap: str, command_config: Any) -> list[str]:
    """The same options, for a command that somebody is told to run."""
    settings = [] if command_config is None else ["--command-config", command_config.name]
    return ["--bootstrap-server", bootstrap, *settings]


def say_and_end(sentence: str) -> NoReturn:
    """On stderr; the status is 1."""
    say(f"tallystick: {sentence}", err=True)
    sys.exit(1)
