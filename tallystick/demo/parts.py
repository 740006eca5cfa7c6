"""What the writer and the workers have in common: patience with a broker that comes back, and a line to the director.

A part reports by JSON lines on its standard output and hears words on its standard input; when that closes, the
director is gone and the part ends itself.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from confluent_kafka import KafkaException

FENCED_STATUS = 3
"""The exit status of a part that was fenced by its successor."""

QUIET = logging.getLogger("tallystick.demo")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

CLIENT: dict[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 250,
    "retry.backoff.ms": 50,
    "metadata.recovery.strategy": "none",
    "logger": QUIET,
}
"""Settings of every client here: back soon after a broker that was away, and no lines about it on the screen.

librdkafka's default after all brokers were away is to bootstrap anew. It drops its broker handles then, and a
`send_offsets_to_transaction` that waits on one of them waits for good (seen with 2.16); a cluster of one has nothing
to gain from it.
"""


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def end_fenced() -> NoReturn:
    """At once: a fenced producer has nothing left to flush, and its consumer's place is taken."""
    report(fenced=True)
    os._exit(FENCED_STATUS)


class Words:
    """What the director has said so far."""

    def __init__(self) -> None:
        self._heard: set[str] = set()
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            with self._changed:
                self._heard.add(line.strip())
                self._changed.notify_all()
        os._exit(1)

    def heard(self, word: str) -> bool:
        with self._changed:
            return word in self._heard

    def wait_until_heard(self, word: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: word in self._heard)


def until_decided(step: Callable[[float], object]) -> None:
    """Repeat a step of a transaction for as long as the client says that it may be repeated."""
    while True:
        try:
            step(10.0)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
