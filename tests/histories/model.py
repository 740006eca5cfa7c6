"""Healthy histories by chance: clients of a model of Kafka, step by step.

The steps of all clients interleave, markers are written one by one, acknowledgements are lost, clients die at any step
and others take their transactional ids. What they saw is written down as real clients write it down.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.histories.model_log import ModelPartition, ModelTransaction
from tests.histories.operation import (
    ASSIGN,
    FAIL,
    INFO,
    LOOK,
    NO_OFFSET,
    OK,
    POLL,
    SEND,
    TXN,
    Operation,
    Place,
    Poll,
    Send,
)

TOPIC = "t"
LIMIT = 5


@dataclass(slots=True)
class Client:
    """A process that consumes, and perhaps transacts."""

    name: str
    incarnation: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    operation: Operation | None = None
    transaction: ModelTransaction | None = None
    step: int = 0

    @property
    def process(self) -> str:
        return f"{self.name}/{self.incarnation}"


class Model:
    """See the head of this file. `random` makes all choices."""

    def __init__(self, random: Random, *, partitions: int = 3, transactional: int = 3, plain: int = 1) -> None:
        self.random = random
        self.now = 0
        self.operations: list[Operation] = []
        self.partitions = [ModelPartition() for _ in range(partitions)]
        self.committed: dict[tuple[str, int], int] = {}
        self.decided: list[tuple[str, ModelTransaction]] = []
        """With markers to be written."""
        self._value = 0
        self.transactional = [Client(f"writer-{number}") for number in range(transactional)]
        self.plain = [Client(f"plain-{number}") for number in range(plain)]
        self.readers = [Client(f"reader-{number}") for number in range(2)]
        for client in (*self.transactional, *self.readers):
            self._take_over(client)

    def run(self, steps: int) -> list[Operation]:
        """A history of so many steps, and of the end of everything that is open."""
        for _ in range(steps):
            drawn = self.random.random()
            if drawn < 0.55:
                self._transact(self.random.choice(self.transactional))
            elif drawn < 0.75:
                self._mark_one()
            elif drawn < 0.85 and self.plain:
                self._send_plainly(self.random.choice(self.plain))
            else:
                self._read(self.random.choice(self.readers))
        for client in self.transactional:
            self._take_over(client)
        self._look()
        return self.operations

    def tick(self) -> int:
        self.now += 1
        return self.now

    # -- clients -----------------------------------------------------------------------------------------------

    def _transact(self, client: Client) -> None:
        """One step of a transaction; now and then the client dies there."""
        if client.operation is None:
            self._finish_markers(client.name)
            client.operation = Operation(client.process, TXN, self.tick(), transactional_id=client.name)
            client.transaction, client.step = ModelTransaction(), 0
            return
        if self.random.random() < 0.02:
            self._take_over(client)
            return
        client.step += 1
        if client.step < 5:
            step: Callable[[Client], None] = self.random.choice((self._send, self._send, self._poll_in_transaction))
            step(client)
        else:
            self._end(client)

    def _send(self, client: Client) -> None:
        assert client.operation is not None and client.transaction is not None
        number = self.random.randrange(len(self.partitions))
        client.operation.sends.append(self._appended(number, client.transaction))
        client.transaction.unmarked.add(number)

    def _appended(self, number: int, transaction: ModelTransaction | None) -> Send:
        """A record that may have arrived, and may have been acknowledged."""
        self._value += 1
        send = Send((TOPIC, number), self._value, key="k")
        drawn = self.random.random()
        if drawn < 0.02 and transaction is None:
            return send
        send.offset = self.partitions[number].append(self._value, transaction)
        if drawn > 0.98:
            send.offset = NO_OFFSET if drawn > 0.99 else None
        return send

    def _poll_in_transaction(self, client: Client) -> None:
        """Once in a transaction, as a worker does that sends the offsets with it."""
        assert client.operation is not None and client.transaction is not None
        if client.operation.polls:
            return
        before = dict(client.positions)
        client.operation.polls.append(self._polled(client))
        client.transaction.offsets = {
            number: position for number, position in client.positions.items() if position != before[number]
        }
        group = client.name
        client.operation.offsets = {
            (group, (TOPIC, number)): offset for number, offset in client.transaction.offsets.items()
        }

    def _polled(self, client: Client) -> Poll:
        poll = Poll(self.tick(), 0, [])
        for number, partition in enumerate(self.partitions):
            found, client.positions[number] = partition.read(client.positions[number], LIMIT)
            poll.records += (((TOPIC, number), offset, value) for offset, value in found)
        poll.completed = self.tick()
        return poll

    def _end(self, client: Client) -> None:
        one, transaction = client.operation, client.transaction
        assert one is not None and transaction is not None
        refused = any(send.offset is None for send in one.sends)
        transaction.commit = not refused and self.random.random() < 0.8
        if transaction.commit:
            one.decided = self.tick()
        self.decided.append((client.name, transaction))
        one.outcome = OK if transaction.commit else FAIL
        client.operation = client.transaction = None
        if self.random.random() < 0.05:  # the answer is lost
            one.outcome = INFO if transaction.commit else FAIL
            self.operations.append(one)
            self._take_over(client)
            return
        one.completed = self.tick()
        self.operations.append(one)
        if not transaction.commit:
            self._rewind(client)

    def _rewind(self, client: Client) -> None:
        """To what is committed: what it polled in an aborted transaction is to be polled again."""
        self._finish_markers(client.name)
        now = self.tick()
        positions: dict[Place, int | None] = {}
        for number in range(len(self.partitions)):
            client.positions[number] = self.committed.get((client.name, number), 0)
            positions[TOPIC, number] = client.positions[number]
        self.operations.append(Operation(client.process, ASSIGN, now, now, positions=positions))

    def _take_over(self, client: Client) -> None:
        """Another instance takes the id: what is undecided is aborted, what is decided is finished first."""
        if client.operation is not None and client.transaction is not None:
            client.operation.outcome = FAIL
            self.operations.append(client.operation)
            client.transaction.commit = False
            self.decided.append((client.name, client.transaction))
            client.operation = client.transaction = None
        client.incarnation += 1
        self._rewind(client)

    def _send_plainly(self, client: Client) -> None:
        one = Operation(client.process, SEND, self.tick())
        for _ in range(self.random.randrange(1, 4)):
            one.sends.append(self._appended(self.random.randrange(len(self.partitions)), None))
        one.completed = self.tick()
        one.outcome = OK if all(send.offset is not None for send in one.sends) else INFO
        self.operations.append(one)

    def _read(self, client: Client) -> None:
        poll = self._polled(client)
        self.operations.append(Operation(client.process, POLL, poll.invoked, poll.completed, polls=[poll]))

    # -- the broker --------------------------------------------------------------------------------------------

    def _mark_one(self) -> None:
        if self.decided:
            self._mark(self.random.randrange(len(self.decided)))

    def _mark(self, index: int) -> None:
        """A marker in one partition, or the offsets."""
        name, transaction = self.decided[index]
        if transaction.unmarked:
            number = self.random.choice(sorted(transaction.unmarked))
            transaction.unmarked.remove(number)
            if transaction in self.partitions[number].open:
                self.partitions[number].mark(transaction)
            return
        if transaction.commit:
            self.committed.update({(name, number): offset for number, offset in transaction.offsets.items()})
        del self.decided[index]

    def _finish_markers(self, name: str) -> None:
        while mine := [index for index, (owner, _) in enumerate(self.decided) if owner == name]:
            self._mark(mine[0])

    def _look(self) -> None:
        """Everything there is, read in both isolation levels."""
        look = Operation("look", LOOK, self.tick())
        places = [(TOPIC, number) for number in range(len(self.partitions))]
        now = self.tick()
        start: dict[Place, int | None] = dict.fromkeys(places, 0)
        self.operations.append(Operation("look", ASSIGN, look.invoked, now, positions=start))
        seen, there = Poll(now, now, []), Poll(now, now, [], committed_only=False)
        for place, partition in zip(places, self.partitions, strict=True):
            end = len(partition.entries)
            seen.records += ((place, *one) for one in partition.read(0, end)[0])
            there.records += ((place, *one) for one in partition.everything())
            look.ends[place] = (0, partition.last_stable_offset, end)
        look.polls = [seen]
        beside = Operation("look at everything", POLL, now, now, polls=[there])
        look.offsets = {(name, (TOPIC, number)): offset for (name, number), offset in self.committed.items()}
        look.completed = self.tick()
        self.operations += [look, beside]
