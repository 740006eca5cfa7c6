"""`tallystick users`: users of SCRAM, in the words of `kafka-configs --entity-type users`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from collections.abc import Mapping
from typing import Any

import click

from protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
    ScramUserName,
)
from protocol.sasl.scram import MIN_ITERATIONS, SCRAM_BY_LABEL, ScramMechanism
from protocol.sasl.written_users import BadUser, read_users
from tallystick.cli.connecting import asked, connecting
from tallystick.cli.tables import say
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.sasl import salt_and_salted

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


@click.command()
@click.option("--describe", is_flag=True, help="Show users, with their mechanisms and iterations.")
@click.option("--alter", is_flag=True, help="Make, change or remove credentials of one user.")
@click.option("--entity-name", "name", help="The user.")
@click.option(
    "--add-config", help="SCRAM-SHA-512=[iterations=8192,password=SECRET]; without a password one is asked for."
)
@click.option("--delete-config", help="SCRAM-SHA-256,SCRAM-SHA-512")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@connecting
def users(
    *,
    describe: bool,
    alter: bool,
    name: str | None,
    add_config: str | None,
    delete_config: str | None,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Look after the users of SCRAM, on any Kafka 2.7 or newer."""
    if describe == alter:
        raise click.UsageError("it is either --describe or --alter")
    if describe:
        _show(asked(bootstrap, command_config, lambda client: described(client, name)), as_json=as_json)
        return
    if not name or not (add_config or delete_config):
        raise click.UsageError("--alter needs --entity-name, and --add-config or --delete-config")
    wanted: list[Alteration] = [*_deletions(name, delete_config or ""), *_upsertions(name, add_config or "")]
    asked(bootstrap, command_config, lambda client: altered(client, wanted))
    if as_json:
        click.echo(json.dumps({"user": name, "altered": [ScramMechanism(one.mechanism).label for one in wanted]}))
    else:
        say(f"Completed updating config for user {name}.")


def _show(found: Mapping[str, list[ScramCredentialInfo]], *, as_json: bool) -> None:
    if as_json:
        users = [
            {
                "user": user,
                "credentials": [{"mechanism": _label(info), "iterations": info.iterations} for info in infos],
            }
            for user, infos in found.items()
        ]
        click.echo(json.dumps(users, indent=2))
        return
    for user, infos in found.items():
        shown = ", ".join(f"{_label(info)}=iterations={info.iterations}" for info in infos)
        say(f"SCRAM credential configs for user-principal '{user}' are {shown}")


def _label(info: ScramCredentialInfo) -> str:
    """The mechanism as people know it."""
    return ScramMechanism(info.mechanism).label


async def described(client: Client, name: str | None) -> dict[str, list[ScramCredentialInfo]]:
    """Credentials by user."""
    wanted = None if name is None else [ScramUserName(name=name)]
    answer: DescribeUserScramCredentialsResponse = await client.ask(DescribeUserScramCredentialsRequest(users=wanted))
    check(answer.error_code, answer.error_message)
    found = {}
    for one in answer.results:
        check(one.error_code, one.error_message)
        found[one.user] = sorted(one.credential_infos, key=lambda info: info.mechanism)
    return found


async def altered(client: Client, wanted: list[Alteration]) -> None:
    """One after the other: a request names a user once. Raises `KafkaError` for the first that was refused."""
    for one in wanted:
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[])
        if isinstance(one, ScramCredentialDeletion):
            request.deletions.append(one)
        else:
            request.upsertions.append(one)
        answer: AlterUserScramCredentialsResponse = await client.ask(request)
        check(answer.results[0].error_code, answer.results[0].error_message)


def _deletions(name: str, written: str) -> list[ScramCredentialDeletion]:
    labels = [label.strip() for label in written.split(",") if label.strip()]
    if unknown := [label for label in labels if label not in SCRAM_BY_LABEL]:
        raise click.BadParameter(f"{unknown[0]} is none of {', '.join(SCRAM_BY_LABEL)}", param_hint="--delete-config")
    return [ScramCredentialDeletion(name=name, mechanism=SCRAM_BY_LABEL[label]) for label in labels]


def _upsertions(name: str, written: str) -> list[ScramCredentialUpsertion]:
    try:
        entries = read_users(written)
    except BadUser as problem:
        raise click.BadParameter(str(problem), param_hint="--add-config") from None
    made = []
    for mechanism, said in entries:
        iterations = said.get("iterations", str(MIN_ITERATIONS))
        if said.keys() - {"iterations", "password"} or not iterations.isdecimal():
            raise click.BadParameter(f"{mechanism.label} takes iterations and password", param_hint="--add-config")
        password = said.get("password") or click.prompt(f"Password of {name}", hide_input=True, err=True)
        salt, salted = salt_and_salted(mechanism, password, int(iterations))
        made.append(
            ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=int(iterations),
                salt=salt,
                salted_password=salted,
            )
        )
    return made
