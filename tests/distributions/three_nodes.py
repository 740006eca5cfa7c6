"""Three nodes with the variables that containers are to have, as processes of this machine: what is changed of them are
the addresses, for there are no names and no ports of their own here.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.config.broker_config import BrokerConfig
from broker.config.sources import read_environment
from tallystick.process import BrokerProcess
from tests.harness.confluent import producer as new_producer
from tests.harness.confluent import read_all, values_of, wait_until
from tests.harness.source_tree import ROOT
from tests.harness.together import start_together

HEALTH = ROOT / "docker" / "healthcheck.py"
OF_THE_IMAGE = dict(re.findall(r"\b(KAFKA_\w+)=(\S+)", (ROOT / "docker" / "Dockerfile").read_text()))
PARTITIONS = 6
SECONDS = 60.0


def here(variables: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container, with addresses of this machine; each of them has to be met."""
    longest_first = sorted(addresses, key=len, reverse=True)
    met = re.compile("|".join(map(re.escape, longest_first)))
    unmet = [address for address in addresses if not any(address in value for value in variables.values())]
    assert unmet == [], variables
    return {name: met.sub(lambda one: addresses[one[0]], value) for name, value in variables.items()}


def is_known(variables: Mapping[str, str]) -> None:
    """The broker has a setting for each of them, and would start with them."""
    config = BrokerConfig(read_environment(OF_THE_IMAGE | dict(variables)))
    assert config.warnings == ()


def settings_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that the broker reads itself; others are for a library in it."""
    return {name: value for name, value in variables.items() if name.startswith("KAFKA_")}


def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine would give a node that was told too little, a container does not have."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


class ThreeNodes:
    """Started by the constructor; `close` them. `clients` are the settings of clients that are let in."""

    def __init__(self, folder: Path, of_each: Sequence[Mapping[str, str]], clients: Mapping[str, Any]) -> None:
        self.clients = dict(clients)
        self.nodes = [self._node(folder / f"node-{number}", one) for number, one in enumerate(of_each)]
        try:
            start_together(one.start for one in self.nodes)
        except BaseException:
            self.close()
            raise

    def _node(self, folder: Path, variables: Mapping[str, str]) -> BrokerProcess:
        # Its own flags would win over the variable.
        made = BrokerProcess(folder, options=["--listeners", variables["KAFKA_LISTENERS"]], start_seconds=SECONDS)
        made.has_data = False
        made.environment = OF_THE_IMAGE | dict(variables)
        return made

    def close(self) -> None:
        for one in self.nodes:
            one.close()

    def health(self, number: int) -> int:
        """The exit status of the image's own health check."""
        environment = os.environ | self.nodes[number].environment
        done = subprocess.run(
            [sys.executable, "-P", str(HEALTH)], cwd=ROOT, env=environment | {"PYTHONPATH": str(ROOT)}, check=False
        )
        return done.returncode

    def go_through_a_kill(self, killed: int = 0) -> list[bytes]:
        """Transactions before it, while the others have what the node led, and when it is back; what was written."""
        bootstrap, victim = self._bootstrap(), self.nodes[killed]
        admin = AdminClient({"bootstrap.servers": bootstrap, **self.clients})
        admin.create_topics([NewTopic("orders", PARTITIONS)])["orders"].result(SECONDS)
        self._wait_until_lead(admin, len(self.nodes))
        written = self._commit(bootstrap, "before")
        victim.kill()
        assert self.health(killed) == 1
        self._wait_until_lead(admin, len(self.nodes) - 1)
        written += self._commit(bootstrap, "without it")
        victim.start()
        assert [self.health(number) for number in range(len(self.nodes))] == [0] * len(self.nodes)
        self._wait_until_lead(admin, len(self.nodes))
        written += self._commit(bootstrap, "when it is back")
        assert sorted(values_of(read_all(bootstrap, "orders", **self.clients))) == sorted(written)
        assert [one.stop() for one in self.nodes] == [0] * len(self.nodes)
        return written

    def _commit(self, bootstrap: str, what: str) -> list[bytes]:
        """One transaction with a record for each partition; what they are."""
        sender = new_producer(bootstrap, transactional__id="copier", **self.clients)
        sender.init_transactions(SECONDS)
        sender.begin_transaction()
        values = [f"{what}: {index}".encode() for index in range(PARTITIONS)]
        for index, value in enumerate(values):
            sender.produce("orders", value, partition=index)
        sender.commit_transaction(SECONDS)
        return values

    def _bootstrap(self) -> str:
        """The first listener of each: that of clients."""
        return ",".join(one.bootstrap.split(",")[0] for one in self.nodes)

    def _wait_until_lead(self, admin: AdminClient, count: int) -> None:
        def leaders() -> set[int]:
            partitions = admin.list_topics("orders", SECONDS).topics["orders"].partitions
            return {one.leader for one in partitions.values()}

        wait_until(lambda: len(leaders()) == count, f"{count} nodes lead")
