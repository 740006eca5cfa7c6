"""Metrics of a store that several nodes reach, as this one reaches it: the database, and where objects lie."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.http.metrics.metric import Family, Kind, Metric
from broker.http.seen_broker import SeenBroker
from broker.shared.commits import SharedCommits

SILENT = Metric(
    "tallystick_store_silent_seconds",
    Kind.GAUGE,
    "How long ago the database was asked with success last whether this node lives. Where there is a store.",
)
PENDING = Metric(
    "tallystick_store_pending_bytes",
    Kind.GAUGE,
    "Bytes that are written and not committed yet: beyond tallystick.store.pending.bytes writers are refused. "
    "Where there is a store.",
)
READ = Metric(
    "tallystick_store_memory_bytes",
    Kind.GAUGE,
    "Bytes of logs in memory, to be read: what was committed last, and what was brought for readers, of each up to "
    "tallystick.store.memory.bytes. Where there is a store.",
)
AHEAD = Metric(
    "tallystick_store_read_ahead_bytes",
    Kind.GAUGE,
    "Bytes that are brought, or on their way, before readers ask for them: tallystick.store.read.ahead.bytes at most. "
    "Where there is a store.",
)
BROUGHT = Metric("tallystick_store_uploads_total", Kind.COUNTER, "Objects that were written to the bucket.")
BROUGHT_BYTES = Metric("tallystick_store_upload_bytes_total", Kind.COUNTER, "Their bytes.")
FAILED = Metric(
    "tallystick_store_uploads_failed_total",
    Kind.COUNTER,
    "Writes to the bucket that failed or were not answered; each is made again under another name.",
)
OLDEST = Metric(
    "tallystick_store_upload_oldest_seconds",
    Kind.GAUGE,
    "How long the oldest object that is not in the bucket yet has been under way; 0: there is none.",
)
METRICS = (SILENT, PENDING, READ, AHEAD, BROUGHT, BROUGHT_BYTES, FAILED, OLDEST)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found, with its metric."""

    values: tuple[tuple[Metric, float], ...] = ()


async def look(broker: SeenBroker) -> Look:
    """On the loop; nothing where there is a data folder."""
    commits = broker.node.group_commit
    if not isinstance(commits, SharedCommits):
        return Look()
    in_memory, ahead = commits.read_bytes
    found: list[tuple[Metric, float]] = [
        (SILENT, commits.silent_ms / 1000),
        (PENDING, commits.pending_bytes),
        (READ, in_memory),
        (AHEAD, ahead),
    ]
    if commits.keeps_apart:
        uploads = commits.uploads
        found += [
            (BROUGHT, uploads.brought),
            (BROUGHT_BYTES, uploads.brought_bytes),
            (FAILED, uploads.failed),
            (OLDEST, uploads.oldest_ms / 1000),
        ]
    return Look(tuple(found))


def families(seen: Look) -> Iterator[Family]:
    """See the head of this file."""
    for metric, value in seen.values:
        family = Family(metric)
        family.add(value)
        yield family
