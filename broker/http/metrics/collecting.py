"""One scrape: the broker's loop is asked, a little at a time; all else is read and written in the HTTP thread."""

import asyncio
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric as Exposed

from broker.api.metering.request_meter import ApiMeter
from broker.disk.sync_meter import SyncMeter
from broker.http.metrics import groups, requests, state, store, topics
from broker.http.metrics.metric import Family, Kind, Metric, text_of
from broker.http.metrics.records_behind import CountedRecords
from broker.http.seen_broker import SeenBroker

PATIENCE_S = 20.0
"""How long a scrape waits for the loop: with thousands of partitions it takes many turns."""

OF_THE_PROCESS = tuple(
    Metric(name, kind, says)
    for name, kind, says in (
        ("process_cpu_seconds_total", Kind.COUNTER, "Seconds of processor time."),
        ("process_resident_memory_bytes", Kind.GAUGE, "Memory that is there."),
        ("process_virtual_memory_bytes", Kind.GAUGE, "Memory that is mapped."),
        ("process_open_fds", Kind.GAUGE, "Open descriptors."),
        ("process_max_fds", Kind.GAUGE, "As many as there may be."),
        ("process_start_time_seconds", Kind.GAUGE, "When it was started, in seconds since 1970."),
    )
)
"""Those that Prometheus's own library tells, where the system does."""
METRICS = (*requests.METRICS, *topics.METRICS, *groups.METRICS, *state.METRICS, *store.METRICS, *OF_THE_PROCESS)


MOST_TIMES_REST = 4
LONGEST_REST_S = 1.0


class Rest:
    """Between two scrapes: the interpreter is shared with the broker's loop, and whoever asks a hundred times in a
    second is not to have all of it. Who asks at a scraper's interval never waits."""

    def __init__(self) -> None:
        self._until_s = 0.0

    def left_s(self, now_s: float) -> float:
        """How long the next one is to wait."""
        return max(0.0, self._until_s - now_s)

    def begin(self, now_s: float, took_s: float) -> None:
        """A scrape has ended."""
        self._until_s = now_s + min(MOST_TIMES_REST * took_s, LONGEST_REST_S)


class Collecting:
    """Of one broker. `apis` and `syncs` were given to it before it began to serve."""

    def __init__(self, apis: Sequence[ApiMeter], syncs: SyncMeter) -> None:
        self._apis = apis
        self._syncs = syncs
        self._totals = topics.Totals()
        self._counted = CountedRecords()
        self._windows: requests.Windows | None = None
        self._process = ProcessCollector(registry=CollectorRegistry())
        self._one_at_a_time = asyncio.Lock()
        self._rest = Rest()

    async def scrape(self, broker: SeenBroker) -> bytes:
        """Everything, as text. Between two metrics the interpreter is let go of: the broker's loop does not wait for
        the text."""
        clock = asyncio.get_running_loop().time
        async with self._one_at_a_time:
            if self._windows is None:
                self._windows = requests.Windows(clock)
            await asyncio.sleep(self._rest.left_s(clock()))
            began_s = clock()
            of_topics = await broker.on_loop(lambda: topics.look(broker.services), PATIENCE_S)
            of_groups = await broker.on_loop(lambda: groups.look(broker.services, self._counted), PATIENCE_S)
            of_state = await broker.on_loop(lambda: state.look(broker), PATIENCE_S)
            of_store = await broker.on_loop(lambda: store.look(broker), PATIENCE_S)
            parts = []
            for family in self._families(broker, of_topics, of_groups, of_state, of_store, self._windows):
                parts.append(family.text())
                await asyncio.sleep(0)
            parts += [text_of(one) for one in self._of_the_process()]
            self._rest.begin(clock(), clock() - began_s)
            return b"".join(parts)

    def _families(
        self,
        broker: SeenBroker,
        of_topics: topics.Look,
        of_groups: groups.Look,
        of_state: state.Look,
        of_store: store.Look,
        windows: requests.Windows,
    ) -> Iterator[Family]:
        yield from state.families(broker, of_state)
        yield from requests.families(self._apis, self._syncs, windows)
        yield from topics.families(of_topics, self._totals)
        yield from groups.families(of_groups)
        yield from store.families(of_store)

    def _of_the_process(self) -> Iterator[Exposed]:
        yield from self._process.collect()
