"""An administrator: trims logs, changes settings, deletes topics and makes them again under the same name."""

import asyncio
import sys
from random import Random

from protocol.errors import ErrorCode
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.simulation.clients.operator import Operator
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.plan_clients import CHURNED, COMPACTED, SCRATCH
from tests.simulation.shape import ClientPlan
from tests.simulation.world import World

RETRIED = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""What several nodes may answer where none of them is the controller for a while."""
SETTINGS = (
    ("flush.messages", ("1", None)),
    ("segment.ms", ("60000", None)),
    ("compression.type", ("gzip", "zstd", "uncompressed", None)),
    ("message.timestamp.type", ("LogAppendTime", None)),
    ("retention.bytes", ("1000", None)),
    ("retention.ms", ("1", None)),
    ("max.compaction.lag.ms", ("1", None)),
    ("index.interval.bytes", ("1", None)),
)


async def run(world: World, plan: ClientPlan) -> None:
    """Chores until it is time to finish."""
    admin = Admin(world, plan)
    operator = Operator(world, Session(world, plan.name), admin.random)
    chores = {
        "trim": admin.trim,
        "topics": admin.topics,
        "churn": admin.churn,
        "configs": admin.configs,
        "abort": operator.abort,
        "features": operator.features,
    }
    wanted = str(plan.option("chores", "trim")).split()
    while not world.closing:
        chore = admin.random.choice(wanted)
        try:
            await chores[chore]()
        except NoAnswer:
            await asyncio.sleep(0.02)
        await asyncio.sleep(admin.random.choice((0.02, 0.1, 0.5)))


class Admin:
    """See the head of this file."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        self.random = Random(plan.seed)
        self._world = world
        self._session = Session(world, plan.name)
        self._exists = False
        wide = world.plan.wide
        self._partitions = world.plan.partitions if wide is None else min(wide.partitions, 1000)

    async def trim(self) -> None:
        """DeleteRecords up to somewhere, or up to the high watermark (-1)."""
        place = (self.random.choice(("a", "b", COMPACTED)), self.random.randrange(self._world.plan.partitions))
        offset = self.random.choice((-1, self.random.randrange(100), self.random.randrange(1000)))
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=place[0], partitions=[DeleteRecordsPartition(partition_index=place[1], offset=offset)]
                )
            ],
            timeout_ms=1000,
        )
        unknown = self._world.history.unknown_trims
        before = unknown.get(place, 0)
        unknown[place] = max(before, sys.maxsize if offset < 0 else offset)
        answer = (await self._session.ask(request, 2)).topics[0].partitions[0]
        self._world.history.note("trimmed", place, offset, answer.error_code, answer.low_watermark)
        if not answer.error_code:
            self._world.hit("admin.trimmed")
            unknown[place] = before
            self._world.history.trims[place] = max(answer.low_watermark, self._world.history.trims.get(place, 0))

    async def configs(self) -> None:
        """Change one setting of a topic, or set it back."""
        name, values = self.random.choice(SETTINGS)
        value = self.random.choice(values)
        config = IncrementalAlterConfigsRequestAlterableConfig(
            name=name, config_operation=0 if value is not None else 1, value=value
        )
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=2, resource_name=self.random.choice(("a", "b", COMPACTED)), configs=[config]
                )
            ],
            validate_only=False,
        )
        answer = await self._session.ask(request, 1)
        code = answer.responses[0].error_code
        self._world.history.note("configured", name, value, code)
        if code and not self._world.plan.has_points and not (self._world.ports and code in RETRIED):
            self._world.history.violation(f"{name}={value} was refused: {ErrorCode(code).name}")
        self._world.hit(f"admin.{name}")

    async def topics(self) -> None:
        """Delete the scratch topic, or make it."""
        await self._delete_or_make(SCRATCH, [])

    async def churn(self) -> None:
        """Make the other scratch topic, let it live for a moment, and delete it."""
        compacted = [
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="min.cleanable.dirty.ratio", value="0"),
        ]
        await self._delete_or_make(CHURNED, compacted)
        if self._exists:
            await asyncio.sleep(self.random.choice((0.002, 0.02, 0.1, 0.3)))
            await self._delete_or_make(CHURNED, compacted)

    async def _delete_or_make(self, name: str, configs: list[CreatableTopicConfig]) -> None:
        self._world.history.forgotten.add(name)
        self._world.history.note("asks for topic", name)
        if self._exists:
            answer = await self._session.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000), 6
            )
            code = answer.responses[0].error_code
            self._exists = code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._world.hit("admin.deleted")
        else:
            topic = CreatableTopic(
                name=name,
                num_partitions=self._partitions,
                replication_factor=1,
                assignments=[],
                configs=configs,
            )
            answer = await self._session.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
            code = answer.topics[0].error_code
            self._exists = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            if not code:
                self._world.topic_ids[name] = answer.topics[0].topic_id
                self._world.topic_names[answer.topics[0].topic_id] = name
            self._world.hit("admin.created")
        self._world.history.note("topic", name, self._exists, code)
