"""Reading a checkpoint's files, wherever Spark keeps them: through Hadoop's file systems, in the driver's JVM.

    LocalFiles     a path of this machine. For sessions without a JVM, and for sinks that `register` has not seen
    HadoopFiles    whatever Spark itself can read (s3a, abfss, dbfs, viewfs, hdfs ...), in the driver's Python process
    SessionFiles   the same in a `foreachBatch` under Spark Connect, which has no JVM: read by a query, as text
    DriversFiles   the same from Spark's other processes on the driver's host, which have no way to the JVM: they ask
                   `FileServer` in the driver's Python process

Rule 1. A checkpoint is the query's or it is refused: its metadata name the query's id, which Spark hands to every task.
Rule 2. What cannot be read raises `SourceOffsetsUnknown`; nobody goes on without it.
"""

import hmac
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_connector.checkpoint import Planned, planned, query_id
from spark_connector.errors import SourceOffsetsUnknown
from spark_connector.lines import Address, LineServer, ask
from tallystick.client.background import fresh_name

_READABLE = re.compile(r"metadata|offsets/\d+")
"""What may be read of a checkpoint."""


class Files(Protocol):
    """Text of a checkpoint's files."""

    def read(self, location: str | None, query: str, name: str) -> str:
        """The file `name` below a checkpoint; without a location that of a query which runs now. Raises
        `SourceOffsetsUnknown`.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """See the head of this file."""

    def read(self, location: str | None, query: str, name: str) -> str:
        if location is None:
            raise SourceOffsetsUnknown(f"where the checkpoint lies is not known here: {_ADVICE}")
        path = location.removeprefix("file:")
        if path.startswith("//"):
            path = "/" + path.lstrip("/")
        if "://" in path:
            raise SourceOffsetsUnknown(f"the checkpoint {location} cannot be read from here: {_ADVICE}")
        try:
            return (Path(path) / name).read_text()
        except (OSError, ValueError) as error:
            raise SourceOffsetsUnknown(f"the checkpoint's {location}/{name} cannot be read: {error}") from error


_ADVICE = (
    "make the formats known with spark_connector.register.register(spark), so that it is read as Spark reads it, and "
    "give checkpointLocation as an option of the sink"
)


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """See the head of this file. Not to be pickled."""

    session: SparkSession

    def read(self, location: str | None, query: str, name: str) -> str:
        try:
            where = location or self._location_of(query)
            return self._text(f"{where.rstrip('/')}/{name}")
        except (Py4JError, PySparkException, OSError, ValueError) as error:
            words = str(error).strip().splitlines()
            raise SourceOffsetsUnknown(
                f"the checkpoint's file {name} ({location or 'of the running query'}) cannot be read: "
                f"{' '.join(words[:2])[:500]}"
            ) from error

    def _location_of(self, query: str) -> str:
        jvm: Any = self.session.sparkContext._jvm
        running = self.session._jsparkSession.sharedState().activeStreamingQueries()  # Of all sessions.
        found = running.get(jvm.java.util.UUID.fromString(query))
        if found is None:
            raise ValueError("it does not run in this driver; give checkpointLocation as an option of the sink")
        return str(found.resolvedCheckpointRoot())

    def _text(self, path: str) -> str:
        jvm: Any = self.session.sparkContext._jvm
        settings = self.session._jsparkSession.sessionState().newHadoopConf()
        at = jvm.org.apache.hadoop.fs.Path(path)
        stream = at.getFileSystem(settings).open(at)
        try:
            return bytes(jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream)).decode()
        finally:
            stream.close()


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """See the head of this file. Not to be pickled."""

    session: Any

    def read(self, location: str | None, query: str, name: str) -> str:
        if location is None:
            raise SourceOffsetsUnknown(f"where the checkpoint lies is not known here: {_ADVICE}")
        path = f"{location.rstrip('/')}/{name}"
        try:
            (row,) = self.session.read.text(path, wholetext=True).collect()
        except (PySparkException, ValueError) as error:
            words = " ".join(str(error).split())[:500]
            raise SourceOffsetsUnknown(f"the checkpoint's {path} cannot be read: {words}") from error
        return str(row.value)


@dataclass(frozen=True, slots=True)
class DriversFiles:
    """See the head of this file. `token` shows that the asker is ours."""

    address: Address
    token: str

    def read(self, location: str | None, query: str, name: str) -> str:
        question = {"token": self.token, "location": location, "query": query, "name": name}
        try:
            answer = ask(self.address, question)
        except (OSError, ValueError) as error:
            raise SourceOffsetsUnknown(
                f"the checkpoint cannot be read: the driver's Python process does not answer at {self.address}: {error}"
            ) from error
        if answer is None or "text" not in answer:
            raise SourceOffsetsUnknown(str((answer or {}).get("error", f"the checkpoint cannot be read: {_ADVICE}")))
        return str(answer["text"])


class FileServer:
    """Reads for processes on this host that know the token. In one thread: each that asks costs the JVM one, too."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="spark-eos-checkpoints")
        self._token = fresh_name()
        self._server = LineServer("127.0.0.1", self._answer, "spark-eos-checkpoints")

    def asked(self) -> DriversFiles:
        """What the askers need."""
        return DriversFiles(("127.0.0.1", self._server.port), self._token)

    def close(self) -> None:
        self._server.close()
        self._reading.shutdown()

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        is_ours = hmac.compare_digest(str(question["token"]), self._token)
        if not is_ours or not _READABLE.fullmatch(question["name"]):
            raise ValueError("no question of ours")
        try:
            asked = (question["location"], str(question["query"]), question["name"])
            return {"text": self._reading.submit(self.files.read, *asked).result()}
        except SourceOffsetsUnknown as error:
            return {"error": str(error)}


