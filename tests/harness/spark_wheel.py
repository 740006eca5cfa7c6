"""The distribution `tallystick-spark`, built from this tree."""

import subprocess
from pathlib import Path

from distributions.spark.__main__ import assemble
from tests.harness.empty_environment import PIP


def build(folder: Path) -> Path:
    """The wheel. Nothing is asked of any index."""
    assemble(folder / "source")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder / "wheels")]
    subprocess.run([*PIP, "wheel", *options, str(folder / "source")], check=True)
    (wheel,) = (folder / "wheels").glob("tallystick_spark-*.whl")
    return wheel
