"""Plays a scenario at a place, and gives back what each step was answered.

Rule 1. A step with a request waits for its response; `alice sends ...` does not, `alice hears` does.
Rule 2. After an answer that set a transaction going towards its end (EndTxn, InitProducerId over an open one) the
engine waits, through DescribeTransactions, until it has ended; `at once` behind a step leaves that out.
Rule 3. Nothing sleeps to let something happen; what must have happened is requested until it has.
"""

import asyncio
import contextlib
import re
from typing import Any, Protocol

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.transactions import DescribeTransactionsRequest, InitProducerIdRequest
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost
from tests.scenarios import batches, logs
from tests.scenarios.language import NotUnderstood, Scenario, Step
from tests.scenarios.normalise import Names
from tests.scenarios.phrases import PHRASES
from tests.scenarios.rendering import answer_lines, marked
from tests.scenarios.requests import APIS, Client, build, value_of, version_of, writes_structures_out

OPTION = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
ATTEMPTS = 2000
PAUSE_S = 0.01
UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
PATIENCE_S = 180.0
MEDDLING = ("fault", "faults", "syncs", "one", "damage", "lose")
"""First words of the steps that are the place's alone."""
IN_BETWEEN = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class Place(Protocol):
    """Where a scenario is played: a broker that clients can connect to."""

    name: str
    powers: frozenset[str]
    """Of "time", "crash", "power": what else can be done to the broker."""

    async def connect(self, client_id: str) -> Connection: ...

    async def pass_time(self, seconds: float) -> None: ...

    async def set_clock_back(self, seconds: float) -> None: ...

    async def end(self, how: str) -> None:
        """`crash`, `power cut` or `stop` the broker."""

    async def restart(self) -> None: ...

    def arm(self, how: str, point: str) -> None:
        """`crash` or `power fails` when this fault point is passed next."""

    async def meddle(self, engine: "Engine", words: list[str]) -> None:
        """Fault points, syncs and files: see `places.meddling`."""

    async def age(self, engine: "Engine", transactional_id: str, epoch: int) -> None:
        """Let an id reach an epoch, without a transaction."""


