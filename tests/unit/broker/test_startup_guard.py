"""The way into the server process: nobody's `broker` folder is ever taken for ours, nor ours for theirs."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tallystick import startup_guard

SIBLINGS = startup_guard.SIBLINGS


def fake_installation(folder: Path, *, broken: str = "") -> Path:
    """Copies of our packages that only say where they are."""
    for name in SIBLINGS:
        (folder / name).mkdir(parents=True)
        text = "something else" if name == broken else f"{name}: ours"
        (folder / name / "__init__.py").write_text(f'"""{text}"""\n')
    return folder


def run(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | environment, check=False
    )


def hostile_folder(folder: Path) -> Path:
    """A user's own packages, which happen to be called as ours are."""
    for name in (*SIBLINGS, "tallystick", "uvloop"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('a foreign package was imported')\n")
    return folder


def test_our_packages_win_over_whatever_is_on_the_path(tmp_path: Path) -> None:
    hostile, ours = hostile_folder(tmp_path / "hostile"), fake_installation(tmp_path / "ours")
    script = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("guard", {startup_guard.__file__!r})
guard = importlib.util.module_from_spec(spec); spec.loader.exec_module(guard)
sys.path.insert(0, {str(hostile)!r})
guard.install({str(ours)!r})
import broker, storage, protocol, coordinator, keystores
print(broker.__doc__, storage.__file__)
"""
    done = run(script, PYTHONPATH=str(hostile))
    assert done.stdout.strip() == f"broker: ours {ours / 'storage' / '__init__.py'}", done.stderr


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_foreign_package_is_refused_with_a_message(tmp_path: Path, name: str) -> None:
    fake_installation(tmp_path, broken=name)
    with pytest.raises(startup_guard.Shadowed, match=f"{name}.*not part of Tallystick"):
        startup_guard.install(str(tmp_path))


def test_a_missing_package_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(startup_guard.Shadowed, match="install it again"):
        startup_guard.install(str(tmp_path))


def test_the_server_command_works_in_a_hostile_folder_and_path(tmp_path: Path) -> None:
    hostile = hostile_folder(tmp_path / "hostile")
    done = subprocess.run(
        startup_guard.server_command(["--help"]),
        cwd=hostile,
        env=os.environ | {"PYTHONPATH": str(hostile)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "--data-dir" in done.stdout, done.stderr


@pytest.mark.parametrize(("pure", "taken"), [("0", "compiled"), ("1", "the source")])
def test_what_is_compiled_stands_in_the_place_of_its_source(tmp_path: Path, pure: str, taken: str) -> None:
    """A file of its name is enough to see which is taken: one that is no library cannot be loaded."""
    ours = fake_installation(tmp_path)
    for room in ("storage", "storage/segments"):
        (ours / room).mkdir(exist_ok=True)
        (ours / room / "segment.py").write_text("")
        compiled = ours / "tallystick" / "compiled" / room / f"segment{EXTENSION_SUFFIXES[0]}"
        compiled.parent.mkdir(parents=True, exist_ok=True)
        compiled.write_bytes(b"no library")
        (compiled.parent / "segment.cpython-27m.so").write_bytes(b"of another Python")
    (ours / "storage" / "segments" / "__init__.py").write_text("")
    (ours / "storage" / "log.py").write_text("")
    script = f"""
import sys
sys.path.insert(0, {str(Path(startup_guard.ROOT, "tallystick"))!r})
import startup_guard
startup_guard.install({str(ours)!r})
import storage.log, storage.segments
for name in ("storage.segment", "storage.segments.segment"):
    try:
        __import__(name)
        print("the source")
    except ImportError as error:
        print("compiled" if error.path.endswith({EXTENSION_SUFFIXES[0]!r}) else error)
"""
    done = run(script, TALLYSTICK_PURE=pure)
    assert done.stdout.splitlines() == [taken, taken], done.stderr


def test_importing_tallystick_imports_none_of_the_flat_packages() -> None:
    script = f"""
import sys
sys.path.insert(0, {startup_guard.ROOT!r})
import tallystick
tallystick.Broker
print([name for name in {SIBLINGS!r} if name in sys.modules])
"""
    assert run(script).stdout.strip() == "[]"


def test_freed_memory_is_neither_hoarded_nor_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixing one of glibc's thresholds fixes both; the default of the other is less than one batch that is opened."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    environment = startup_guard.server_environment()
    assert environment["MALLOC_MMAP_THRESHOLD_"] == "4096", "what an operator says stays"
    assert int(environment["MALLOC_TRIM_THRESHOLD_"]) > 1 << 20
