"""Writes the source tree of `tallystick-spark` into a folder: `python -m distributions.spark FOLDER`."""

import shutil
import sys
from pathlib import Path

from distributions.spark.vendored import ROOT, sources

HERE = Path(__file__).resolve().parent


def assemble(folder: Path) -> None:
    """The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in sources().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(HERE / name, folder / name)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