_checked: set[tuple[str | None, str]] = set()
"""Checkpoints of which this process knows that they are their query's."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a query. `location` None: where Spark says that it lies."""

    files: Files
    location: str | None
    query: str
    is_told: bool = False
    """Whether nobody but the user says where it lies: what is there may be a copy that was left behind."""

    def planned(self, batch: int) -> Planned:
        """What Spark has planned for a batch that is at work. Raises `SourceOffsetsUnknown`, also for the checkpoint of
        another query.
        """
        if (self.location, self.query) not in _checked:
            self._check()
            _checked.add((self.location, self.query))
        if self.is_told and self._is_done(batch):
            raise SourceOffsetsUnknown(
                f"batch {batch} of query {self.query} is at work, and in {self.location} it is done: that is another "
                "copy of its checkpoint. Give the sink the checkpointLocation that the query has"
            )
        name = f"offsets/{batch}"
        return planned(self.files.read(self.location, self.query, name), f"{self._there}/{name}")

    @property
    def _there(self) -> str:
        return self.location or "the query's checkpoint"

    def _is_done(self, batch: int) -> bool:
        try:
            self.files.read(self.location, self.query, f"commits/{batch}")
        except SourceOffsetsUnknown:
            return False
        return True

    def _check(self) -> None:
        kept = self.files.read(self.location, self.query, "metadata")
        found = query_id(kept, f"{self._there}/metadata")
        if found != self.query:
            raise SourceOffsetsUnknown(
                f"{self._there} is the checkpoint of query {found}, this query's id is {self.query}: give the "
                "sink the checkpointLocation that the query has"
            )


_served: dict[int, FileServer] = {}
"""By the JVM that is asked."""


def files_of(session: Any) -> Files:
    """In the driver's Python process: through its JVM; without one (Spark Connect) the files of this machine."""
    return HadoopFiles(session) if getattr(session, "_jsparkSession", None) is not None else LocalFiles()


def files_for_workers(session: Any) -> Files:
    """What Spark's other processes on this host read with; can be pickled."""
    files = files_of(session)
    if not isinstance(files, HadoopFiles):
        return files
    key = id(session.sparkContext._gateway)
    if key not in _served:
        _served[key] = FileServer(files)
    _served[key].files = files
    return _served[key].asked()
