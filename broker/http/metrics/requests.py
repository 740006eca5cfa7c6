"""Metrics of requests and syncs: read in the HTTP thread, from numbers that only grow."""

from collections.abc import Callable, Iterator, Sequence

from broker.api.metering.request_meter import STAGES, ApiMeter
from broker.disk.sync_meter import SyncMeter
from broker.http.metrics.metric import Family, Kind, Metric
from broker.process.power_histogram import PowerHistogram, bounds_s, cumulative, quantile_ns
from protocol.errors import ErrorCode

QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)
WINDOW_S = 60.0
"""Quantiles are those of the last one to two of these."""
TOLD_BOUNDS = 2
"""Every so manieth bound of a histogram is told."""

REQUESTS = Metric(
    "kafka_network_requestmetrics_requests_total", Kind.COUNTER, "Requests that were answered.", ("request", "version")
)
ERRORS = Metric(
    "kafka_network_requestmetrics_errors_total",
    Kind.COUNTER,
    "Error codes in answers, each as often as they carried it; NONE counts answers without any.",
    ("request", "error"),
)
_STAGE_NAMES = {
    "queue": ("requestqueuetimems", "From the last byte of a request until it was decoded"),
    "local": ("localtimems", "Until it was answered or had to wait"),
    "remote": ("remotetimems", "While it waited, for a sync or for records"),
    "send": ("responsesendtimems", "From its answer until that was given to the system"),
    "total": ("totaltimems", "All of it"),
}
STAGE_SUMMARIES = {
    stage: Metric(
        f"kafka_network_requestmetrics_{name}",
        Kind.SUMMARY,
        f"{says}, in milliseconds; quantiles of the last one to two minutes.",
        ("request",),
    )
    for stage, (name, says) in _STAGE_NAMES.items()
}
STAGE_HISTOGRAM = Metric(
    "tallystick_request_seconds",
    Kind.HISTOGRAM,
    "How long each stage took of those requests that were timed: queue, local, remote, send, total.",
    ("request", "stage"),
)
FAILED_PRODUCE = Metric(
    "kafka_server_brokertopicmetrics_failedproducerequests_total", Kind.COUNTER, "Produce answers with an error."
)
FAILED_FETCH = Metric(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total", Kind.COUNTER, "Fetch answers with an error."
)
PRODUCE = Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", Kind.COUNTER, "Produce requests.")
FETCH = Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", Kind.COUNTER, "Fetch requests.")
SYNCS = Metric(
    "kafka_log_logflushstats_logflushrateandtimems",
    Kind.SUMMARY,
    "Syncs of one log, in milliseconds; quantiles of the last one to two minutes.",
)
CYCLES = Metric(
    "tallystick_sync_cycle_seconds",
    Kind.HISTOGRAM,
    "Cycles of the group commit, each of which syncs all logs that were written meanwhile.",
)

METRICS = (
    *(REQUESTS, ERRORS, *STAGE_SUMMARIES.values(), STAGE_HISTOGRAM, PRODUCE, FETCH, FAILED_PRODUCE, FAILED_FETCH),
    *(SYNCS, CYCLES),
)

_ERROR_NAMES = {int(code): code.name for code in ErrorCode}


class Windows:
    """Where the numbers stood one to two windows ago, for quantiles of what came since."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before: dict[int, list[int]] = {}
        self._since: dict[int, list[int]] = {}
        self._turned = clock()

    def turn(self) -> None:
        """Called with each scrape."""
        now = self._clock()
        if now - self._turned >= WINDOW_S:
            self._before, self._since, self._turned = self._since, {}, now

    def recent(self, histogram: PowerHistogram) -> Sequence[int]:
        """What it counted in that time."""
        counts = list(histogram.counts)
        self._since.setdefault(id(histogram), counts)
        before = self._before.get(id(histogram))
        return counts if before is None else [now - then for now, then in zip(counts, before, strict=True)]


def families(apis: Sequence[ApiMeter], syncs: SyncMeter, windows: Windows) -> Iterator[Family]:
    """One after the other, so that others may have the interpreter in between."""
    windows.turn()
    used = [api for api in apis if sum(api.requests)]
    yield from _counted(used)
    for stage, metric in STAGE_SUMMARIES.items():
        family = Family(metric)
        for api in used:
            for name in _names(api):
                _summarise(family, _of(api, stage), windows, sum(api.requests), name)
        yield family
    family = Family(STAGE_HISTOGRAM)
    for api in used:
        for stage in STAGES:
            family.add_histogram(_buckets(_of(api, stage)), _of(api, stage).sum_ns / 1e9, api.name, stage)
    yield family
    yield from _of_syncs(syncs, windows)


def _counted(used: list[ApiMeter]) -> Iterator[Family]:
    asked, errors = Family(REQUESTS), Family(ERRORS)
    for api in used:
        for version, count in enumerate(api.requests):
            for name in _names(api):
                if count:
                    asked.add(count, name, str(version))
        without = sum(api.requests) - api.failed
        for name in _names(api):
            errors.add(max(0, without), name, ErrorCode.NONE.name)
            for code, count in list(api.errors.items()):
                errors.add(count, name, _error_name(code))
    yield from (asked, errors)
    for of, total, failed in (("Produce", PRODUCE, FAILED_PRODUCE), ("Fetch", FETCH, FAILED_FETCH)):
        found = next((api for api in used if api.name == of), None)
        for metric, value in (
            (total, sum(found.requests) if found else 0),
            (failed, found.failed if found else 0),
        ):
            family = Family(metric)
            family.add(value)
            yield family


def _of_syncs(syncs: SyncMeter, windows: Windows) -> Iterator[Family]:
    family = Family(SYNCS)
    _summarise(family, syncs.syncs, windows, sum(syncs.syncs.counts))
    yield family
    family = Family(CYCLES)
    family.add_histogram(_buckets(syncs.cycles), syncs.cycles.sum_ns / 1e9)
    yield family


def _names(api: ApiMeter) -> tuple[str, ...]:
    """Kafka tells fetches of consumers apart from those of followers; here are none of the latter."""
    return (api.name, "FetchConsumer") if api.name == "Fetch" else (api.name,)


def _of(api: ApiMeter, stage: str) -> PowerHistogram:
    found = getattr(api, stage)
    assert isinstance(found, PowerHistogram)
    return found


def _summarise(family: Family, histogram: PowerHistogram, windows: Windows, count: int, *labels: str) -> None:
    """Where only some were timed, the others are taken to have taken as long."""
    counts, timed = windows.recent(histogram), sum(histogram.counts)
    quantiles = [(share, quantile_ns(counts, share) / 1e6) for share in QUANTILES]
    family.add_summary(count, histogram.sum_ns / 1e6 * (count / timed if timed else 0), quantiles, *labels)


def _buckets(histogram: PowerHistogram) -> Iterator[tuple[str, int]]:
    told = cumulative(list(histogram.counts))
    for bound, count in list(zip(bounds_s(), told, strict=False))[::TOLD_BOUNDS]:
        yield f"{bound:.9g}", count
    yield "+Inf", told[-1]


def _error_name(code: int) -> str:
    return _ERROR_NAMES.get(code, str(code))
