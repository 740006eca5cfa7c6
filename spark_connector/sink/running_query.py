"""What a `foreachBatch` knows of the query that calls it, and where tasks reach the process that it runs in.

    classic         the driver's Python process: Spark keeps the query's id and run where its jobs can see them, and the
                    checkpoint is read through the JVM
    Spark Connect   a Python process beside the server, made for one run of the query, with a session of its own over
                    gRPC. There is no JVM and nobody says which query it is, so option checkpointLocation does: its
                    metadata have the id, and a query of that id must run in the session

Rule 1. Who the query is, is known or the batch is refused: markers are kept under its id.
Rule 2. Where Spark says where the query's checkpoint lies, that is believed, and not the option: after a checkpoint was
        copied the option may name the copy that was left behind, which has the same id, and other plans.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_connector.checkpoint import query_id
from spark_connector.checkpoint_files import Checkpoint, SessionFiles, files_of
from spark_connector.errors import BadOption, ConnectorError, SourceOffsetsUnknown

_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
"""Spark puts the jobs of a run of a query in one group."""
_HOST = "127.0.0.1"
"""Of a driver that has no other name."""


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A run of a query, as its `foreachBatch` sees it."""

    query: str
    run: str
    checkpoint: Checkpoint
    bind: str
    host: str
    """Where a server of this process listens, and how executors call it."""
    is_only_one: bool
    """Whether this process is made for this run alone."""


def running_query(session: SparkSession, location: str | None) -> RunningQuery:
    """The query whose batch is at work in this thread; `location` is the option that names its checkpoint. Raises
    `ConnectorError`.
    """
    return _connected(session, location) if _is_connect(session) else _classic(session)


def _is_connect(session: SparkSession) -> bool:
    return getattr(session, "_jsparkSession", None) is None


def _classic(session: SparkSession) -> RunningQuery:
    context = session.sparkContext
    query, run = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_RUN_ID)
    if query is None:
        raise ConnectorError("eos_writer is for foreachBatch of a streaming query: for a batch job use kafka-eos")
    configured = context.getConf()
    host = configured.get("spark.driver.host", _HOST) or _HOST
    bind = configured.get("spark.driver.bindAddress", host) or host
    return RunningQuery(query, str(run), Checkpoint(files_of(session), None, query), bind, host, False)


def _connected(session: Any, location: str | None) -> RunningQuery:
    if location is None:
        raise BadOption(
            "under Spark Connect eos_writer needs option checkpointLocation: nobody tells a foreachBatch there which "
            "query it belongs to. Give it the checkpointLocation that the query has"
        )
    files = SessionFiles(session)
    query = query_id(files.read(location, "", "metadata"), f"{location}/metadata")
    runs = {found.id: found.runId for found in session.streams.active}
    if query not in runs:
        raise SourceOffsetsUnknown(
            f"{location} is the checkpoint of query {query}, which does not run in this session: give eos_writer the "
            "checkpointLocation that the query has"
        )
    host = session.conf.get("spark.driver.host", _HOST)
    bind = session.conf.get("spark.driver.bindAddress", host)
    checkpoint = Checkpoint(files, location, query, is_told=True)
    return RunningQuery(query, runs[query], checkpoint, bind, host, True)
