"""What a checkpoint says: both versions of its offset logs, whose it is, and what cannot be read."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from spark_connector.checkpoint import kafka_offsets, planned
from spark_connector.checkpoint_files import Checkpoint, DriversFiles, FileServer, LocalFiles
from spark_connector.errors import SourceOffsetsUnknown
from spark_connector.lines import ask

QUERY = "4a69fb89-98c5-4235-b064-bef58269633f"
KAFKA = '{"a":{"0":5,"1":7}}'


def checkpoint_in(folder: Path, batch: int, *lines: str, query: str = QUERY) -> str:
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    return str(folder)


def test_offsets_of_all_kafka_sources_of_a_batch(tmp_path: Path) -> None:
    """A stream-stream join has two; a file source has none that count. However the path is written."""
    lines = ("v1", '{"batchTimestampMs":17}', KAFKA, "-", '{"logOffset":3}', '{"a":{"1":6},"b":{"0":1}}')
    location = checkpoint_in(tmp_path, 4, *lines)
    for form in (location, f"{location}/", f"file:{location}", f"file://{location}"):
        found = Checkpoint(LocalFiles(), form, QUERY).planned(4)
        assert found.planned_ms == 17
        assert kafka_offsets(found.sources) == {("a", 0): 5, ("a", 1): 6, ("b", 0): 1}


def test_sources_with_names_are_in_version_2(tmp_path: Path) -> None:
    lines = ("v2", "{}", f"orders:{KAFKA}", "rate_1:24", "empty:-", 'more:{"b":{"0":1}}')
    found = Checkpoint(LocalFiles(), checkpoint_in(tmp_path, 0, *lines), QUERY).planned(0)
    assert found.sources == ['more:{"b":{"0":1}}', f"orders:{KAFKA}", "rate_1:24"]
    assert kafka_offsets(found.sources) == {("a", 0): 5, ("a", 1): 7, ("b", 0): 1}
    assert found.planned_ms == -1


def test_versions_that_are_not_known() -> None:
    for text in ("v9\n{}\n{}", "", "v1", "{}\n{}"):
        with pytest.raises(SourceOffsetsUnknown, match="version"):
            planned(text, "offsets/0")


def test_the_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    location = checkpoint_in(tmp_path, 0, "v1", "{}", KAFKA, query="another")
    with pytest.raises(SourceOffsetsUnknown, match="is the checkpoint of query another"):
        Checkpoint(LocalFiles(), location, QUERY).planned(0)
    (tmp_path / "metadata").write_text("[]")
    with pytest.raises(SourceOffsetsUnknown, match="no query's id"):
        Checkpoint(LocalFiles(), location, QUERY).planned(0)


def test_a_copy_that_was_left_behind_is_refused_where_only_its_user_names_it(tmp_path: Path) -> None:
    """It has the query's id. But a batch that is at work cannot be done."""
    told = Checkpoint(LocalFiles(), checkpoint_in(tmp_path, 7, "v1", "{}", KAFKA), QUERY, is_told=True)
    assert told.planned(7).sources == [KAFKA]
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "7").write_text("v1\n{}")
    with pytest.raises(SourceOffsetsUnknown, match="another copy of its checkpoint"):
        told.planned(7)
    assert Checkpoint(LocalFiles(), str(tmp_path), QUERY).planned(7).sources == [KAFKA]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for location, words in ((str(tmp_path), "cannot be read"), ("s3a://b/c", "register"), (None, "register")):
        with pytest.raises(SourceOffsetsUnknown, match=words):
            Checkpoint(LocalFiles(), location, QUERY).planned(0)


def test_other_processes_ask_the_drivers(tmp_path: Path) -> None:
    """With the token only, and for what a sink needs only."""
    location = checkpoint_in(tmp_path, 3, "v1", "{}", KAFKA)
    server = FileServer(LocalFiles())
    try:
        files = server.asked()
        assert Checkpoint(files, location, QUERY).planned(3).sources == [KAFKA]
        with pytest.raises(SourceOffsetsUnknown, match="offsets/4 cannot be read"):
            Checkpoint(files, location, QUERY).planned(4)
        with pytest.raises(SourceOffsetsUnknown):
            Checkpoint(DriversFiles(files.address, "guessed"), location, QUERY).planned(3)
        for name in ("offsets/../metadata", "../secret", "commits/3", "offsets/3/x"):
            asked = {"token": files.token, "location": location, "query": QUERY, "name": name}
            assert ask(files.address, asked) is None
        assert ask(files.address, {"token": files.token}) is None
    finally:
        server.close()
    with pytest.raises(SourceOffsetsUnknown, match="does not answer"):
        Checkpoint(files, location, QUERY).planned(3)
