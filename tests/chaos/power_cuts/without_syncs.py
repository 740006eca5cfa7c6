"""The control: a broker whose syncs do nothing, which power cuts have to notice. Takes the options of `serve`."""

import os
import sys
from pathlib import Path

from tallystick.process import BrokerProcess


class WithoutSyncs(BrokerProcess):
    """See the head of this file."""

    def _command(self, ready: Path) -> list[str]:
        _, _, _, _, *options = super()._command(ready)
        return [sys.executable, "-m", "tests.chaos.power_cuts.without_syncs", *options]


def main() -> int:
    os.fdatasync = os.fsync = lambda descriptor: None
    from broker.__main__ import main as serve

    return serve(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
