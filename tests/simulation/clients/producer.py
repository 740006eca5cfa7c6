"""A transactional producer as the Java client is one: TV2 with an epoch per transaction, TV0 with partitions announced
first; which errors are tried again, which abort the transaction, and which end the producer.
"""

import asyncio
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.simulation.clients.keys import keyed
from tests.simulation.clients.sending import RETRIABLE, Batch, Refused, Sender, encode_batch, now_ms
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Claim, Place, Transaction, Write
from tests.simulation.world import World

FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Of a Produce; everything else aborts the transaction."""
COORDINATOR_FATAL = FATAL | {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}


class Fatal(Exception):
    """The producer is of no use any more: fenced, or worse."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {ErrorCode(code).name}")
        self.code = code


class Abortable(Exception):
    """The transaction can only be aborted."""


GIVE_UP_S = 2.0
"""How long a request of a transaction is tried, by who then aborts."""


class TransactionalClient:
    """See the head of this file."""

    def __init__(
        self,
        world: World,
        session: Session,
        random: Random,
        transactional_id: str,
        version: int,
        timeout_ms: int,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self.world = world
        self.session = session
        self.random = random
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self._give_up_s = give_up_s
        self.producer = (-1, -1)
        self.transaction: Transaction | None = None
        self._sequences: dict[Place, int] = {}
        self._added: set[Place | str] = set()
        self._unsure = False
        """A batch of this transaction may or may not be in the log."""
        again = version == 2
        self._again = world.plan.repeat if again else 0.0
        produce = random.choice((12, 13)) if version == 2 else random.choice((7, 9, 10, 11))
        # A late batch of TV0 is known by its sequence alone, and passes for new where its producer was forgotten.
        known = version == 2 or world.history.forgets_producers_ms is None
        again_of_batches = world.plan.repeat if known else 0.0
        self._sender = Sender(
            session, produce, transactional_id, world.topic_ids, give_up_s=give_up_s, again=again_of_batches
        )
        self._end_version = 5 if version == 2 else random.choice((1, 3, 4))
        self._add_version = random.choice((1, 2, 3))
        self._offsets_version = random.choice((5,)) if version == 2 else random.choice((3, 4))

    # -- identity --------------------------------------------------------------------------------------------

    async def claim(self, *, recover: bool = False) -> None:
        """InitProducerId, until there is an identity. With `recover` for the producer that we are (KIP-360)."""
        producer = self.producer if recover else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        while True:
            try:
                answer = await self.session.ask(request, 5 if self.version == 2 else 4)
            except NoAnswer:
                await asyncio.sleep(0.02)
                continue
            self.world.history.note("claimed", self.session.name, answer.error_code, answer.producer_id,
                                    answer.producer_epoch)  # fmt: skip
            if not answer.error_code:
                break
            if answer.error_code not in RETRIABLE:
                raise Fatal("InitProducerId", answer.error_code)
            await asyncio.sleep(0.01)
        self._become((answer.producer_id, answer.producer_epoch))
        self.world.history.claims.append(Claim(self.world.history.time, self.transactional_id, *self.producer))

    def _become(self, producer: tuple[int, int]) -> None:
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()

    # -- a transaction ---------------------------------------------------------------------------------------

    def begin(self) -> Transaction:
        self._added.clear()
        self._unsure = False
        self.transaction = self.world.history.begin(
            self.session.name, self.transactional_id, self.producer, self.version
        )
        return self.transaction

    def prepare(self, place: Place, count: int, source: tuple[Place, int] | None = None) -> Batch:
        """Some new records for a partition."""
        base = self._sequences.get(place, 0)
        writes: list[Write] = [
            self.world.history.write(
                self.session.name,
                place,
                producer=self.producer,
                sequence=base + delta,
                transaction=self.transaction,
                source=source,
                **keyed(self.random, place[0]),
            )
            for delta in range(count)
        ]
        self._sequences[place] = base + count
        data = encode_batch(writes, now_ms=now_ms(self.world), transactional=True, base_sequence=base)
        return Batch(place, writes, data)

    async def send(self, batches: list[Batch]) -> None:
        """Raises `Abortable` or `Fatal`."""
        if self.version < 2:
            await self._add([batch.place for batch in batches])
        try:
            await self._sender.send(batches)
        except Refused as refused:
            self._unsure = True
            self.world.hit(f"transaction.refused-{refused.code}")
            if refused.code in FATAL:
                raise Fatal("Produce", refused.code) from refused
            raise Abortable(str(refused)) from refused
        except NoAnswer as nothing:
            self._unsure = True
            raise Abortable(str(nothing)) from nothing

    async def _add(self, places: list[Place]) -> None:
        wanted = sorted({place for place in places if place not in self._added})
        if not wanted:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in wanted:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=p) for name, p in topics.items()],
        )

        def codes(answer: Any) -> list[int]:
            results = [
                result for topic in answer.results_by_topic_v3_and_below for result in topic.results_by_partition
            ]
            found = [result.partition_error_code for result in results]
            return [code for code in found if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or found

        await self._coordinated("AddPartitionsToTxn", request, self._add_version, codes)
        self._added.update(wanted)

    async def send_offsets(
        self,
        group: str,
        offsets: dict[Place, int],
        *,
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
    ) -> None:
        """Raises `Abortable` or `Fatal`."""
        assert self.transaction is not None
        if self.version < 2 and group not in self._added:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                group_id=group,
            )
            await self._coordinated("AddOffsetsToTxn", request, self._add_version, lambda answer: [answer.error_code])
            self._added.add(group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            self.transaction.offsets[group, topic, partition] = offset
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata="x"
                )
            )
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
        )
        self.world.history.note("send offsets", self.session.name, group, sorted(offsets.items()))
        await self._coordinated(
            "TxnOffsetCommit",
            commit,
            self._offsets_version,
            lambda answer: [result.error_code for topic in answer.topics for result in topic.partitions],
            fatal=COORDINATOR_FATAL - {ErrorCode.INVALID_TXN_STATE},
        )

    async def _coordinated(
        self, what: str, request: object, version: int, codes: Any, fatal: frozenset[int] = COORDINATOR_FATAL
    ) -> None:
        """Send to a coordinator until it has taken the request."""
        deadline = self.world.scheduler.now + self._give_up_s
        pause = 0.01
        while True:
            code = -1
            try:
                answer = await self.session.ask(request, version, again=self._again, promised=lambda _: None)
                code = max(codes(answer), key=lambda code: (code not in RETRIABLE and code != 0, code), default=0)
                self.world.history.note(what, self.session.name, code)
            except NoAnswer:
                pass
            if code == 0:
                return
            self.world.hit(f"{what}.error-{code}")
            if code in fatal:
                raise Fatal(what, code)
            if code != -1 and code not in RETRIABLE:
                raise Abortable(f"{what}: {ErrorCode(code).name}")
            if self.world.scheduler.now > deadline:
                raise Abortable(f"{what}: tried for too long")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)

    async def end(self, *, commit: bool) -> None:
        """EndTxn, until it is decided. Raises `Fatal`, or `Abortable` where a commit has become impossible."""
        transaction = self.transaction
        assert transaction is not None
        if transaction.decision is None:
            transaction.decision = commit
        transaction.decision = transaction.decision or commit
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        time = self.world.history.note("end", self.session.name, transaction.number, commit)
        if commit:
            transaction.decided_at = time
        unanswered = False
        promises: list[Any] = []
        """Answers to second deliveries."""
        while True:
            try:
                answer = await self.session.ask(request, self._end_version, again=self._again, promised=promises.append)
            except NoAnswer:
                unanswered = True
                await asyncio.sleep(0.02)
                continue
            code = answer.error_code
            self.world.history.note("ended", self.session.name, transaction.number, commit, code,
                                    answer.producer_epoch)  # fmt: skip
            self._compare(answer, promises, commit=commit)
            if code == 0:
                break
            self.world.hit(f"end.error-{code}")
            if code not in RETRIABLE:
                if commit and not unanswered and not promises:
                    transaction.outcome = False
                if code == ErrorCode.TRANSACTION_ABORTABLE and commit:
                    raise Abortable("EndTxn")
                raise Fatal("EndTxn", code)
            # Of several nodes one may read it late, become the coordinator, and do it.
            unanswered = unanswered or (code == ErrorCode.NOT_COORDINATOR and len(self.world.ports) > 1)
            await asyncio.sleep(0.01)
        transaction.outcome = commit
        self.world.hit("transaction.committed" if commit else "transaction.aborted")
        self.transaction = None
        if self.version == 2:
            self._become((answer.producer_id, answer.producer_epoch))
        elif self._unsure:
            await self.claim(recover=True)

    def _compare(self, answer: Any, promises: list[Any], *, commit: bool) -> None:
        """Whoever asks twice is told the same, and what either is told is so."""
        told = {(one.producer_id, one.producer_epoch) for one in (answer, *promises) if not one.error_code}
        if len(told) > 1:
            self.world.history.violation(
                f"{self.transactional_id} ended once, and its next identities are {told}", of_promise=True
            )
        if told and self.transaction is not None:
            self.transaction.outcome = commit

    async def abort(self) -> None:
        """After `Abortable`. A transaction of which the broker knows nothing is refused: then a new identity helps."""
        self.world.hit("transaction.given-up")
        await self.end(commit=False)
