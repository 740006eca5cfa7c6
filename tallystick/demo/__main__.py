"""`python -m tallystick.demo`, and what `tallystick demo` calls."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Run the demo; ends the process with the verdict's status. Says so where the client it needs is not installed."""
    try:
        from tallystick.demo.command import demo
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        sys.exit("the demo needs confluent-kafka: pip install 'tallystick[demo]'")
    demo(list(arguments), prog_name="tallystick demo")


if __name__ == "__main__":
    main(sys.argv[1:])
