"""`tallystick explain group` with the HTTP side of a broker: who is missing, and whose heartbeat is late."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from protocol.messages.groups import HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from protocol.messages.share.groups import ShareGroupHeartbeatRequest
from tallystick import Broker
from tallystick.cli.explain import explain
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.client.client import Client
from tests.clients.test_explain_command import run
from tests.clients.test_explain_groups import patiently
from tests.harness.confluent import make_topic, wait_until
from tests.harness.http import ask

SESSION_MS, REBALANCE_MS = 30_000, 120_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(in_memory=True, http=True, control=True) as running:
        yield running


def explained(broker: Broker, group: str, *options: str) -> Result:
    words = ["group", group, "--bootstrap-server", broker.bootstrap, *options]
    return CliRunner().invoke(explain, words)


def with_http(broker: Broker, group: str, *options: str, status: int) -> str:
    done = explained(broker, group, "--http", broker.http_url or "", *options)
    assert done.exit_code == status, done.output
    return done.stdout


class Member:
    """One member of the classic protocol, request by request."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.broker, self.group, self.id, self.generation = broker, group, "", -1

    def _ask(self, request: object, version: int) -> Any:
        found: list[Any] = []

        async def story(client: Client) -> None:
            found.append(await patiently(client, self.group, request, version))

        run(self.broker.bootstrap, story)
        return found[0]

    def join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6))],
        )
        answer = self._ask(request, 3)
        self.id, self.generation = answer.member_id, answer.generation_id

    def sync(self) -> None:
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id, assignments=[]
        )
        self._ask(request, 3)

    def heartbeat(self) -> None:
        self._ask(HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id), 3)


def test_who_is_missing_and_until_when(broker: Broker) -> None:
    group = "missing/1"  # a group may be called anything
    first = Member(broker, group)
    first.join()
    done = explained(broker, group)
    assert "a Tallystick with an HTTP side tells" in done.stderr and done.exit_code == STANDS_STILL
    text = with_http(broker, group, status=STANDS_STILL)
    assert f"It waits for {first.id} (client tallystick at 127.0.0.1): it is alive, heard of " in text
    assert "If not all of them come, it goes on without them in 1 min 5" in text
    first.sync()
    assert "Every member has its partitions." in with_http(broker, group, status=0)


def test_whose_heartbeat_is_late(broker: Broker) -> None:
    first = Member(broker, "late")
    first.join()
    first.sync()
    broker.advance_time("11s")
    text = with_http(broker, "late", status=STANDS_STILL)
    assert f"{first.id} (client tallystick at 127.0.0.1) is late: nothing was heard of it for 11 s" in text
    assert "it is given up in 18 s (its session.timeout.ms is 30000)" in text
    said = json.loads(with_http(broker, "late", "--json", status=STANDS_STILL))
    (member,) = said["coordinator"]["members"]
    assert said["state"] == "Stable" and member["givenUpAt"] - member["heardAt"] == SESSION_MS
    first.heartbeat()
    assert "is late" not in with_http(broker, "late", status=0)


def test_a_group_of_another_kind(broker: Broker) -> None:
    topic = make_topic(broker.bootstrap, "shared")

    async def story(client: Client) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id="sharers", member_id="one", member_epoch=0, subscribed_topic_names=[topic]
        )
        await patiently(client, "sharers", request)

    run(broker.bootstrap, story)
    done = explained(broker, "sharers")
    assert done.exit_code == 1 and "'sharers' is a share group, and no group of consumers" in done.output
    assert with_http(broker, "sharers", status=0) == "sharers: a share group with 1 member, Stable.\n"
    broker.advance_time("20s")
    assert "one (client tallystick at 127.0.0.1) is late" in with_http(broker, "sharers", status=STANDS_STILL)


def test_a_group_that_nobody_knows(broker: Broker) -> None:
    wait_until(lambda: ask(f"{broker.http_url}/v1/groups/nobody/waiting").status == 200, "the coordinators")
    said = ask(f"{broker.http_url}/v1/groups/nobody/waiting").said
    assert (said["group"], said["known"]) == ("nobody", False)
    done = explained(broker, "nobody", "--http", broker.http_url or "")
    assert done.exit_code == 1 and "there is no group of consumers 'nobody'" in done.output
    done = explained(broker, "nobody", "--http", "http://127.0.0.1:1")
    assert done.exit_code == 1 and "cannot be asked over HTTP" in done.output
