"""Write the pages for `man` into a folder: `python -m distributions.manual FOLDER`."""

import sys
from pathlib import Path

from distributions.manual.roff import pages
from tallystick import __version__


def main(folder: Path) -> None:
    """One file for each command."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(__version__):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
