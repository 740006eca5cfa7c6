"""A short chaos run in each durability mode; `make chaos MINUTES=10` is the long one (I44, I48, I49)."""

from pathlib import Path

import pytest

from tests.chaos.run import Chaos, usable_clients

SECONDS = 6.0


def member(kind: str, client: str) -> dict[str, str]:
    named = {"transactional_id": client} if kind == "transactional" else {}
    return {"kind": kind, "client": client, **named}


@pytest.mark.parametrize(("durability", "clients"), [("fsync", ["librdkafka", "java"]), ("page-cache", ["aiokafka"])])
def test_a_short_run_without_an_anomaly(durability: str, clients: list[str], tmp_path: Path) -> None:
    """In page-cache mode the process dies, the machine does not: nothing acknowledged may be lost either."""
    used = [client for client in clients if client in usable_clients()]
    crew = [member("transactional", client) for client in used]
    crew += [member("idempotent", used[0]), member("reader", "librdkafka")]
    report = Chaos(tmp_path / "run", durability=durability, seed=7).run(SECONDS, crew)
    print(report)
    assert report.violations == []
    assert report.records and sum(report.committed.values())
    assert report.verdict.transactions["ok"] == sum(report.committed.values())
