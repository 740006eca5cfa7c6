"""`tallystick console`: a page about a cluster, served by this process.

Status 0 when it was ended, 1 where it cannot listen, 2 where it is not to be started like this.
"""

import sys
from pathlib import Path
from typing import Any

import click

from protocol.properties import BadProperties, read_properties
from tallystick.cli.connecting import connecting, say_and_end
from tallystick.client.security_settings import PROTOCOLS, BadSettings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, help="Port to listen on; 0 picks a free one.")
@click.option(
    "--security-protocol",
    type=click.Choice(PROTOCOLS),
    help="Over that of the settings; with SASL, and no sasl.jaas.config among them, visitors log in.",
)
@click.option("--http", "http_url", help="The HTTP side of a Tallystick broker: timelines of transactions, faults.")
@click.option("--http-token-file", help="The token that it wants to see.")
@click.option(
    "--schema-registry",
    "registry_url",
    help="A schema registry, for values in Avro and Protobuf (with tallystick[schemas]) and JSON Schema.",
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, help="A name under which it is reached; may be repeated."
)
@click.option("--ssl-certificate", "certificate", help="A certificate (PEM), for HTTPS.")
@click.option("--ssl-key", "key", help="Its key (PEM).")
@click.option("--ready-file", type=click.Path(path_type=Path), help="Written when it serves; holds the address.")
@click.option("--end-with-stdin", "ends_with_stdin", is_flag=True, hidden=True, help="End when standard input does.")
@connecting
def console(
    *, bootstrap: str, command_config: Any, security_protocol: str | None, allowed_hosts: tuple[str, ...], **rest: Any
) -> None:
    """Serve a page about a cluster: topics and their records, groups, transactions, settings. Of any Kafka 3.0 or
    newer."""
    try:
        from tallystick.console.options import BadOptions, Options
        from tallystick.console.server import serve
    except ModuleNotFoundError as missing:
        say_and_end(f"the console needs {missing.name}: pip install 'tallystick[console]'")
    try:
        settings = dict(read_properties("" if command_config is None else command_config.read()))
        if security_protocol is not None:
            settings["security.protocol"] = security_protocol
        serve(Options(bootstrap, settings=settings, allowed_hosts=frozenset(allowed_hosts), **rest))
    except (BadProperties, BadSettings, BadOptions, ValueError) as problem:
        click.echo(f"tallystick: {problem}", err=True)
        sys.exit(2)
    except OSError as problem:
        say_and_end(f"the console cannot listen on {rest['host']}:{rest['port']}: {problem.strerror or problem}")
