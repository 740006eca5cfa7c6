"""What commands that ask a broker have in common: where it is, and how it is spoken to.

`--command-config` takes the file that Kafka's own tools take: `security.protocol`, `sasl.mechanism`,
`sasl.jaas.config`, and of stores PEM (`ssl.truststore.location`, `ssl.keystore.location`).
"""

import asyncio
import ssl
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

import click

from protocol.properties import BadProperties, read_properties
from protocol.sasl.jaas import BadJaas, read_jaas
from tallystick.client.client import Client
from tallystick.client.connection import Security
from tallystick.client.errors import ConnectionLost, KafkaError, NotAuthenticated, UnsupportedByBroker
from tallystick.client.sasl import Credentials

T = TypeVar("T")
Command = Callable[..., None]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BadSettings(Exception):
    """A file of settings that cannot be used."""


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
    for one in given.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isdigit():
            raise click.BadParameter(f"{one!r} is not host:port")
    return given


def asked(bootstrap: str, command_config: Any, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run some work beside a client; ends the process with a sentence where it fails."""

    async def connected() -> T:
        settings = read_properties("" if command_config is None else command_config.read())
        client = await Client.connect(bootstrap, client_id="tallystick-cli", security=security_of(settings))
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(connected())
    except (BadProperties, BadSettings) as problem:
        say_and_end(f"the settings cannot be used: {problem}")
    except (OSError, ConnectionLost) as problem:
        say_and_end(f"{bootstrap} cannot be reached: {problem}")
    except (KafkaError, NotAuthenticated, UnsupportedByBroker) as problem:
        say_and_end(str(problem))


def say_and_end(sentence: str) -> NoReturn:
    """On stderr; the status is 1."""
    click.echo(f"tallystick: {sentence}", err=True)
    sys.exit(1)


def security_of(settings: Mapping[str, str]) -> Security:
    """What a client's settings come to. Raises `BadSettings`."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadSettings(f"security.protocol is one of {', '.join(PROTOCOLS)}")
    return Security(
        _tls(settings) if protocol.endswith("SSL") else None,
        _credentials(settings) if protocol.startswith("SASL") else None,
    )


def _credentials(settings: Mapping[str, str]) -> Credentials:
    try:
        options = read_jaas(settings.get("sasl.jaas.config", "")).options
    except BadJaas as problem:
        raise BadSettings(f"sasl.jaas.config: {problem}") from None
    if not options.get("username") or not options.get("password"):
        raise BadSettings("sasl.jaas.config needs username and password")
    return Credentials(settings.get("sasl.mechanism", "PLAIN"), options["username"], options["password"])


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        location, kind = settings.get(f"ssl.{store}.location"), settings.get(f"ssl.{store}.type", "JKS").upper()
        if location and kind != "PEM":
            raise BadSettings(f"ssl.{store}.type: this command reads PEM alone, not {kind}")
    try:
        context = ssl.create_default_context(cafile=settings.get("ssl.truststore.location"))
        if own := settings.get("ssl.keystore.location"):
            context.load_cert_chain(own, password=settings.get("ssl.key.password", ""))
    except (OSError, ssl.SSLError) as problem:
        raise BadSettings(f"a store cannot be read: {problem}") from None
    # Kafka's default is https; empty means that names are not compared.
    context.check_hostname = bool(settings.get("ssl.endpoint.identification.algorithm", "https"))
    return context
