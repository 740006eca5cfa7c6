"""A short run of three nodes over PostgreSQL; `make cluster-chaos MINUTES=10` is the long one (I44, I48, I49)."""

from pathlib import Path

import pytest

from tests.chaos.cluster import namespaces
from tests.chaos.cluster.run import ClusterChaos
from tests.chaos.test_chaos import member
from tests.shared_store.objects import s3_server
from tests.shared_store.postgresql_server import why_not

SECONDS = 12.0


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("kind", ["database", "bucket", "namespaces"])
def test_a_short_run_of_three_nodes_without_an_anomaly(tmp_path: Path, kind: str) -> None:
    reasons = {"bucket": lambda: s3_server.why_not("versitygw"), "namespaces": namespaces.why_not}
    if (reason := reasons.get(kind, lambda: None)()) is not None:
        pytest.skip(reason)
    crew = [member("transactional", "librdkafka"), member("transactional", "aiokafka")]
    crew += [member("idempotent", "librdkafka"), member("reader", "aiokafka")]
    chaos = ClusterChaos(tmp_path / "run", seed=7, has_bucket=kind == "bucket", in_namespaces=kind == "namespaces")
    report = chaos.befall(SECONDS, crew)
    print(report)
    assert report.violations == []
    assert report.records and sum(report.committed.values())
    assert report.faults, "something happened to them"
