"""The director of one run: topics, a writer per pipeline, one driver with all queries, and faults on the way.

Rule 1. A fault comes only after work has gone on since the one before it; so each hits a pipeline at work, and the
        run ends.
Rule 2. Writers are held back, and let on just before each fault, so that there is work under way whenever one comes.
Rule 3. At the end everything is stopped in order: what is open then was left open by the connector, not by us.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from spark_connector.pipelines.settings import Settings
from tallystick.process import BrokerProcess
from tests.pipelines.batch_log import last_committed
from tests.pipelines.driver_process import DriverProcess
from tests.pipelines.faults import Kind, Strike, workers_below
from tests.pipelines.pipeline import Pipeline, Run
from tests.pipelines.reading import make_topics
from tests.pipelines.stall import Sampler
from tests.pipelines.writer import Writer

PATIENCE_SECONDS = 240.0
_LOOK_SECONDS = 0.05
_AIM_SECONDS = 10.0
_AIM_LOOK_SECONDS = 0.005


class PipelinesFailed(Exception):
    """The run did not come to its end; a verdict would say nothing."""


@dataclass(slots=True)
class Told:
    """What is known of a run while it goes on, and afterwards."""

    written: dict[str, int] = field(default_factory=dict)
    aborted: dict[str, int] = field(default_factory=dict)
    """Transactions of the writers."""
    consumed: dict[str, int] = field(default_factory=dict)
    """Offsets of the source in batches that are done, by pipeline."""
    events: list[tuple[float, str]] = field(default_factory=list)
    strikes: dict[str, int] = field(default_factory=dict)
    recoveries_s: dict[str, list[float]] = field(default_factory=dict)
    """By kind of fault: how long until the next micro-batch was done."""
    batches: list[tuple[str, float, float, int]] = field(default_factory=list)
    """(query, end in seconds since the run began, milliseconds, rows) of each micro-batch that came to its end."""
    restarts: list[str] = field(default_factory=list)
    """Queries that failed and were started again within a driver, and why."""


class Director:
    """See the head of this file. `broker` is None where it is not ours to kill."""

    def __init__(
        self,
        settings: Settings,
        pipelines: Sequence[Pipeline],
        broker: BrokerProcess | None,
        strikes: Sequence[Strike],
        show: Callable[[Told], None],
    ) -> None:
        self.settings = settings
        self.results = Told()
        self.runs = {pipeline.name: Run(settings) for pipeline in pipelines}
        self.began = time.monotonic()
        self.samplers: dict[str, Sampler] = {}
        self._pipelines = pipelines
        self._broker = broker
        self._strikes = strikes
        self._struck = 0
        self._show = show
        self._writers: dict[str, Writer] = {}
        self._driver: DriverProcess | None = None
        self._unfinished = {pipeline.name: pipeline for pipeline in pipelines}

    def run(self) -> None:
        """From empty topics to the last micro-batch."""
        self._prepare()
        self._driver = DriverProcess(self.settings, self._hear)
        self._until(self._all_at_work, "the first micro-batches")
        for strike in self._strikes:
            self._strike(strike)
        self._until(self._all_finished, "the last micro-batch")
        assert self._driver is not None
        self._driver.stop()
        if not self._driver.stopped:
            raise PipelinesFailed(f"the driver did not stop\n{self._driver.log_end()}")

    def close(self) -> None:
        for sampler in self.samplers.values():
            sampler.close()
        if self._driver is not None:
            self._driver.close()
        for writer in self._writers.values():
            writer.close()

    def _prepare(self) -> None:
        settings = self.settings
        taken = make_topics(settings.bootstrap, [topic for one in self._pipelines for topic in one.topics(settings)])
        if taken:
            raise PipelinesFailed(f"the broker already has {', '.join(taken)}: give another --prefix")
        for pipeline in self._pipelines:
            sampler = Sampler(settings.bootstrap, settings.topic(pipeline.sink_topic), self.began)
            sampler.start()
            self.samplers[pipeline.name] = sampler
            topic, plan = settings.topic(pipeline.source_topic), pipeline.transactions(settings)
            writer = Writer(settings.bootstrap, topic, plan, self._gate(pipeline.records(settings)))
            writer.start()
            self._writers[pipeline.name] = writer

    def _gate(self, records: int) -> Callable[[int], bool]:
        def is_open(written: int) -> bool:
            planned = len(self._strikes)
            return self._struck == planned or written * (planned + 1) < records * (self._struck + 1)

        return is_open

    def _hear(self, facts: dict[str, Any]) -> None:
        """In the driver's listening thread."""
        if batch := facts.get("batch"):
            at_s = time.monotonic() - self.began
            self.results.batches.append((batch["query"], at_s, float(batch["ms"]), batch["rows"]))
        if "failed" in facts:
            self.results.restarts.append(f"{facts['failed']}: {facts['why']}")
        if state := facts.get("state"):
            self.runs["windows"].states[state["batch"]] = state["open"]

    # Waiting.

    def _until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait; patience begins anew with every micro-batch."""
        deadline, done = time.monotonic() + seconds, self._consumed()
        while not condition():
            if self._consumed() != done:
                deadline, done = time.monotonic() + seconds, self._consumed()
            if time.monotonic() > deadline:
                raise PipelinesFailed(f"waited {seconds:.0f} s for {what}; {self.results.restarts[-3:]}{self._why()}")
            self._look_after()
            time.sleep(_LOOK_SECONDS)

    def _look_after(self) -> None:
        assert self._driver is not None
        if not self._driver.running:
            raise PipelinesFailed(f"the driver ended by itself{self._why()}")
        for name, writer in self._writers.items():
            if writer.failure is not None:
                raise PipelinesFailed(f"the writer of {name} failed: {writer.failure}")
            self.results.written[name], self.results.aborted[name] = writer.written, writer.aborted
        self._show(self.results)

    def _why(self) -> str:
        return f"\n{self._driver.log_end()}" if self._driver is not None else ""

    def _consumed(self) -> int:
        for pipeline in self._pipelines:
            batch = last_committed(self.settings.checkpoint(pipeline.queries[0]))
            self.results.consumed[pipeline.name] = sum(batch.ends.values()) if batch else 0
        return sum(self.results.consumed.values())

    def _all_at_work(self) -> bool:
        return all(last_committed(self.settings.checkpoint(pipeline.queries[0])) for pipeline in self._pipelines)

    def _all_finished(self) -> bool:
        for name, pipeline in list(self._unfinished.items()):
            writer = self._writers[name]
            self.runs[name].last_written = writer.last
            if writer.finished and pipeline.is_finished(self.runs[name]):
                del self._unfinished[name]
                self._event(f"{name} has read everything")
        return not self._unfinished

    # Faults.

    def _strike(self, strike: Strike) -> None:
        assert self._driver is not None
        driver = self._driver
        self._until(lambda: driver.ready, "the driver")
        self._struck += 1  # The gates open: what is struck is at work, or about to be.
        resume = time.monotonic() + strike.pause_s
        self._until(lambda: time.monotonic() >= resume, "a pause")
        moment = ", in the middle of a write" if strike.aimed and self._aim() else ""
        struck = time.monotonic()
        self.results.strikes[strike.kind.value] = self.results.strikes.get(strike.kind.value, 0) + 1
        self._event(self._hit(strike, driver) + moment)
        before = self._consumed()
        self._until(
            lambda: self._consumed() > before or self._all_finished(),
            f"work going on after the {strike.kind.value} was killed",
        )
        self.results.recoveries_s.setdefault(strike.kind.value, []).append(time.monotonic() - struck)

    def _aim(self) -> bool:
        """Wait until records come into a sink's topic, for a while: a micro-batch is being written then."""
        before = {sampler: sampler.high_watermark for sampler in self.samplers.values()}
        deadline = time.monotonic() + _AIM_SECONDS
        while time.monotonic() < deadline:
            if any(sampler.high_watermark > high for sampler, high in before.items()):
                return True
            self._look_after()
            time.sleep(_AIM_LOOK_SECONDS)
        return False

    def _hit(self, strike: Strike, driver: DriverProcess) -> str:
        """Kill, and start again what does not start by itself; what was done, for the reader."""
        if strike.kind is Kind.BROKER:
            assert self._broker is not None, "planned only where the broker is ours"
            pid, began = self._broker.pid, time.monotonic()
            self._broker.kill()
            self._broker.start()
            after_ms = 1000 * (time.monotonic() - began)
            return f"SIGKILL the broker (pid {pid}); it serves again after {after_ms:.0f} ms"
        if strike.kind is Kind.WORKER:
            assert driver.jvm is not None
            return self._hit_workers(driver.jvm)
        if strike.kind is Kind.JVM:
            driver.kill_jvm()
        else:
            driver.kill_program()
        self._driver = DriverProcess(self.settings, self._hear)
        what = f"JVM (pid {driver.jvm})" if strike.kind is Kind.JVM else f"Python program (pid {driver.pid})"
        return f"SIGKILL the driver's {what}; a new driver, pid {self._driver.pid}"

    def _hit_workers(self, jvm: int) -> str:
        """All of them: most are idle at any time, and nobody misses one of those."""
        struck = []
        for worker in workers_below(jvm):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                struck.append(str(worker))
        return f"SIGKILL the Python workers (pid {', '.join(struck) or 'none'})"

    def _event(self, text: str) -> None:
        self.results.events.append((time.monotonic() - self.began, text))
        self._show(self.results)
