"""What became of requests, counted for whoever watches the broker: how many, which errors, how long each stage took.

Stages, in Kafka's words: *queue*, from its last byte until it is decoded; *local*, until it is answered or has to wait;
*remote*, while it waits (for a sync, for records); *send*, until its answer is given to the system. Some of them are
timed (`broker.network.request_timer`), all are counted.

Rule. Counting costs a fiftieth of the cheapest request at most.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.api.metering.answered_errors import ErrorsOf, errors_of
from broker.process.power_histogram import PowerHistogram
from protocol.messages.produce import ProduceResponse

STAGES = ("queue", "local", "remote", "send", "total")


class Timing(Protocol):
    """A request that is timed, on its way."""

    def waits(self) -> None:
        """It was not answered at once."""

    def answered(self) -> None:
        """Its answer is known."""


class ApiMeter:
    """Of the requests of one API. Numbers only grow."""

    __slots__ = (
        "answers", "errors", "failed", "local", "name", "queue", "remote", "requests", "send", "total",
    )  # fmt: skip

    def __init__(self, name: str, versions: int, response: type) -> None:
        self.name = name
        self.requests = [0] * versions
        """By version."""
        self.errors: dict[int, int] = {}
        """By code, each as often as answers carried it."""
        self.failed = 0
        """Answers with an error."""
        self.queue, self.local, self.remote = PowerHistogram(), PowerHistogram(), PowerHistogram()
        self.send, self.total = PowerHistogram(), PowerHistogram()
        self.answers = self._in_a_hurry() if response is ProduceResponse else self._any(errors_of(response))
        """Called with each response that is made, and what times it."""

    def _any(self, codes_of: ErrorsOf) -> Callable[[Timing | None, Any], None]:
        def answers(timing: Timing | None, response: Any) -> None:
            if timing is not None:
                timing.answered()
            if found := codes_of(response):
                self._count(found)

        return answers

    def _in_a_hurry(self) -> Callable[[Timing | None, Any], None]:
        """The same for Produce, of which there are most."""

        def answers(timing: Timing | None, response: Any) -> None:
            if timing is not None:
                timing.answered()
            for topic in response.responses:
                for part in topic.partition_responses:
                    if part.error_code:
                        self._count([one.error_code for each in response.responses for one in each.partition_responses])
                        return

        return answers

    def _count(self, codes: Sequence[int]) -> None:
        self.failed += 1
        for code in codes:
            if code:
                self.errors[code] = self.errors.get(code, 0) + 1
