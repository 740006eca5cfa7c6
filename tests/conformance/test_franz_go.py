"""franz-go (`tests/go`) over TLS, however it is let in, with the rights for one job."""

import json
from pathlib import Path

import pytest

from tests.conformance.go_programs import built
from tests.conformance.guarded_programs import do_job
from tests.harness.guarded_place import PASSWORD, USER, WAYS, GuardedPlace, mechanism_of, shown_by

pytestmark = pytest.mark.other_languages


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(".", tmp_path_factory.mktemp("go"))


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
