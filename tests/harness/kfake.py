"""kfake, the broker that franz-go has for tests, with the life of `BrokerProcess`: a rival of the benchmarks.

It keeps its state in files (`kfake.DataDir`) and leaves their syncs to the kernel, as Kafka does by default.
"""

from functools import cache
from pathlib import Path

from tests.harness import go_programs
from tests.harness.apache_kafka import ForeignBroker
from tests.harness.proxy import free_port
from tests.harness.source_tree import ROOT

MODULE = "github.com/twmb/franz-go/pkg/kfake"


@cache
def program() -> Path:
    """Built from the pinned version once in a process, so that no start of it waits for the compiler. `GoMissing` where
    it cannot be."""
    return go_programs.built("./kfake", ROOT / "build" / "kfake")


class Kfake(ForeignBroker):
    """One broker in a temporary folder. Raises `GoMissing`."""

    title = "kfake"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, port=free_port())
        self._program = program()

    def _command(self, ready: Path) -> list[str]:
        return [str(self._program), str(self.port), str(self.data)]
