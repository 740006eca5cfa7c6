"""A wheel with a compiled core, in an environment with nothing else: it serves, says what it runs, and runs the sources
where they are chosen.

In every run two small modules are compiled; `TALLYSTICK_DISTRIBUTIONS=compiled` takes the whole wheel of
`make dist-compiled`.
"""

import os
import re
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.compiled.tree import PROBLEM, can_compile, modules
from tests.distributions.test_wheel import A_TEST_OF_A_USER, PACKAGES, build, files_of_a_wheel, passes_as_a_users_test
from tests.harness.empty_environment import empty_environment
from tests.harness.source_tree import ROOT, copy

WHOLE = os.environ.get("TALLYSTICK_DISTRIBUTIONS") == "compiled"
SMALL = ["protocol.primitives", "coordinator.deadlines"]
COMPILED = modules() if WHOLE else SMALL

pytestmark = pytest.mark.skipif(not can_compile(), reason=PROBLEM)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if WHOLE:
        (found,) = (ROOT / "dist").glob(f"tallystick-*-cp{sys.version_info[0]}{sys.version_info[1]}-*.whl")
        return found
    folder = tmp_path_factory.mktemp("compiled")
    source = copy(folder / "source", "pyproject.toml", "setup.py", "README.md", "LICENSE", *PACKAGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYSTICK_COMPILE", " ".join(SMALL))
        patch.setenv("TALLYSTICK_COMPILE_LEVEL", "0")
        build(source, "wheel", folder)
    (found,) = folder.glob("tallystick-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_environment(tmp_path_factory.mktemp("environment"), wheel, beside=["pytest", "confluent-kafka"])


def test_the_wheel_has_what_is_compiled_beside_all_sources(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    folder, end = "tallystick/compiled", EXTENSION_SUFFIXES[0]
    compiled = {f"{folder}/tallystick/_parts/{module.replace('.', '/')}{end}" for module in COMPILED}
    assert held == files_of_a_wheel() | compiled | {f"{folder}/tallystick_core__mypyc{end}"}


@pytest.mark.parametrize(("pure", "core"), [("0", "compiled"), ("1", "pure")])
def test_the_server_says_what_it_runs(python: Path, tmp_path: Path, pure: str, core: str) -> None:
    chosen = os.environ | {"TALLYSTICK_PURE": pure}
    command = str(python.with_name("tallystick"))
    said = subprocess.run([command, "--version"], env=chosen, capture_output=True, text=True, check=True).stdout
    assert said.endswith(f"({core} core)\n")
    serve = [command, "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(serve, env=chosen, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert broker.stdout is not None
        line = broker.stdout.readline()
    finally:
        broker.terminate()
        status = broker.wait(60)
        broker.stdout.close() if broker.stdout else None
    assert status == 0 and re.search("durability fsync(; compiled core)?$", line), (tmp_path / "log").read_text()
    assert ("compiled core" in line) == (core == "compiled")


def test_a_transaction_through_a_kill(python: Path, tmp_path: Path) -> None:
    passes_as_a_users_test(python, tmp_path, "test_orders.py", A_TEST_OF_A_USER)
