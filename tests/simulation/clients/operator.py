"""An operator of transactions: looks at what is open and aborts it over the head of its producer (KIP-664), and changes
the protocol of the cluster while clients are at work (KIP-1022).
"""

from random import Random

from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducerState,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.simulation.clients.session import Session
from tests.simulation.history import Place
from tests.simulation.world import World

UPGRADE, UNSAFE_DOWNGRADE = 1, 3


class Operator:
    """See the head of this file."""

    def __init__(self, world: World, session: Session, random: Random) -> None:
        self._world = world
        self._session = session
        self._random = random

    async def abort(self) -> None:
        """As `kafka-transactions --abort`: one partition of an open transaction, with what DescribeProducers says."""
        place = await self._place_of_an_open_one()
        if place is None:
            return
        described = await self._session.ask(
            DescribeProducersRequest(topics=[TopicRequest(name=place[0], partition_indexes=[place[1]])]), 0
        )
        open_ones = [
            one for one in described.topics[0].partitions[0].active_producers if one.current_txn_start_offset >= 0
        ]
        if open_ones:
            await self._write_marker(place, self._random.choice(open_ones))

    async def _place_of_an_open_one(self) -> Place | None:
        listed = await self._session.ask(ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[]), 0)
        ids = sorted(one.transactional_id for one in listed.transaction_states)
        if listed.error_code or not ids:
            return None
        chosen = self._random.choice(ids)
        answer = (
            await self._session.ask(DescribeTransactionsRequest(transactional_ids=[chosen]), 0)
        ).transaction_states
        if answer[0].error_code:
            return None
        places = sorted((topic.topic, partition) for topic in answer[0].topics for partition in topic.partitions)
        return self._random.choice(places) if places else None

    async def _write_marker(self, place: Place, producer: ProducerState) -> None:
        version = self._random.choice((1, 2))
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch + (1 if version == 2 else 0),
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=place[0], partition_indexes=[place[1]])],
            coordinator_epoch=max(0, producer.coordinator_epoch),
            transaction_version=2 if version == 2 else 0,
        )
        answer = await self._session.ask(WriteTxnMarkersRequest(markers=[marker]), version)
        code = answer.markers[0].topics[0].partitions[0].error_code
        self._world.history.note("aborted by operator", place, producer.producer_id, producer.producer_epoch, code)
        self._world.hit(f"operator.abort-{ErrorCode(code).name}")
        if not code:
            self._world.hit("admin.aborted")

    async def features(self) -> None:
        """The cluster speaks another level of transactions, up or down."""
        level = self._random.choice((0, 1, 2, 2))
        for kind in (UPGRADE, UNSAFE_DOWNGRADE):
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
            answer = await self._session.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
            self._world.history.note("features", level, kind, answer.error_code)
            if not answer.error_code:
                self._world.hit(f"admin.transaction.version={level}")
                return