class Engine:
    """One run of one scenario."""

    def __init__(self, place: Place, scenario: Scenario, *, suffix: str, zero_ms: int) -> None:
        self.place = place
        self.scenario = scenario
        self.names = Names(suffix, zero_ms)
        self.clients: dict[str, Client] = {}
        self._connections: dict[str, Connection] = {}
        self._unheard: dict[str, list[tuple[Client, str, int, Any, asyncio.Future[Any]]]] = {}

    async def play(self) -> list[list[str]]:
        """What each step was answered; steps that only act have nothing."""
        await self._prepare()
        answers = []
        for step in self.scenario.steps:
            try:
                patience_s = None if step.text.startswith("advance") else PATIENCE_S
                answers.append(await asyncio.wait_for(self._step(step), patience_s))
            except Exception as error:
                where = f"{self.scenario.path.name}:{step.line}"
                raise NotUnderstood(
                    f"{where}: {step.text!r} at {self.place.name}: {type(error).__name__} {error}"
                ) from error
        for connection in self._connections.values():
            connection.abort()
        return answers

    async def _step(self, step: Step) -> list[str]:
        words = step.words
        verb = words[1] if len(words) > 1 else ""
        if words[0] == "topic":
            return await self._make_topic(words[1:])
        if found := re.fullmatch(r"(crash|power fails) at (\S+)", step.text):
            self.place.arm(found[1], found[2])
            return []
        if words[0] in ("crash", "restart", "stop", "advance", "power", "clock"):
            return await self._act(words)
        if words[0] in MEDDLING:
            await self.place.meddle(self, words)
            return []
        if words[0] == "wait":
            return await self._wait(words)
        if found := re.fullmatch(r"(\S+) has epoch (\d+)", step.text):
            await self.place.age(self, self.names.unique(found[1]), int(found[2]))
            return []
        if step.text.startswith(("log ", "read ", "transaction log ", "offsets log ", "group log ", "share log ")):
            return marked(await logs.look(self, words))
        client = self.clients.setdefault(words[0], Client(words[0]))
        if verb == "reconnects":
            self._connections.pop(client.name).abort()
            return []
        if verb == "forgets":
            client.remembered, client.sequences = {}, {}
            return []
        if verb == "hears":
            return await self._hear(client)
        if verb == "sends":
            await self._send(client, words[2:])
            return []
        return await self._ask(client, words[1:])

    # -- requests ------------------------------------------------------------------------------------------------

    async def _ask(self, client: Client, words: list[str]) -> list[str]:
        settle = words[-2:] != ["at", "once"]
        words = words if settle else words[:-2]
        until = words[-1] if "until" in words else ""
        words = words[:-2] if until else words
        for _ in range(ATTEMPTS):
            client_, api, version, request, future = await self._begin(client, words)
            try:
                answer = await future
            except ConnectionLost:
                return marked(["the connection was lost"])
            lines = answer_lines(answer, version, self.names)
            # Where time is real, one partition of a coordinator's topic may be loaded and another not yet.
            is_early = "time" not in self.place.powers and any("COORDINATOR_LOAD_IN_PROGRESS" in one for one in lines)
            if not is_early and (not until or until in lines[0].split()):
                break
            await asyncio.sleep(PAUSE_S)
        client_.learn(api, request, answer)
        if settle and api in ("EndTxn", "InitProducerId") and request.transactional_id:
            with contextlib.suppress(ConnectionLost, OSError):  # a story in which the broker dies goes on with that
                await self.wait_until_ended(request.transactional_id)
        if api in ("CreateTopics", "DeleteTopics", "CreatePartitions"):
            await self._topics_changed(api, request, answer)
        return lines

    async def _begin(self, client: Client, words: list[str]) -> Any:
        api, words = words[0], words[1:]
        if api not in APIS:
            raise NotUnderstood(f"no API is called {api}")
        version = version_of(api, self.scenario.clients)
        if words and re.fullmatch(r"v\d+", words[0]):
            version, words = int(words[0][1:]), words[1:]
        plain, said = [], {}
        for word in words:
            if found := OPTION.fullmatch(word):
                said[found[1]] = value_of(self.names, found[2])
                if found[1] == "producer_id" and not found[2].startswith("P"):
                    self.names.strange_producers.add(said[found[1]])
            else:
                plain.append(word)
        if api == "LeaveGroup" and "members" not in said:
            said.setdefault("member_id", client.remembered.get("member_id", ""))
        if api == "Produce":
            said = batches.produce(plain, said, client, self.names)
        elif api in PHRASES and (plain or not any(map(writes_structures_out, said.values()))):
            said = PHRASES[api](plain, said, version, self.names)
        request = build(api, version, said, client, self.names)
        connection = await self.connection(client.name)
        return client, api, version, request, connection.ask(request, version)

    async def _send(self, client: Client, words: list[str]) -> None:
        begun = await self._begin(client, words)
        self._unheard.setdefault(client.name, []).append(begun)
        _, api, _, request, future = begun
        if api == "JoinGroup":
            await self._wait_for_group(request.group_id, future, "PreparingRebalance")

    async def _hear(self, client: Client) -> list[str]:
        _, api, version, request, future = self._unheard[client.name].pop(0)
        try:
            answer = await future
        except ConnectionLost:
            return marked(["the connection was lost"])
        lines = answer_lines(answer, version, self.names)
        client.learn(api, request, answer)
        return lines

    async def connection(self, client_name: str) -> Connection:
        found = self._connections.get(client_name)
        if found is None or found.is_lost:
            found = self._connections[client_name] = await self.place.connect(client_name)
        return found

    # -- what is repeated until it is so --------------------------------------------------------------------

    async def ask_console(self, request: Any, version: int) -> Any:
        """A question of the engine's own."""
        return await (await self.connection("console")).ask(request, version)

    async def wait_until_ended(self, transactional_id: str) -> None:
        for _ in range(ATTEMPTS):
            if await self._state_of(transactional_id) not in IN_BETWEEN:
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{transactional_id} does not come to its end")

    async def _state_of(self, transactional_id: str) -> str:
        answer = await self.ask_console(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        return str(answer.transaction_states[0].transaction_state)

    async def _wait_for_group(self, group_id: str, answered: "asyncio.Future[Any]", state: str) -> None:
        for _ in range(ATTEMPTS):
            answer = await self.ask_console(DescribeGroupsRequest(groups=[group_id]), 5)
            if answered.done() or answer.groups[0].group_state == state:
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{group_id} does not become {state}")

    async def _wait(self, words: list[str]) -> list[str]:
        """wait until tx is CompleteAbort, or: until group g has epoch 3, or: until the broker is gone."""
        if words[2:] == ["the", "broker", "is", "gone"]:
            await (await self.connection("console")).wait_until_lost()
            return []
        if words[2] == "group":
            return await self._wait_for_epoch(self.names.unique(words[3]), int(words[6]))
        name, wanted = self.names.unique(words[2]), words[4]
        for _ in range(ATTEMPTS):
            if await self._state_of(name) == wanted:
                return []
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{words[2]} is {await self._state_of(name)}, not {wanted}")

    async def _wait_for_epoch(self, group_id: str, epoch: int) -> list[str]:
        """What a regular expression stands for is found out beside the requests."""
        for _ in range(ATTEMPTS):
            answer = await self.ask_console(ConsumerGroupDescribeRequest(group_ids=[group_id]), 0)
            if answer.groups[0].group_epoch >= epoch:
                return []
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"the group is at epoch {answer.groups[0].group_epoch}, not {epoch}")

    # -- the stage -------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Wait until the coordinators serve, and learn how this broker is called."""
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["anybody"])
            for _ in range(ATTEMPTS):
                answer = await self.ask_console(request, 4)
                if answer.coordinators[0].error_code == ErrorCode.NONE:
                    break
                await asyncio.sleep(PAUSE_S)
        found = await self.ask_console(MetadataRequest(topics=[MetadataRequestTopic(name="__transaction_state")]), 12)
        self.names.node_ids = frozenset(one.node_id for one in found.brokers)
        self.names.base_epoch = found.topics[0].partitions[0].leader_epoch
        for _ in range(ATTEMPTS):  # the first block of producer ids may still be on its way
            answer = await self.ask_console(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
            if answer.error_code == ErrorCode.NONE:
                break
            await asyncio.sleep(PAUSE_S)
        await self._wait_for_coordinators()

    async def _wait_for_coordinators(self) -> None:
        for _ in range(ATTEMPTS):
            answer = await self.ask_console(DescribeTransactionsRequest(transactional_ids=["nobody"]), 0)
            groups = await self.ask_console(DescribeGroupsRequest(groups=["nobody"]), 5)
            codes = {answer.transaction_states[0].error_code, groups.groups[0].error_code}
            if "time" not in self.place.powers:  # Where it is real, one partition may be loaded and another not yet.
                codes.add((await self.ask_console(ListGroupsRequest(), 4)).error_code)
            if not codes & {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, 15}:
                return
            await asyncio.sleep(PAUSE_S)

    async def _make_topic(self, words: list[str]) -> list[str]:
        options = dict(word.split("=", 1) for word in words[1:])
        count = int(options.pop("partitions", "1"))
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in options.items()]
        name = self.names.unique(words[0])
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=configs)
        made = await self.ask_console(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        if made.topics[0].error_code:
            raise AssertionError(ErrorCode(made.topics[0].error_code).name)
        await self.wait_until_led(name, count)
        return []

    async def wait_until_led(self, name: str, count: int) -> None:
        for _ in range(ATTEMPTS):
            found = await self.ask_console(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
            topic = found.topics[0]
            if not topic.error_code and len(topic.partitions) >= count and await self._serves(name, count):
                self.names.topics[topic.topic_id] = self.names.plain(name)
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{name} has no leaders")

    async def _topics_changed(self, api: str, request: Any, answer: Any) -> None:
        """Wait until the metadata match the response to an administrator; Kafka's controller is ahead of them."""
        if getattr(request, "validate_only", False):
            return
        results = {"CreateTopics": "topics", "DeleteTopics": "responses", "CreatePartitions": "results"}[api]
        done = {one.name for one in getattr(answer, results) if not one.error_code}
        for topic in [] if api == "DeleteTopics" else request.topics:
            if topic.name in done:
                count = topic.count if api == "CreatePartitions" else max(topic.num_partitions, len(topic.assignments))
                await self.wait_until_led(topic.name, max(count, 1))
        for name in sorted(done) if api == "DeleteTopics" else []:
            await self._wait_until_gone(name)

    async def _wait_until_gone(self, name: str) -> None:
        for _ in range(ATTEMPTS):
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            found = await self.ask_console(asked, 12)
            if found.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{name} is still there")

    async def _serves(self, name: str, count: int) -> bool:
        """Whether the leaders know that they are; Kafka's metadata run ahead of them."""
        for index in range(count):
            partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1)]
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=partitions)])
            answer = await self.ask_console(request, 7)
            if answer.topics[0].partitions[0].error_code:
                return False
        return True

    async def _act(self, words: list[str]) -> list[str]:
        if words[0] in ("advance", "clock"):
            seconds = float(words[-2]) * UNITS_S[words[-1]]
            await (self.place.pass_time(seconds) if words[0] == "advance" else self.place.set_clock_back(seconds))
        elif words[0] == "restart":
            await self.place.restart()
            await self._wait_for_coordinators()
        else:
            await self.place.end(" ".join(words))
            for connection in self._connections.values():
                connection.abort()
            self._connections.clear()
        return []
