"""The README's Python snippets run as they stand; only the address is ours."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

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


def test_the_part_about_tls_runs(tmp_path: Path) -> None:
    found = re.search(r"```sh\n(tallystick certs.*?)```.*?```py\n(.*?)```", README, re.DOTALL)
    assert found is not None
    here = {"certs": str(tmp_path / "certs"), "9093": str(free_port())}
    commands, program = (re.sub("|".join(here), lambda one: here[one.group()], text) for text in found.groups())
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
