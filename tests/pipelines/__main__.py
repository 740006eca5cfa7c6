"""`python -m tests.pipelines [transfers|windows|cdc|all]`."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Run pipelines; ends the process with the verdict's status. Says so where something it needs is not installed."""
    try:
        from tests.pipelines.command import pipelines
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("confluent_kafka", "pyarrow", "fastavro", "google"):
            raise
        sys.exit(f"the pipelines need {missing.name}: pip install 'tallystick[spark,demo]'")
    pipelines(list(arguments), prog_name="python -m tests.pipelines")


if __name__ == "__main__":
    main(sys.argv[1:])
