"""`python -m tests.chaos.cluster --minutes 10 [--seed N] [--bucket] [--namespaces] [--keep]`: one run, of that
length."""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.cluster import namespaces
from tests.chaos.cluster.run import ClusterChaos
from tests.chaos.run import crew, usable_clients
from tests.shared_store.objects import s3_server
from tests.shared_store.postgresql_server import why_not


def main() -> int:
    """Exit status 1 where anything was wrong, or PostgreSQL or the bucket cannot be had."""
    parser = argparse.ArgumentParser(prog="make cluster-chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--bucket", action="store_true", help="records lie in a bucket, which fails, too (versitygw)")
    parser.add_argument(
        "--namespaces", action="store_true", help="nodes have a network, in which packets vanish (root)"
    )
    parser.add_argument("--keep", action="store_true", help="keep logs and histories")
    options = parser.parse_args()
    reason = why_not()
    reason = reason or (s3_server.why_not("versitygw") if options.bucket else None)
    reason = reason or (namespaces.why_not() if options.namespaces else None)
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="tallystick-chaos-cluster-"))
    clients = usable_clients()
    nodes = "three nodes over a bucket" if options.bucket else "three nodes"
    nodes += ", each in a network namespace" if options.namespaces else ""
    print(f"{nodes}, seed {options.seed}, clients {', '.join(clients)}", flush=True)
    chaos = ClusterChaos(folder, seed=options.seed, has_bucket=options.bucket, in_namespaces=options.namespaces)
    report = chaos.befall(options.minutes * 60, crew(clients, ("librdkafka", clients[1])))
    print(report, flush=True)
    if report.violations or options.keep:
        print(f"everything about it is in {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return int(bool(report.violations))


if __name__ == "__main__":
    sys.exit(main())
