"""What one commit takes of one log in a shared store."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from protocol.schema import Buffer
from storage.shared.replacement import Replacement
from storage.shared.store import LogChange


@dataclass(slots=True)
class SharedFlush:
    """See the head of this file."""

    end_offset: int
    change: LogChange
    """Positions of its runs are those in `batches`."""
    batches: Sequence[Buffer]
    size_bytes: int
    """Of what was appended."""
    is_checkpoint: bool
    replaced_bytes: int = 0
    replacement: Replacement | None = None

    @property
    def shares_commits(self) -> bool:
        """See `storage.log.Log`."""
        return False

    def replace(self, one: Replacement) -> None:
        """Take this along."""
        runs = tuple(replace(run, position=run.position + self.size_bytes) for run in one.runs)
        self.change = replace(self.change, replaced=(one.first_offset, one.last_offset), replacements=runs)
        self.batches = [*self.batches, *one.batches]
        self.replaced_bytes, self.replacement = one.size_bytes, one

    def run(self) -> None:
        """Whoever commits many logs together does what is to be done."""
