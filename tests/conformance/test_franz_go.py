"""franz-go (`tests/go`) over TLS, however it is let in, with the rights for one job."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.guarded_programs import do_job
from tests.harness.guarded_place import PASSWORD, USER, WAYS, GuardedPlace, mechanism_of, shown_by

pytestmark = pytest.mark.other_languages
SOURCES = Path(__file__).resolve().parents[1] / "go"
SECONDS = 600


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the modules that `go.sum` knows."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("franz-go needs Go: no go on PATH")
    built = tmp_path_factory.mktemp("go") / "guarded"

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        here = os.environ | {"GOTOOLCHAIN": "local"}
        command = [go, *arguments]
        return subprocess.run(
            command, cwd=SOURCES, env=here, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    brought = run("mod", "download")
    if brought.returncode != 0:
        pytest.skip(f"franz-go cannot be had here: {brought.stderr.strip()[-300:]}")
    done = run("build", "-o", str(built), ".")
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("way", WAYS)
def test_franz_go(program: Path, place: GuardedPlace, way: str, tmp_path: Path) -> None:
    job = place.job()
    shown = shown_by(way)
    settings = {
        "bootstrap": place.broker.bootstrap,
        "authority": str(place.certificates.path("ca")),
        "certificate": str(place.certificates.path(shown)) if shown else "",
        "mechanism": mechanism_of(way) or "",
        "user": USER,
        "password": PASSWORD,
        "token": place.issuer.token(USER),
        "name": job.name,
        "orders": job.orders,
        "invoices": job.invoices,
        "forbidden": job.forbidden,
    }
    written = tmp_path / "settings.json"
    written.write_text(json.dumps(settings))
    do_job([str(program), str(written)], place, job)
