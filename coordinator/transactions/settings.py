"""The settings a transaction coordinator reads, at the moment it needs them: a dynamic change takes effect at once."""

from typing import Protocol


class TransactionSettings(Protocol):
    """What `broker` supplies from its configuration. Kafka's key is named in each docstring."""

    @property
    def expiration_ms(self) -> int:
        """transactional.id.expiration.ms"""

    @property
    def expiry_scan_ms(self) -> int:
        """transaction.remove.expired.transaction.cleanup.interval.ms"""

    @property
    def abort_retry_ms(self) -> int:
        """transaction.abort.timed.out.transaction.cleanup.interval.ms: we abort at the deadline itself, for we know
        it; this is how long we wait before trying again where the log refused."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `__transaction_state` takes: its max.message.bytes."""

    @property
    def cluster_version(self) -> int:
        """The finalised level of transaction.version."""
