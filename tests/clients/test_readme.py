"""The README's Python snippets run as they stand; only the address is ours."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.harness.proxy import free_port

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_a_snippet_per_client() -> None:
    for client in ("confluent_kafka", "kafka", "aiokafka", "tallystick"):
        assert any(f"import {client}" in snippet or f"from {client} import" in snippet for snippet in SNIPPETS)


def test_the_snippets_of_the_readme_run(bootstrap: str) -> None:
    for snippet in SNIPPETS:
        program = snippet.replace("127.0.0.1:9092", bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{snippet}\n{done.stderr}"


GUARDED = re.findall(r"```sh\n(tallystick certs.*?)```.*?```py\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("commands", "program"), GUARDED, ids=["certificates", "passwords"])
def test_the_parts_about_guarded_listeners_run(tmp_path: Path, commands: str, program: str) -> None:
    here = {"certs": str(tmp_path / "certs"), "9093": str(free_port()), "9094": str(free_port())}
    commands, program = (re.sub("|".join(here), lambda one: here[one.group()], text) for text in (commands, program))
    make, serve = (shlex.split(line) for line in commands.replace("\\\n", "").strip().splitlines())
    assert make[1] == here["certs"], "the command has the name of the folder"
    make[1] = "certs"
    subprocess.run([sys.executable, "-m", *make], cwd=ROOT, check=True, capture_output=True)
    broker = BrokerProcess(tmp_path, options=serve[2:])
    try:
        broker.start()
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{broker.log_end()}"
    finally:
        broker.close()
