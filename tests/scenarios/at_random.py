"""Stories made up at random, run against us and a real Apache Kafka: the responses must be equal, field by field.

    python -m tests.scenarios.at_random --version 2 --start 0 --count 400

Clients of both protocols share one transactional id, two partitions and a group. They hold the identities they were
given, and some that are out of date. A story ends at the first step that is answered otherwise. Nothing is kept of it:
what it finds becomes a scenario.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.scenarios import engine
from tests.scenarios.language import NotUnderstood, Scenario, Step
from tests.scenarios.places import virtual
from tests.scenarios.places.sockets import Oracle

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


def scenario(seed: int, cluster: int, steps: Sequence[str]) -> Scenario:
    """As if it stood in a file."""
    numbered = [Step(text, line) for line, text in enumerate(steps)]
    return Scenario(Path("at-random.txt"), f"seed {seed}", [], 1, steps=numbered, versions=(cluster,), clients=cluster)


def patiently(steps: Sequence[str], answers: Sequence[list[str]]) -> list[str]:
    """The steps for Kafka, which makes a client retry where we hold its request (decision 0002)."""
    return [
        f"{step} until {answer[0].split()[1]}" if " InitProducerId " in step else step
        for step, answer in zip(steps, answers, strict=True)
    ]


def is_declared(steps: Sequence[str], ours: Sequence[list[str]], theirs: list[str]) -> bool:
    """Whether the last of these steps differs as a decision says it does."""
    mine, there = ours[-1][0], theirs[0]
    if " EndTxn v5 " in steps[-1]:
        return "PRODUCER_FENCED" in mine and "NONE" in there  # 0008
    repeated = any("log_append_time_ms" in line for answer in ours for line in answer)
    return "OUT_OF_ORDER" in there and "NONE" in mine and repeated  # 0011


def compare(kafka: Oracle, seed: int, cluster: int) -> list[str]:
    """What Kafka answers otherwise, with what led to it."""
    steps = Author(seed, cluster).story()
    ours = virtual.play(scenario(seed, cluster, steps), cluster)
    try:
        theirs = kafka.play(scenario(seed, cluster, patiently(steps, ours)))
    except NotUnderstood as error:
        # An id that hangs there: a marker that was refused with INVALID_PRODUCER_EPOCH (KAFKA-19999).
        return [] if "does not come to its end" in str(error) else [str(error)]
    for last, (mine, there) in enumerate(zip(ours, theirs, strict=True)):
        if sorted(mine) == sorted(there):  # tombstones of a group have no order
            continue
        if is_declared(steps[: last + 1], ours[: last + 1], there):
            return []
        before = [f"{step} | {' / '.join(answer)}" for step, answer in zip(steps[:last], ours[:last], strict=True)]
        return [*before, steps[last], *mine, "Kafka " + there[0], *there[1:]]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.at_random", description=__doc__)
    parser.add_argument("--version", type=int, default=2, help="transaction.version of both clusters: 0 or 2")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    engine.ATTEMPTS = 300
    different = 0
    with tempfile.TemporaryDirectory(prefix="at-random-") as folder:
        kafka = Oracle(Path(folder), arguments.version)
        kafka.process.start()
        try:
            for seed in range(arguments.start, arguments.start + arguments.count):
                found = compare(kafka, seed, arguments.version)
                different += bool(found)
                print("\n    ".join([f"seed {seed}: {'otherwise' if found else 'equal, or as declared'}", *found]))
        finally:
            kafka.process.kill()
    print(f"{arguments.count} stories, {different} undeclared differences")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
