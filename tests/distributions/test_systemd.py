"""The unit of systemd: well-formed, hardened, and a broker lives with what it takes away.

No test starts a service: a service of the machine is nobody's business. With `TALLYSTICK_DISTRIBUTIONS=whole` a broker
runs under strace instead, which refuses each system call that the unit's filter refuses.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from tallystick.process import BrokerProcess
from tests.harness.confluent import make_topic, write
from tests.harness.source_tree import ROOT

UNIT = ROOT / "distributions" / "systemd" / "tallystick.service"
SETTINGS = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
WORST = 1.3
"""Of 10; a service with no hardening has 9.6."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")


def settings(name: str) -> list[str]:
    return [value for key, value in SETTINGS if key == name]


@needs_systemd
def test_systemd_understands_it(tmp_path: Path) -> None:
    """Each line; the program is another, for the real one is not installed."""
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_little_is_left_to_it() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert said is not None, done.stdout + done.stderr
    assert float(said[1]) <= WORST, done.stdout


def test_what_a_broker_needs_is_left_to_it() -> None:
    assert settings("ProcSubset") == [], "/proc/sys/kernel/random/boot_id tells a power cut from a kill"
    assert "AF_UNIX" in settings("RestrictAddressFamilies")[0], "the event loop wakes itself with a pair of sockets"
    assert settings("RestartPreventExitStatus") == ["2"], "it cannot start as configured (docs/operations.md)"
    assert settings("StateDirectory") == [Path(settings("WorkingDirectory")[0]).name]
    assert f"--data-dir {settings('WorkingDirectory')[0]}/" in settings("ExecStart")[0]


def system_calls(name: str) -> set[str]:
    """Those of a set of systemd's, by its own account."""
    command = ["systemd-analyze", "--no-pager", "syscall-filter", name]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [line.strip() for line in said.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {one for part in found for one in (system_calls(part) if part.startswith("@") else {part})}


@needs_systemd
@pytest.mark.skipif(os.environ.get("TALLYSTICK_DISTRIBUTIONS") != "whole", reason="`make dist` asks for it")
@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_a_broker_lives_with_the_system_calls_that_are_left(tmp_path: Path) -> None:
    allowed: set[str] = set()
    for one in settings("SystemCallFilter"):
        for name in one.lstrip("~").split():
            allowed = allowed - system_calls(name) if one.startswith("~") else allowed | system_calls(name)
    assert {"read", "socketpair"} <= allowed
    assert "mount" not in allowed
    assert "setpriority" not in allowed
    known = ",".join(f"?{name}" for name in sorted(allowed))
    refusing = ["strace", "-f", "-qq", "-e", "trace=none", "-e", f"inject=!{known}:error=EPERM", "-o", "/dev/null"]

    class Refused(BrokerProcess):
        def _command(self, ready: Path) -> list[str]:
            return [*refusing, *super()._command(ready)]

    broker = Refused(tmp_path)
    try:
        broker.start()
        make_topic(broker.bootstrap, "orders", partitions=3)
        assert len(write(broker.bootstrap, "orders", [b"one", b"two"]).acknowledged) == 2
    finally:
        # A strace that is killed lets go of the broker, which would go on.
        for one in psutil.Process(broker.pid).children(recursive=True):
            one.kill()
        broker.close()
