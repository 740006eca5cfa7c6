"""`kafka-acls` and `kafka-configs`, unmodified, against a broker with ACLs: what they make, list and take away, and
what they say to who may not.

Where there is no Java, or no jars, these tests say so and skip.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.test_acls import PASSWORDS, SETTINGS
from tests.clients.test_kafka_tools import Tools
from tests.harness.secure_broker import MODULES, SecureBroker, sasl_settings, secure_broker

ACLS, CONFIGS = "AclCommand", "kafka.admin.ConfigCommand"
Entry = tuple[str, ...]
"""(type of resource, name, pattern type, principal, host, operation, permission)"""
RESOURCE = re.compile(r"`ResourcePattern\(resourceType=(.*?), name=(.*?), patternType=(.*?)\)`")
ENTRY = re.compile(r"\(principal=(.*?), host=(.*?), operation=(.*?), permissionType=(.*?)\)")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = secure_broker(tmp_path_factory.mktemp("kafka-acls"), sasl_settings(PASSWORDS) | SETTINGS)
    yield made
    made.process.close()


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def with_name(broker: SecureBroker, folder: Path, user: str) -> tuple[str, ...]:
    """Options of a tool that says with SASL who it is."""
    settings = folder / f"{user}.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={MODULES}.plain.PlainLoginModule required "
        f'username="{user}" password="{PASSWORDS[user]}";\n'
    )
    return ("--bootstrap-server", broker.bootstrap, "--command-config", str(settings))


def listed(text: str) -> set[Entry]:
    """What stands in a list of ACLs."""
    found: set[Entry] = set()
    resource: Entry = ()
    for line in text.splitlines():
        if named := RESOURCE.search(line):
            resource = named.groups()
        elif entry := ENTRY.search(line):
            found.add((*resource, *entry.groups()))
    return found


def of(kind: str, name: str, pattern: str, *operations: str, host: str = "*", permission: str = "ALLOW") -> set[Entry]:
    """ACLs of bob."""
    return {(kind, name, pattern, "User:bob", host, operation, permission) for operation in operations}


def test_kafka_acls_makes_lists_and_takes_away(broker: SecureBroker, tools: Tools, tmp_path: Path) -> None:
    where = with_name(broker, tmp_path, "root")
    bob = ("--allow-principal", "User:bob")

    def acls(*options: str) -> set[Entry]:
        return listed(tools.run(ACLS, *where, *options))

    producing = ("--producer", "--topic", "made", "--transactional-id", "x", "--idempotent")
    acls("--add", *bob, *producing)
    produces = of("TOPIC", "made", "LITERAL", "WRITE", "DESCRIBE", "CREATE")
    produces |= of("TRANSACTIONAL_ID", "x", "LITERAL", "WRITE", "DESCRIBE")
    produces |= of("CLUSTER", "kafka-cluster", "LITERAL", "IDEMPOTENT_WRITE")
    consuming = ("--consumer", "--topic", "ma", "--group", "g", "--resource-pattern-type", "prefixed")
    consuming += ("--allow-host", "10.0.0.1")
    acls("--add", *bob, *consuming)
    consumes = of("TOPIC", "ma", "PREFIXED", "READ", "DESCRIBE", host="10.0.0.1")
    consumes |= of("GROUP", "g", "PREFIXED", "READ", host="10.0.0.1")
    denial = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.2", "--operation", "Read", "--operation", "All")
    acls("--add", *denial, "--topic", "*")
    denied = of("TOPIC", "*", "LITERAL", "READ", "ALL", host="10.0.0.2", permission="DENY")
    assert acls("--list", "--principal", "User:bob") == produces | consumes | denied
    of_topics = {entry for entry in produces | consumes | denied if entry[0] == "TOPIC"}
    assert acls("--list", "--topic", "made", "--resource-pattern-type", "match") == of_topics
    assert acls("--list", "--topic", "made") == produces & of_topics
    acls("--remove", "--force", *bob, *consuming)
    assert acls("--list") == produces | denied
    acls("--remove", "--force", "--topic", "made", "--resource-pattern-type", "match")
    assert acls("--list") == produces - of_topics
    acls("--remove", "--force", *bob, *producing)
    assert acls("--list") == set()


def test_kafka_acls_of_who_may_not(broker: SecureBroker, tools: Tools, tmp_path: Path) -> None:
    root, alice = (with_name(broker, tmp_path, user) for user in ("root", "alice"))
    assert "ClusterAuthorizationException" in tools.fail(ACLS, *alice, "--list")
    rights = ("--allow-principal", "User:alice", "--operation", "Alter", "--cluster")
    tools.run(ACLS, *root, "--add", *rights)
    added = tools.run(ACLS, *alice, "--add", "--deny-principal", "User:bob", "--operation", "Read", "--topic", "any")
    assert of("TOPIC", "any", "LITERAL", "READ", permission="DENY") <= listed(added), "who may alter may describe"
    tools.run(ACLS, *alice, "--remove", "--force", "--topic", "any")
    tools.run(ACLS, *alice, "--remove", "--force", *rights)  # its own right
    refused = tools.fail(ACLS, *alice, "--add", *rights)
    assert "ClusterAuthorizationException" in refused


def test_kafka_configs_as_far_as_acls_go(broker: SecureBroker, tools: Tools, tmp_path: Path) -> None:
    alice = with_name(broker, tmp_path, "alice")
    open_ = ("--bootstrap-server", broker.open_bootstrap)
    tools.run("TopicCommand", *open_, "--create", "--topic", "set", "--partitions", "1")

    def allow(*what: str) -> None:
        tools.run(ACLS, *open_, "--add", "--allow-principal", "User:alice", *what)

    longer = ("--alter", "--topic", "set", "--add-config", "retention.ms=86400000")
    assert "TopicAuthorizationException" in tools.fail(CONFIGS, *alice, *longer)
    allow("--operation", "AlterConfigs", "--operation", "Describe", "--topic", "set")
    assert "Completed updating" in tools.run(CONFIGS, *alice, *longer)
    assert "retention.ms=86400000" in tools.run(CONFIGS, *alice, "--describe", "--topic", "set"), "implied"
    user = ("--entity-type", "users", "--entity-name", "carol")
    password = ("--alter", *user, "--add-config", "SCRAM-SHA-256=[password=carol-secret]")
    assert "ClusterAuthorizationException" in tools.fail(CONFIGS, *alice, *password)
    allow("--operation", "Alter", "--operation", "AlterConfigs", "--cluster")
    tools.run(CONFIGS, *alice, *password)
    tools.run(CONFIGS, *alice, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    described = tools.run(CONFIGS, *alice, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=4096" in described and "producer_byte_rate=1024" in described
    tools.run(ACLS, *open_, "--remove", "--force", "--cluster")
    assert "ClusterAuthorizationException" in tools.fail(CONFIGS, *alice, "--describe", *user)
