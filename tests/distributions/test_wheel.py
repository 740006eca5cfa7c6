"""The sdist, and the wheel built from it, in an environment with nothing else: the command, a broker, the plugin of
pytest. `TALLYSTICK_DISTRIBUTIONS=whole` asks an index for what they require, as users do; otherwise it is linked.
"""

import ast
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick import __version__
from tests.harness.archives import unpack_archive
from tests.harness.empty_environment import PIP, empty_environment
from tests.harness.source_tree import ROOT, copy, names

PARTS = ("protocol", "keystores", "storage", "coordinator", "broker")
PACKAGES = (*PARTS, "spark_connector", "tallystick")
WHOLE = os.environ.get("TALLYSTICK_DISTRIBUTIONS") == "whole"
A_TEST_OF_A_USER = """
from confluent_kafka import Consumer, Producer


def test_orders_are_copied(tallystick):
    producer = Producer({"bootstrap.servers": tallystick.bootstrap, "transactional.id": "copier"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"1")
    producer.commit_transaction()
    tallystick.restart(kill=True)
    reader = Consumer({"bootstrap.servers": tallystick.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    reader.subscribe(["orders"])
    assert reader.poll(30).value() == b"1"
    reader.close()
    tallystick.audit()
"""

A_TEST_BESIDE_THEIR_PACKAGES = """
import broker, coordinator, keystores, protocol, storage


def test_they_are_mine(tallystick):
    assert all(one.MINE for one in (broker, coordinator, keystores, protocol, storage))
    assert tallystick.open_transactions() == []
    tallystick.audit()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from that, and from nothing else."""
    folder = tmp_path_factory.mktemp("built")
    source = copy(folder / "source", "pyproject.toml", "setup.py", "README.md", "LICENSE", *PACKAGES)
    build(source, "sdist", folder)
    (sdist,) = folder.glob("tallystick-*.tar.gz")
    unpack_archive(sdist, folder)
    build(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder)
    return folder


def build(source: Path, what: str, folder: Path) -> None:
    """By the hook of PEP 517 that `pip` and `build` call, with the tools of this environment."""
    hook = f"import sys; from setuptools import build_meta; build_meta.build_{what}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", hook, str(folder)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("tallystick-*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("environment")
    if not WHOLE:
        yield empty_environment(folder, wheel, extras=["console", "http"], beside=["pytest", "confluent-kafka"])
        return
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [*PIP, "--python", str(python), "install", "--quiet"]
    subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements" / "runtime.txt")], check=True)
    subprocess.run([*install, str(wheel), "pytest", "confluent-kafka"], check=True)
    subprocess.run([*PIP, "--python", str(python), "check"], check=True)
    yield python


def test_a_wheel_has_every_file_of_the_packages_and_no_others(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == files_of_a_wheel()


def files_of_a_wheel() -> set[str]:
    """All files of the packages, as they lie in it."""
    known = {name for name in names(*PACKAGES) if not name.endswith("Dockerfile")}
    moved = {f"tallystick/_parts/{name}" if name.startswith(PARTS) else name for name in known}
    return {*moved, "tallystick/_parts/__init__.py"}


def test_nothing_of_a_wheel_imports_what_is_not_in_it_by_that_name(wheel: Path) -> None:
    """`storage` and its like are names of other people's packages there."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/top_level.txt"))
    assert archive.read(metadata).decode().split() == ["spark_connector", "tallystick"]
    for name in archive.namelist():
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(archive.read(name))):
                found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found += [one.name for one in node.names] if isinstance(node, ast.Import) else []
                assert not {one.partition(".")[0] for one in found} & {*PARTS}, name


def test_a_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    said = archive.read(metadata).decode()
    assert f"\nVersion: {__version__}\n" in said
    assert "\nLicense-Expression: Apache-2.0\n" in said
    assert archive.read(metadata.replace("METADATA", "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()


def test_the_sdist_has_what_a_wheel_is_built_from_and_nothing_of_this_machine(built: Path) -> None:
    (sdist,) = built.glob("tallystick-*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    made = {"PKG-INFO", "setup.cfg"}
    known = {*names(*PACKAGES), "pyproject.toml", "setup.py", "README.md", "LICENSE"}
    assert {name for name in held if ".egg-info/" not in name} - made == known


def test_the_command_serves(python: Path, tmp_path: Path) -> None:
    """From a folder with packages of the same names, is healthy, and ends in order."""
    for name in PACKAGES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError")
    serve = [str(python.with_name("tallystick")), "serve", "--data-dir", "data", "--port", "0", "--ready-file", "ready"]
    serve += ["--http", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log)
    try:
        assert broker.stdout is not None
        said = re.search(r"127\.0\.0\.1:\d+", broker.stdout.readline().decode())
        assert said is not None, (tmp_path / "log").read_text()
        assert "tallystick console of 127.0.0.1" in broker.stdout.readline().decode(), (tmp_path / "log").read_text()
        check = [str(python), "-P", str(ROOT / "docker" / "healthcheck.py")]
        listeners = {"KAFKA_LISTENERS": f"PLAINTEXT://{said[0]}"}
        assert subprocess.run(check, cwd=tmp_path, env=listeners, check=False).returncode == 0
    finally:
        broker.terminate()
        status = broker.wait(60)
        broker.stdout.close() if broker.stdout else None
    assert status == 0


def test_the_plugin_of_pytest_is_found(python: Path, tmp_path: Path) -> None:
    passes_as_a_users_test(python, tmp_path, "test_orders.py", A_TEST_OF_A_USER)


def passes_as_a_users_test(python: Path, project: Path, path: str, text: str) -> None:
    """One test, in a file of a user's project."""
    (project / path).write_text(text)
    command = [str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_project_that_is_installed_beside_it_keeps_its_own_packages(python: Path, tmp_path: Path) -> None:
    """As by `pip install -e .` with a folder `src`, which Python looks through after its site-packages."""
    for name in PARTS:
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "tests").mkdir()
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    path = site / "__editable__.shop.pth"
    path.write_text(f"{tmp_path / 'src'}\n")
    try:
        passes_as_a_users_test(python, tmp_path, "tests/test_mine.py", A_TEST_BESIDE_THEIR_PACKAGES)
        listed = [str(python.with_name("tallystick")), "topics", "list", "--bootstrap-server", "127.0.0.1:1"]
        refused = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr, refused.stderr
    finally:
        path.unlink()
