"""`tallystick explain` asked by somebody who may see a topic, and not every transactional id: nothing is called hanging
that is not, and no command is given that would tear a transaction that its coordinator holds."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tallystick.cli.acls import acls
from tallystick.cli.explain import explain
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.topics import topics
from tallystick.cli.transactions import transactions
from tests.clients.test_explain_command import held, open_one
from tests.harness.confluent import make_topic
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = secure_broker(tmp_path_factory.mktemp("few-rights"), sasl_settings({"bob": "secret"}) | SETTINGS)
    yield made
    made.process.close()


@pytest.fixture
def as_bob(tmp_path: Path) -> Path:
    path = tmp_path / "bob.properties"
    line = f'{MODULE} required username="bob" password="secret";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n")
    return path


def test_what_one_may_not_see_is_not_called_hanging(broker: SecureBroker, as_bob: Path) -> None:
    def allow(*resource: str) -> None:
        words = ["--add", "--allow-principal", "User:bob", "--bootstrap-server", broker.open_bootstrap, *resource]
        assert CliRunner().invoke(acls, words).exit_code == 0

    def asks(command: click.Command, *words: str) -> Result:
        where = ["--bootstrap-server", broker.bootstrap, "--command-config", str(as_bob)]
        return CliRunner().invoke(command, [*words, *where])

    topic = make_topic(broker.open_bootstrap, "few-rights")
    open_one(broker.open_bootstrap, "not-for-bob", (topic, 0))
    ((holder,),) = [one["heldBy"] for one in held(broker.open_bootstrap, topic)]
    assert (holder["cause"], holder["transactionalId"]) == ("open", "not-for-bob")

    allow("--topic", topic, "--operation", "Read", "--operation", "Describe")
    assert "Configs: may not be seen (DESCRIBE_CONFIGS)" in asks(topics, "describe", topic).output
    (described,) = json.loads(asks(topics, "describe", topic, "--json").output)
    assert (described["configs"], described["partitionCount"]) == (None, 1)
    done = asks(explain, "stuck", topic, "--json")
    ((holder,),) = [one["heldBy"] for one in json.loads(done.stdout)]
    assert (holder["cause"], holder["command"], done.exit_code) == ("unseen", None, STANDS_STILL)
    told = asks(explain, "stuck", topic).output
    assert "you may not describe every transactional id" in told and "abort" not in told
    hanging = asks(transactions, "find-hanging", "--topic", topic, "--json")
    assert json.loads(hanging.stdout) == [] and "1 may hang or not" in hanging.stderr

    allow("--transactional-id", "*", "--operation", "Describe")
    ((holder,),) = [one["heldBy"] for one in json.loads(asks(explain, "stuck", topic, "--json").stdout)]
    assert (holder["cause"], holder["transactionalId"]) == ("open", "not-for-bob")
