"""Real servers, over TCP: ours (`OurServer`) and a real Apache Kafka (`Oracle`). One process serves many stories; each
run puts a suffix of its own behind every topic, group and transactional id.
"""

import asyncio
import itertools
import time
from functools import partial
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.groups import ListGroupsRequest
from protocol.messages.transactions import ListTransactionsRequest
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.confluent import SECONDS, admin, wait_until
from tests.harness.heard import HeardConnection
from tests.harness.together import answer_of
from tests.opinion.trace import Trace
from tests.scenarios.engine import Engine
from tests.scenarios.language import Scenario
from tests.scenarios.normalise import OF_A_STORY
from tests.scenarios.places.ageing import age_by_asking

OURS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
KAFKA = {**OURS, "log.cleaner.enable": "false"}
_BEGIN_MS = time.time_ns() // 1_000_000
_runs = itertools.count(1)


class Sockets:
    """A process that can be connected to."""

    name = "over TCP"
    powers = frozenset({"crash"})

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.trace = Trace(now=time.monotonic)

    async def connect(self, client_id: str) -> Connection:
        return await HeardConnection.hear(self.trace, "127.0.0.1", self.process.port, client_id=client_id)

    async def pass_time(self, seconds: float) -> None:
        raise AssertionError("nobody can make real time pass")

    async def set_clock_back(self, seconds: float) -> None:
        raise AssertionError("nobody sets the clock of a real machine")

    async def end(self, how: str) -> None:
        if how == "crash":
            self.process.kill()
        elif how == "stop":
            self.process.stop()
        else:
            raise AssertionError(f"a real server does not know how to {how}")

    async def age(self, engine: Engine, transactional_id: str, epoch: int) -> None:
        await age_by_asking(engine, transactional_id, epoch)

    def arm(self, how: str, point: str) -> None:
        raise AssertionError("this server was started without fault points")

    async def meddle(self, engine: Engine, words: list[str]) -> None:
        raise AssertionError("nobody meddles with a real server")

    async def restart(self) -> None:
        """Until what lists groups and transactions lists all of them."""
        self.process.start()
        for request in (ListGroupsRequest(), ListTransactionsRequest(state_filters=[], producer_id_filters=[])):
            wait_until(partial(self._is_loaded, request), "coordinators have loaded")

    def _is_loaded(self, request: object) -> bool:
        answer = answer_of(self.process.bootstrap, request)
        return bool(answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def play(self, scenario: Scenario) -> list[list[str]]:
        """Run the story once; `trace` has its requests and responses afterwards."""
        self.trace = Trace(now=time.monotonic)
        return asyncio.run(self._play(scenario))

    async def _play(self, scenario: Scenario) -> list[list[str]]:
        suffix = f".r{_BEGIN_MS:x}x{next(_runs)}"
        zero_ms = time.time_ns() // 1_000_000 - 3_600_000
        return await Engine(self, scenario, suffix=suffix, zero_ms=zero_ms).play()


class OurServer(Sockets):
    """`tallystick serve`, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        options = [part for name, value in OURS.items() for part in ("--set", f"{name}={value}")]
        super().__init__(BrokerProcess(folder, options=options))


class Oracle(Sockets):
    """Apache Kafka 4.3.1 with a transaction.version of our choice. Raises `JarsMissing`."""

    name = "Apache Kafka"
    powers = frozenset[str]()

    def __init__(self, folder: Path, transaction_version: int) -> None:
        features = {"transaction.version": transaction_version}
        super().__init__(ApacheKafka(folder, settings=KAFKA, heap="512m", features=features))

    def forget_topics(self) -> None:
        """Those of the stories so far: a regular expression would find them again."""
        asker = admin(self.process.bootstrap)
        topics = [name for name in asker.list_topics(timeout=SECONDS).topics if OF_A_STORY.search(name)]
        for deleted in asker.delete_topics(topics).values() if topics else ():
            deleted.result(SECONDS)
