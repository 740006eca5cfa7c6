"""The cluster coordinator: the machine over `__cluster_metadata-0`.

It decides which topics there are, what is configured, which producer ids are handed out, and which epoch a start of
this node gets. Its log holds Kafka's own records, framed as Kafka frames them, so Kafka's tools read it. Who follows
it (`broker.coordination.topics`, the broker's configuration) takes `image.changes` away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from coordinator.cluster.acls import create_acls, remove_acls
from coordinator.cluster.configs import AlterationResult, AlteredResource, alter
from coordinator.cluster.features import FINALIZED_FEATURES, SUPPORTED_FEATURES, update
from coordinator.cluster.framing import framed
from coordinator.cluster.image import ClusterImage
from coordinator.cluster.leaders import leader_change
from coordinator.cluster.quota_alterations import AlteredQuotas, QuotaAlteration, alter_quotas
from coordinator.cluster.quotas import Entity
from coordinator.cluster.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from coordinator.cluster.scram import AlteredUser, FirstUser, first_users
from coordinator.cluster.scram import alter as alter_users
from coordinator.cluster.spread import moves
from coordinator.cluster.topic_deletion import delete
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import (
    Decided,
    Planned,
    Rules,
    create,
    created,
    decide_creation,
    decide_growth,
    grow,
    never_spent,
    spread_of,
)
from coordinator.cluster.wide_topics import WideBatch
from coordinator.machine import A, AnyOutcome, Block, Outcome, ReplayedMarker, ReplayedRecord, Ticket
from protocol.acls import Acl
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey
from protocol.messages.sasl import AlterUserScramCredentialsResult
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeletableTopicResult,
    DeleteTopicState,
)

PRODUCER_ID_BLOCK = 1000
LAST_PRODUCER_ID = (1 << 63) - 1


class Forgotten(Enum):
    """What became of the wish to forget a node."""

    DONE = 0
    NOT_KNOWN = 1
    LIVES = 2


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node says of itself when it starts."""

    node_id: int
    incarnation: bytes
    epoch: int
    rack: str | None
    endpoints: tuple[tuple[str, str, int, int], ...] = ()
    """(listener, host, port, number of its security protocol), as advertised to clients."""
    directory: bytes = bytes(16)
    """The id of the data folder."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids that were never handed out before: `first` and the `count - 1` behind it."""

    first: int
    count: int


