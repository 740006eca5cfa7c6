"""One run of the pipelines as a value; the director hands it to the driver as JSON."""

import json
from dataclasses import asdict, dataclass

EOS = "kafka-eos"
STOCK = "kafka"
DELTA = "delta"
PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where, how much, from what seed, and through which source and sink."""

    bootstrap: str
    folder: str
    """Checkpoints, tables and Spark's own files."""
    pipelines: tuple[str, ...]
    seed: int = 1
    scale: float = 1.0
    prefix: str = ""
    """Names of topics, groups and sinks begin with it."""
    source: str = STOCK
    sink: str = EOS
    registry: str = ""
    """Address of the Schema Registry that knows what the changes of cdc look like."""
    table_format: str = PARQUET
    """Of the table of cdc. Delta's jars must be in the session."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Settings":
        fields = json.loads(text)
        return Settings(**fields | {"pipelines": tuple(fields["pipelines"])})

    def topic(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def sink_id(self, query: str) -> str:
        return f"{self.prefix}{query}-pipeline"

    def checkpoint(self, query: str) -> str:
        return f"{self.folder}/checkpoints/{query}"

    def table(self) -> str:
        """Where the table of cdc lies; as Parquet it is a folder for each version."""
        return f"{self.folder}/accounts"

    def size(self, at_scale_one: int) -> int:
        """How many records of a kind there are."""
        return max(1000, int(at_scale_one * self.scale))

    def per_batch(self, at_scale_one: int) -> int:
        """`maxOffsetsPerTrigger`: some 25 micro-batches, more where they would grow too large."""
        return max(250, min(20_000, self.size(at_scale_one) // 25))
