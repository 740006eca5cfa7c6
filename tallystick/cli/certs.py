"""`tallystick certs`: certificates for a first try.

Status 0 when they are made, 1 with a sentence on stderr when they are not, 2 for wrong options.
"""

from pathlib import Path

import click

HOSTS = ("localhost", "127.0.0.1", "::1")
BROKER = """
The broker:
  tallystick serve --listeners SSL://127.0.0.1:9093 \\
    --set ssl.keystore.type=PEM --set ssl.keystore.location={folder}/server.pem \\
    --set ssl.truststore.type=PEM --set ssl.truststore.location={folder}/ca.pem --set ssl.client.auth=required
A client (confluent-kafka):
  {{"bootstrap.servers": "127.0.0.1:9093", "security.protocol": "SSL", "ssl.ca.location": "{folder}/ca.pem",
   "ssl.certificate.location": "{folder}/{client}.pem", "ssl.key.location": "{folder}/{client}.pem"}}
"""


@click.group()
def certs() -> None:
    """Certificates for a first try; on a network that matters they come from elsewhere."""


@certs.command()
@click.option("--dir", "folder", default="certs", show_default=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", "hosts", multiple=True, default=HOSTS, show_default=True, help="What clients reach it as.")
@click.option("--client", "clients", multiple=True, default=("client",), show_default=True, help="Who gets one.")
@click.option("--days", default=30, show_default=True, type=click.IntRange(min=1), help="How long they hold.")
def dev(folder: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int) -> None:
    """Make an authority, a server's certificate and one for each client.

    An authority that is in the folder already vouches for the new ones too.
    """
    try:
        from tallystick.certificates import make_for_development
    except ModuleNotFoundError as missing:
        raise click.ClickException(f"this needs {missing.name}: pip install 'tallystick[security]'") from None
    for name in clients:
        if name in ("ca", "server") or not name.replace("-", "").replace("_", "").isalnum():
            raise click.ClickException(f"{name!r} is no name for the file of a client")
    for path in make_for_development(folder, hosts=hosts, clients=clients, days=days):
        click.echo(f"made {path}")
    click.echo(BROKER.format(folder=folder, client=clients[0]).rstrip())