class ClusterCoordinator:
    """See the head of this file. Every operation answers one ticket."""

    def __init__(self) -> None:
        self.image = ClusterImage()

    # -- the machine -----------------------------------------------------------------------------------------

    def replay(self, entry: ReplayedRecord | ReplayedMarker) -> None:
        if isinstance(entry, ReplayedRecord) and entry.value is not None:
            self.image.replay(entry.offset, entry.value, entry.timestamp_ms)

    def knows(self, key: bytes) -> bool:
        """Records of the metadata have no keys; what they are stands in their values."""
        return True

    def loaded(self, now_ms: int) -> None:
        """Nothing but the log matters here."""

    def next_deadline_ms(self) -> int | None:
        return None

    def expire(self, now_ms: int) -> AnyOutcome:
        return Outcome(reason="nothing expires")

    # -- operations ------------------------------------------------------------------------------------------

    def register(self, ticket: Ticket[int], registration: Registration) -> Outcome[int]:
        """Write down a start of the node with its epoch, and the features of a new cluster. Answers the epoch."""
        assert registration.epoch > self.image.epoch, "an epoch is used once"
        messages: list[object] = [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in FINALIZED_FEATURES.items()
            if name not in self.image.decided_features
        ]
        messages.append(
            RegisterBrokerRecord(
                broker_id=registration.node_id,
                incarnation_id=registration.incarnation,
                broker_epoch=registration.epoch,
                end_points=[
                    BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
                    for name, host, port, protocol in registration.endpoints
                ],
                features=[
                    BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                rack=registration.rack,
                fenced=False,
                log_dirs=[registration.directory],
            )
        )
        return _decided(ticket, messages, registration.epoch, f"node {registration.node_id} starts")

    def end_life(self, ticket: Ticket[None], node_id: int) -> Outcome[None]:
        """Write down that a node lives no more, unless that is known."""
        found = self.image.brokers.get(node_id)
        records: list[object] = []
        if found is not None and not found.fenced:
            epoch = found.registration.broker_epoch
            records.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=1))
        return _decided(ticket, records, None, f"the life of node {node_id} is over")

    def forget_broker(self, ticket: Ticket[Forgotten], node_id: int) -> Outcome[Forgotten]:
        """Forget a node whose life is over. Kafka forgets one that lives, too, which then serves no more."""
        found, records = self.image.brokers.get(node_id), list[object]()
        answer = Forgotten.DONE
        if found is None:
            answer = Forgotten.NOT_KNOWN
        elif not found.fenced:
            answer = Forgotten.LIVES
        else:
            epoch = found.registration.broker_epoch
            records.append(UnregisterBrokerRecord(broker_id=node_id, broker_epoch=epoch))
        return _decided(ticket, records, answer, f"node {node_id} is to be forgotten")

    def move_leaders(self, ticket: Ticket[int], living: Sequence[int], limit: int) -> Outcome[int]:
        """Give partitions to other nodes, so that living ones lead all of them and lead as many each. Answers how many,
        `limit` at most; 0 where all is as it should be."""
        some = islice(moves(self.image, living), limit)
        return self.elect(ticket, [(topic.topic_id, index, node) for topic, index, node in some])

    def elect(self, ticket: Ticket[int], named: Sequence[tuple[bytes, int, int]]) -> Outcome[int]:
        """Give some partitions (topic id, index) to nodes, all under one epoch, above those that they have: that of the
        latest start, or the next one. Answers how many: those that are gone are passed over."""
        by_id = self.image.by_id
        moved = {
            (topic_id, index): node
            for topic_id, index, node in named
            if topic_id in by_id and index < by_id[topic_id].partition_count
        }
        highest = max((by_id[topic_id].leaders.epoch(index) for topic_id, index in moved), default=-1)
        epoch = max(self.image.epoch, highest + 1)
        records = [leader_change(topic_id, index, node, epoch) for (topic_id, index), node in moved.items()]
        return _decided(ticket, records, len(records), "partitions are led by other nodes")

    def create_topics(
        self,
        ticket: Ticket[list[CreatableTopicResult]],
        topics: Iterable[Planned[CreatableTopic]],
        rules: Rules,
        *,
        fresh_id: Callable[[], bytes],
        validate_only: bool = False,
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[CreatableTopicResult]]:
        """Answers a list of `CreatableTopicResult`, for as many of the topics as there was time."""
        decided = Decided()
        results = create(self.image, topics, rules, fresh_id, decided, spent, validate_only=validate_only)
        return _decided(ticket, decided.records, results, "create topics")

    def create_wide(
        self, ticket: Ticket[list[CreatableTopicResult] | None], topic: CreatableTopic, rules: Rules, wide: WideBatch
    ) -> Outcome[list[CreatableTopicResult] | None]:
        """Append what was built for the topic. Answers a list of its `CreatableTopicResult`, or None if it is to be
        decided anew."""
        try:
            same = decide_creation(self.image, topic, rules)[0] == len(wide.indexes)
            same = same and self._is_next(wide, rules)
        except Refused:
            same = False
        if not same or wide.topic_id in self.image.by_id:
            return Outcome(answers=[(ticket, None)], reason="what was built does not hold")
        result = [created(self.image, topic, rules, wide.topic_id)]
        return Outcome(block=self._block(wide), answers=[(ticket, result)], reason="create a wide topic")

    def grow_wide(
        self,
        ticket: Ticket[list[CreatePartitionsTopicResult] | None],
        topic: CreatePartitionsTopic,
        rules: Rules,
        wide: WideBatch,
    ) -> Outcome[list[CreatePartitionsTopicResult] | None]:
        """Append what was built for the topic. Answers a list of its `CreatePartitionsTopicResult`, or None if it is to
        be decided anew."""
        try:
            found = decide_growth(self.image, topic, rules)
            same = found.topic_id == wide.topic_id and found.partition_count == wide.indexes.start
            same = same and self._is_next(wide, rules)
        except Refused:
            same = False
        if not same:
            return Outcome(answers=[(ticket, None)], reason="what was built does not hold")
        result = [CreatePartitionsTopicResult(name=topic.name)]
        return Outcome(block=self._block(wide), answers=[(ticket, result)], reason="grow a topic widely")

    def _is_next(self, wide: WideBatch, rules: Rules) -> bool:
        """Whether the epoch of its leaders is still the one that new partitions have, and they live."""
        if not (rules.is_alone or wide.leaders.count_by_node().keys() <= set(self.image.living)):
            return False
        return wide.leaders.highest_epoch() == spread_of(self.image, rules).epoch

    def _block(self, wide: WideBatch) -> Block:
        return Block(wide.batch, lambda offset: self.image.replay_wide(offset, wide))

    def delete_topics(
        self,
        ticket: Ticket[list[DeletableTopicResult]],
        topics: Iterable[Planned[DeleteTopicState]],
        rules: Rules,
        *,
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[DeletableTopicResult]]:
        """Answers a list of `DeletableTopicResult`, for as many of the topics as there was time."""
        decided = Decided()
        results = delete(self.image, topics, rules, decided, spent)
        return _decided(ticket, decided.records, results, "delete topics")

    def create_partitions(
        self,
        ticket: Ticket[list[CreatePartitionsTopicResult]],
        topics: Iterable[Planned[CreatePartitionsTopic]],
        rules: Rules,
        *,
        validate_only: bool = False,
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[CreatePartitionsTopicResult]]:
        """Answers a list of `CreatePartitionsTopicResult`, for as many of the topics as there was time."""
        decided = Decided()
        results = grow(self.image, topics, rules, decided, spent)
        return _decided(ticket, [] if validate_only else decided.records, results, "create partitions")

    def alter_configs(
        self,
        ticket: Ticket[list[AlterationResult]],
        resources: Sequence[AlteredResource],
        rules: Rules,
        times_named: Mapping[tuple[int, str], int],
        *,
        validate_only: bool = False,
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[AlterationResult]]:
        """Answers a list of `AlterationResult`, for as many of the resources as there was time."""
        decided = Decided()
        results = alter(self.image, resources, rules, decided, times_named, spent)
        return _decided(ticket, [] if validate_only else decided.records, results, "alter configs")

    def alter_client_quotas(
        self,
        ticket: Ticket[list[AlteredQuotas]],
        alterations: Sequence[QuotaAlteration],
        times_named: Mapping[Entity, int],
        *,
        validate_only: bool = False,
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[AlteredQuotas]]:
        """Answers a list of `AlteredQuotas`, for as many of the entities as there was time."""
        decided = Decided()
        results = alter_quotas(self.image.quotas, alterations, decided, times_named, spent)
        return _decided(ticket, [] if validate_only else decided.records, results, "alter client quotas")

    def update_features(
        self,
        ticket: Ticket[Refused | None],
        updates: Sequence[FeatureUpdateKey],
        node_id: int,
        *,
        validate_only: bool = False,
    ) -> Outcome[Refused | None]:
        """Answers None, or the `Refused` that keeps all of them from being done."""
        decided = Decided()
        try:
            update(self.image, updates, node_id, decided)
        except Refused as refused:
            return Outcome(answers=[(ticket, refused)], reason="features stay as they are")
        return _decided(ticket, [] if validate_only else decided.records, None, "features are finalised anew")

    def alter_scram_users(
        self,
        ticket: Ticket[list[AlterUserScramCredentialsResult]],
        altered: Sequence[AlteredUser],
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[AlterUserScramCredentialsResult]]:
        """Answers a list of `AlterUserScramCredentialsResult`, for as many of the users as there was time."""
        decided = Decided()
        results = alter_users(self.image.scram_users, altered, decided.records, spent)
        return _decided(ticket, decided.records, results, "alter users of SCRAM")

    def create_acls(
        self,
        ticket: Ticket[list[Refused | None]],
        acls: Sequence[Acl],
        *,
        fresh_id: Callable[[], bytes],
        spent: Callable[[], bool] = never_spent,
    ) -> Outcome[list[Refused | None]]:
        """Answers a list of what was wrong, or None, for as many of the ACLs as there was time."""
        records: list[object] = []
        results = create_acls(self.image.acls, acls, fresh_id, records, spent)
        return _decided(ticket, records, results, "create ACLs")

    def remove_acls(
        self, ticket: Ticket[list[Acl | None]], ids: Sequence[bytes], *, spent: Callable[[], bool] = never_spent
    ) -> Outcome[list[Acl | None]]:
        """Answers a list of what was taken away, None where nothing was, for as many of the ids as there was time."""
        records: list[object] = []
        removed = remove_acls(self.image.acls, ids, records, spent)
        return _decided(ticket, records, removed, "remove ACLs")

    def add_first_users(self, ticket: Ticket[bool], wanted: Sequence[FirstUser]) -> Outcome[bool]:
        """Answers whether they were added: not where there are users already."""
        records = first_users(self.image.scram_users, wanted)
        return _decided(ticket, records, bool(records), "the first users")

    def take_producer_ids(
        self, ticket: Ticket[ProducerIdBlock | ErrorCode], node_id: int, epoch: int, *, passed_over: int = 0
    ) -> Outcome[ProducerIdBlock | ErrorCode]:
        """Answers a `ProducerIdBlock`; UNKNOWN_SERVER_ERROR when the last id of all is gone. `passed_over` ids may have
        been handed out although the log does not say so: a part of it was lost."""
        first = self.image.next_producer_id + passed_over
        if first > LAST_PRODUCER_ID - PRODUCER_ID_BLOCK:
            return Outcome(answers=[(ticket, ErrorCode.UNKNOWN_SERVER_ERROR)], reason="no producer ids are left")
        record = ProducerIdsRecord(broker_id=node_id, broker_epoch=epoch, next_producer_id=first + PRODUCER_ID_BLOCK)
        return _decided(ticket, [record], ProducerIdBlock(first, PRODUCER_ID_BLOCK), "a block of producer ids")

    def look(self, ticket: Ticket[ClusterImage]) -> Outcome[ClusterImage]:
        """Answers the image, once all that it shows is durable."""
        return _decided(ticket, [], self.image, "look")


def _decided(ticket: Ticket[A], messages: Iterable[object], answer: A, reason: str) -> Outcome[A]:
    return Outcome(records=framed(messages), answers=[(ticket, answer)], reason=reason)
