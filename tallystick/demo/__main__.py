"""`python -m tallystick.demo`."""

import sys

try:
    from tallystick.demo.command import main
except ModuleNotFoundError as missing:
    sys.exit(f"the demo needs {missing.name}: pip install 'tallystick[demo]'")

main(sys.argv[1:])
