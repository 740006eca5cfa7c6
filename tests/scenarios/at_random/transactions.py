"""Stories of transactions: clients of both protocols share one transactional id, two partitions and a group. They hold
the identities they were given, and some that are out of date.
"""

from collections.abc import Callable
from random import Random

EPOCHS = (0, 0, 1, 1, 2, 3)
VERSIONS: dict[int, dict[str, tuple[int, ...]]] = {
    0: {"Produce": (9, 11, 11), "EndTxn": (1, 2, 4, 4), "TxnOffsetCommit": (2, 3, 4, 4)},
    1: {"Produce": (10, 11, 12, 12, 13), "EndTxn": (1, 4, 4, 5, 5), "TxnOffsetCommit": (3, 4, 4, 5, 5)},
    2: {"Produce": (12, 12, 13), "EndTxn": (5,), "TxnOffsetCommit": (5,)},
}
"""What clients speak: the classic protocol, both in turns, the new one."""
IN_THE_END = (
    "admin DescribeTransactions tx",
    "admin ListTransactions",
    "dave OffsetFetch g everything require_stable=true",
    "dave OffsetFetch g t-0 t-1 require_stable=true",
    "admin DescribeProducers t-0 t-1",
    "alice Fetch t-0 t-1 read_committed",
    "read t-0",
    "log t-0",
    "log t-1",
    "offsets log g",
    "transaction log tx",
)
LOOKS = (
    "admin DescribeTransactions tx",
    "admin DescribeProducers t-0 t-1",
    "alice Fetch t-0 read_committed",
    "alice ListOffsets t-0=latest read_committed",
    "read t-0",
    "dave OffsetFetch v7 g t-0 t-1 require_stable=true",
    "dave OffsetFetch v9 g everything require_stable=true",
    "dave OffsetFetch v8 g t-0 t-1",
    "dave OffsetDelete t-0 group_id=g",
    "dave DeleteGroups g",
)


class Author:
    """Makes up one story."""

    def __init__(self, seed: int, cluster: int) -> None:
        self.random = Random(seed)
        self.protocol = 0 if cluster == 0 else self.random.choice((0, 1, 1, 2))
        self.calm = self.random.random() < 0.6
        self.clients = ["alice"]
        self.adds = cluster >= 2 and self.protocol > 0

    def story(self) -> list[str]:
        """The steps."""
        calm = 0.3 if self.calm else 1.0
        kinds: list[tuple[float, Callable[[int], str]]] = [
            (10 * calm, self.init),
            (7 * calm, self.come_back),
            (12, self.add),
            (4, self.ask_as_a_broker),
            (20, self.produce),
            (6, self.add_offsets),
            (10, self.commit_offsets),
            (16, self.end),
            (3, lambda number: f"dave OffsetCommit t-0={number} group_id=g"),
            (12, lambda number: self.random.choice(LOOKS)),
        ]
        weights = [weight for weight, _ in kinds]
        chosen = self.random.choices([make for _, make in kinds], weights, k=self.random.randint(12, 36))
        steps = [make(number) for number, make in enumerate(chosen)]
        return ["topic t partitions=2", "alice InitProducerId tx", *steps, *IN_THE_END]

    def who(self) -> tuple[str, str]:
        """A client with what it remembers, or one that says an identity of its own."""
        if self.random.random() < (0.95 if self.calm else 0.75):
            return self.random.choice(self.clients), ""
        return "late", f" transactional_id=tx producer_id=P1 epoch={self.random.choice(EPOCHS)}"

    def version(self, api: str) -> int:
        return self.random.choice(VERSIONS[self.protocol][api])

    def init(self, number: int) -> str:
        client = self.random.choice(("alice", "bob", "carol"))
        if client not in self.clients:
            self.clients.append(client)
        return f"{client} InitProducerId v{self.random.choice((0, 2, 3, 4, 5))} tx"

    def come_back(self, number: int) -> str:
        identity = f"producer_id=P1 epoch={self.random.choice(EPOCHS)}"
        return f"{self.random.choice(self.clients)} InitProducerId v{self.random.choice((3, 4, 5))} tx {identity}"

    def add(self, number: int) -> str:
        client, identity = self.who()
        partitions = self.random.choice(("t-0", "t-1", "t-0 t-1", "t-0 t-1", "t-0 t-7"))
        return f"{client} AddPartitionsToTxn v{self.random.choice((0, 1, 2, 3, 3))} {partitions}{identity}"

    def ask_as_a_broker(self, number: int) -> str:
        verify = "" if self.adds and self.random.random() < 0.5 else " verify_only=true"
        identity = f"transactional_id=tx producer_id=P1 producer_epoch={self.random.choice(EPOCHS)}"
        partitions = self.random.choice(("t-0", "t-1", "t-0 t-1"))
        return f"broker AddPartitionsToTxn v{self.random.choice((4, 5))} {partitions} {identity}{verify}"

    def produce(self, number: int) -> str:
        client, identity = self.who()
        if client == "late" or self.random.random() < 0.3:
            identity += f" seq={self.random.choice((0, 0, 1, 2))}"
        if self.random.random() < 0.06:
            identity = identity.replace(" transactional_id=tx", "") + " transactional=false transactional_id=null"
        return f"{client} Produce v{self.version('Produce')} t-{self.random.choice((0, 0, 1))} m{number}{identity}"

    def add_offsets(self, number: int) -> str:
        client, identity = self.who()
        return f"{client} AddOffsetsToTxn v{self.random.choice((0, 1, 2, 3, 4))} g{identity}"

    def commit_offsets(self, number: int) -> str:
        client, identity = self.who()
        version = self.version("TxnOffsetCommit")
        if version >= 3 and self.random.random() < 0.15:
            identity += " generation=3 member_id=stranger"
        return f"{client} TxnOffsetCommit v{version} t-{self.random.choice((0, 1))}={number} group_id=g{identity}"

    def end(self, number: int) -> str:
        client, identity = self.who()
        return (
            f"{client} EndTxn v{self.version('EndTxn')} {self.random.choice(('commit', 'commit', 'abort'))}{identity}"
        )
