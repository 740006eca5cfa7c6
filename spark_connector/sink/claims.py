"""One attempt per lease and partition: who may write to a partition is decided by the driver, first come, first served.

Two attempts of a task would both begin with sequence 0, and the broker would take the second one's batches for
repetitions of the first one's: dropped without a word. Spark starts second attempts when it pleases (retries, lost
executors, speculation), so each attempt asks before its first write to a partition, and only one gets a yes.

    task -> driver   one line of JSON: token of the lease, the task's attempt id, partitions
    driver -> task   one line of JSON: the partitions that another attempt has; none means yes

Rule 1. A claim is for the lease's life: it is not passed on. A refused attempt fails, and the batch is tried again.
Rule 2. A token that is not known is refused everything: its lease is over.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spark_connector.errors import ClaimRefused
from spark_connector.lines import Address, LineServer, ask
from tallystick.client.background import fresh_name


class Claims:
    """The claims of one lease."""

    def __init__(self) -> None:
        self.token = fresh_name()
        self.holders: dict[int, int] = {}
        """By partition, the attempt that may write to it."""
        self._lock = threading.Lock()

    def take(self, attempt: int, partitions: Sequence[int]) -> list[int]:
        """Claim all of these or none. Returns those that others have."""
        with self._lock:
            taken = [partition for partition in partitions if self.holders.get(partition, attempt) != attempt]
            if not taken:
                self.holders.update(dict.fromkeys(partitions, attempt))
            return taken


class ClaimServer:
    """Answers claims in the driver's process, in threads of its own."""

    def __init__(self, bind: str, host: str) -> None:
        self._claims: dict[str, Claims] = {}
        self._server = LineServer(bind, self._answer, "spark-eos-claims")
        self.address: Address = (host, self._server.port)

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        claims, wanted = self._claims.get(asked["token"]), asked["partitions"]
        return {"refused": wanted if claims is None else claims.take(asked["attempt"], wanted)}

    @contextmanager
    def opened(self) -> Iterator[Claims]:
        """Claims for one lease; when this ends every further claim is refused."""
        claims = Claims()
        self._claims[claims.token] = claims
        try:
            yield claims
        finally:
            del self._claims[claims.token]

    def close(self) -> None:
        self._server.close()


def claim(address: Address, token: str, attempt: int, partitions: Sequence[int]) -> None:
    """In a task: ask for partitions. Raises `ClaimRefused`."""
    question = {"token": token, "attempt": attempt, "partitions": list(partitions)}
    try:
        answer = ask(address, question)
    except OSError as error:
        raise ClaimRefused(
            f"the driver does not answer at {address[0]}:{address[1]}: {error}. Tasks must reach the driver's Python "
            "process there (spark.driver.host); if the driver is gone, this attempt is, too"
        ) from error
    refused = list(partitions) if answer is None else answer["refused"]
    if refused:
        raise ClaimRefused(
            f"partitions {refused} belong to another attempt of this task, or the batch is over; nothing was written "
            "to them. The batch is tried again under a new lease"
        )
