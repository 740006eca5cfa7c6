"""A broker without the extra `[security]`: it serves in the open, and says what a guarded listener needs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOT_INSTALLED = "import sys; sys.modules['cryptography'] = sys.modules['joserfc'] = None\n"


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", NOT_INSTALLED + program], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_broker_in_the_open_needs_nothing_more() -> None:
    done = run("import broker.__main__; from broker.api.api_families import load_handlers; load_handlers()")
    assert done.returncode == 0, done.stderr


def test_a_listener_that_speaks_tls_says_what_is_missing() -> None:
    arguments = ["--in-memory", "--listeners", "SSL://127.0.0.1:0"]
    done = run(f"import broker.__main__; sys.exit(broker.__main__.main({arguments}))")
    assert done.returncode == 2, done.stderr
    assert "TLS needs cryptography: pip install 'tallystick[security]'." in done.stderr
    assert "Traceback" not in done.stderr
