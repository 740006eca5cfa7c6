"""The page `docs/commands.md`, made of the commands: `python -m tests.harness.commands_page [--write]`."""

import sys

from distributions.manual.markdown import page
from tests.harness.generated_table import DOCS

PAGE = DOCS / "commands.md"


def main() -> int:
    if "--write" in sys.argv:
        PAGE.write_text(page())
        return 0
    current = PAGE.read_text() == page()
    print(f"{PAGE.name} is {'current' if current else 'out of date: run `make docs`'}")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
