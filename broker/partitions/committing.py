"""What makes that count as committed which was appended: a group commit of syncs, or commits of a shared store."""

from typing import Protocol

from broker.disk.sync_meter import SyncMeter
from broker.partitions.partition import Partition


class Committing(Protocol):
    """That of one node."""

    appends_stay: bool
    """Whether what was appended outlives the process, committed or not: acks=1 promises no less."""
    meter: SyncMeter | None
    """Where cycles are counted, in a broker that is watched."""

    def silence(self) -> str | None:
        """Why nothing may be committed at the moment, in a sentence; None where all is well."""

    def held_up(self) -> str | None:
        """What writers wait for, in a sentence, where everything else goes on; None where all is well."""

    def wrote(self, partition: Partition) -> None:
        """`partition` has grown; it will be committed in the next cycle."""

    def publish(self, partition: Partition) -> None:
        """A writer is about to answer: commit at once what has to wait for nothing."""

    async def wait_until_idle(self) -> None:
        """Until nothing waits to be committed (shutdown)."""

    async def end(self) -> None:
        """An orderly end, when every log is closed. Raises `OSError`."""
