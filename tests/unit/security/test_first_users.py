"""The users that a cluster begins with: how they are written, and when they are added."""

import base64
from pathlib import Path

import pytest

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.node import Node
from broker.process.environment import RealEnvironment
from broker.security.sasl.first_users import read_first_users
from protocol.messages.sasl import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.sasl.scram import ScramMechanism, credential, salted_password
from tests.unit.cluster.cluster_rig import handle, with_node

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
KEY = "tallystick.add.scram"
SALT = base64.b64encode(b"some salt").decode()
SALTED = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("SCRAM-SHA-256=[name=ute,password=geheim]", [(SHA_256, "ute", 4096, "geheim")]),
        (
            ' SCRAM-SHA-512=[ name=u.te , iterations=8192, password="a,b]=c" ] ,SCRAM-SHA-256=[password=x=y,name=ute];',
            [(SHA_512, "u.te", 8192, "a,b]=c"), (SHA_256, "ute", 4096, "x=y")],
        ),
        (f'SCRAM-SHA-256=[name="ü",salt="{SALT}",saltedpassword={SALTED}]', [(SHA_256, "ü", 4096, None)]),
    ],
)
def test_users_are_written_as_for_kafka_storage(
    text: str, found: list[tuple[ScramMechanism, str, int, str | None]]
) -> None:
    assert [(one.mechanism, one.name, one.iterations, one.password) for one in read_first_users(text)] == found


def test_what_is_kept_follows_from_password_or_salted_password() -> None:
    plain, salted = read_first_users(
        f"SCRAM-SHA-256=[name=ute,password=geheim] SCRAM-SHA-512=[name=ute,salt={SALT},saltedpassword={SALTED}]"
    )
    made = plain.made(lambda count: bytes(count))
    assert made.kept == credential(SHA_256, salted_password(SHA_256, "geheim", b"0", 4096), b"0", 4096)
    made = salted.made(lambda count: bytes(count))
    assert made.kept == credential(SHA_512, bytes(range(32)), b"some salt", 4096)
    assert "geheim" not in repr(plain) and "some salt" not in repr(salted)


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "SCRAM-SHA-1=[name=ute,password=hunter2]",
        "SCRAM-SHA-256=[name=ute,password=hunter2",
        "SCRAM-SHA-256=[name=ute,password=hunter2] and so on",
        "SCRAM-SHA-256=[name=ute,hunter2]",
        "SCRAM-SHA-256=[name=,password=hunter2]",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=ute]",
        "SCRAM-SHA-256=[name=ute,password=]",
        f"SCRAM-SHA-256=[name=ute,password=hunter2,salt={SALT},saltedpassword={SALTED}]",
        "SCRAM-SHA-256=[name=ute,saltedpassword=hunter2]",
        "SCRAM-SHA-256=[name=ute,salt=x,saltedpassword=hunter2!]",
        f"SCRAM-SHA-256=[name=ute,salt={SALT}!,saltedpassword={SALTED}]",
        f"SCRAM-SHA-256=[name=ute,salt={SALT},saltedpassword=!{SALTED}]",
        "SCRAM-SHA-256=[name=ute,password=hunter2,iterations=4095]",
        "SCRAM-SHA-256=[name=ute,password=hunter2,iterations=16385]",
        "SCRAM-SHA-256=[name=ute,password=hunter2,iterations=many]",
        "SCRAM-SHA-256=[name=ute,password=hunter2,iterations=\u0664\u0660\u0669\u0666]",
        "SCRAM-SHA-256=[name=ute,password=hunter2,secret=hunter2]",
        "SCRAM-SHA-256=[name=ute,password=hunter2] SCRAM-SHA-256=[name=ute,password=hunter2]",
        "SCRAM-SHA-256=[" + "a=b," * 50_000,
    ],
)
def test_what_is_wrong_is_told_without_the_password(text: str) -> None:
    with pytest.raises(ConfigError) as problem:
        read_first_users(text)
    assert "hunter2" not in str(problem.value)


def test_they_are_added_once_and_do_not_come_back(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    async def look(node: Services) -> None:
        seen.append(sorted({name for name, _ in node.cluster.image.scram_users.kept}))

    async def remove(node: Services) -> None:
        await look(node)
        deletions = [ScramCredentialDeletion(name="ute", mechanism=SHA_256)]
        await handle(node, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]), 0)

    with_node(look, folder=tmp_path)
    users = {KEY: "SCRAM-SHA-256=[name=ute,password=a] SCRAM-SHA-256=[name=uwe,password=b]"}
    with_node(remove, folder=tmp_path, settings=users)
    with_node(look, folder=tmp_path, settings=users)
    assert seen == [[], ["ute", "uwe"], ["uwe"]]


@pytest.mark.parametrize(
    "settings", [{KEY: "nonsense"}, {"listeners": "S://:1", "listener.security.protocol.map": "S:SASL_PLAINTEXT"}]
)
def test_a_node_that_could_let_nobody_in_is_not_even_made(settings: dict[str, str]) -> None:
    """So that it touches no data."""
    environment = RealEnvironment(None)
    with pytest.raises(ConfigError):
        Node(BrokerConfig({"tallystick.in.memory": "true", **settings}), environment)
    environment.close()
