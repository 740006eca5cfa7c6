"""PostgreSQL ends connections, or itself, under the load of several nodes: writers wait, and nothing is lost."""

import asyncio
import signal

from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.several_nodes.cluster import WHOLE, SeveralNodes, until
from tests.shared_store.several_nodes.test_transactions import COUNT, filled, look_at_everything
from tests.shared_store.several_nodes.writing import Transforming, Writer
from tests.shared_store.test_a_broker import Nodes
from tests.shared_store.test_broker_process import readiness

CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
)
TIMES = 8 if WHOLE else 2


def test_connections_that_are_ended_and_a_server_that_crashes(nodes: Nodes, postgresql: PostgresqlServer) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("source", "target", "t")
    filled(cluster)
    worker = Transforming(cluster, "source", "target")
    worker.begin()
    with Writer(cluster, "t") as writer:
        for _ in range(TIMES):
            before = worker.committed
            worker.until(lambda: worker.committed >= before + 2, "transactions go on")  # noqa: B023
            assert asyncio.run(postgresql.sql(CONNECTIONS))
            writer.wait_for_more()
        asyncio.run(postgresql.restart())
        writer.wait_for_more()
        worker.until(lambda: worker.moved == COUNT, "all is moved")
    worker.close()
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    look_at_everything(cluster, worker)
    cluster.stop_all()


def test_nobody_is_fenced_for_what_nobody_could_say(nodes: Nodes, postgresql: PostgresqlServer) -> None:
    """The server was away for longer than a node may be silent: whoever reaches it first does not end the others."""
    cluster = SeveralNodes(nodes, has_http=True)
    cluster.make_topics("t")
    with Writer(cluster, "t") as writer:
        writer.wait_for_more()
        postgresql.stop(signal.SIGQUIT)
        try:
            for one in cluster.by_id.values():
                until(lambda: readiness(one)[0] == 503, "it was silent for too long")  # noqa: B023
        finally:
            asyncio.run(postgresql.start())
        writer.wait_for_more()
        for one in cluster.by_id.values():
            until(lambda: readiness(one)[0] == 200, "it is heard again")  # noqa: B023
        writer.wait_for_more()
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    cluster.stop_all()
