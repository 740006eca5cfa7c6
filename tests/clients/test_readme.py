"""The README's Python snippets run as they stand; only the address is ours."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


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
