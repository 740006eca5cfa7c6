"""Under which sink id a writer writes, by what the control topic knows of its query."""

import pytest

from spark_connector.errors import SinkChanged
from spark_connector.progress import Marker
from spark_connector.sink.identity import Writer, id_by_path, sink_id_of

Q = "4a69fb89"
OLD = id_by_path("/data/invoices")


def sole(named: str | None = None, topic: str | None = "t") -> Writer:
    return Writer(Q, named, topic, is_sole=True)


def one_of_many(topic: str | None, named: str | None = None) -> Writer:
    return Writer(Q, named, topic, is_sole=False)


def marker(batch: int, *topics: str, old: bool = False) -> Marker:
    """`old`: one that names no topics, but has written to them."""
    return Marker(batch, records={topic: {"0": 1} for topic in topics}, topics=None if old else list(topics))


def test_a_new_query_is_named_after_spark_s_own_id() -> None:
    """And not after its checkpoint's path, which has many spellings."""
    assert sink_id_of(sole(), {}, 0) == f"spark-{Q}"
    assert sink_id_of(sole("mine"), {}, 0) == "mine"
    assert sink_id_of(one_of_many("good"), {}, 0) == f"spark-{Q}-good"
    assert sink_id_of(one_of_many(None), {}, 0) == f"spark-{Q}"


@pytest.mark.parametrize("writer", [sole(), one_of_many("t")])
def test_a_query_that_was_named_after_its_path_keeps_that_id(writer: Writer) -> None:
    """Wherever its checkpoint lies now; of several spellings the one that wrote last."""
    assert sink_id_of(writer, {OLD: marker(5, "t", old=True)}, 6) == OLD
    assert sink_id_of(writer, {OLD: marker(5, old=True), "spark-2": marker(7, "t", old=True)}, 8) == "spark-2"
    assert sink_id_of(writer, {OLD: None}, 0) == OLD


def test_a_name_that_is_left_out_is_kept_and_one_that_is_changed_is_refused() -> None:
    known = {"mine": marker(5, "t")}
    assert sink_id_of(sole(), known, 5) == "mine"
    assert sink_id_of(sole("mine"), known, 5) == "mine"
    for writer in (sole("yours"), one_of_many("t", "yours")):
        with pytest.raises(SinkChanged, match="batch 5 of this query is in t already, written by the sink mine"):
            sink_id_of(writer, known, 5)
        assert sink_id_of(writer, known, 6) == "yours"


def test_each_writer_of_a_foreach_batch_has_its_own() -> None:
    """Good rows and dead letters; the second one's first batch is a batch that the first has marked."""
    good, dead = one_of_many("good"), one_of_many("dead")
    ours = f"spark-{Q}-good"
    assert sink_id_of(dead, {ours: marker(3, "good")}, 3, others={ours}) == f"spark-{Q}-dead"
    both = {ours: marker(4, "good"), f"spark-{Q}-dead": marker(3, "dead")}
    assert [sink_id_of(writer, both, 4) for writer in (good, dead)] == list(both)


def test_a_batch_that_another_topic_has_is_not_written_again() -> None:
    """Nobody in this run writes as that sink: so the topic was changed while the batch was in doubt."""
    known = {f"spark-{Q}-old": marker(3, "old")}
    with pytest.raises(SinkChanged, match="is in old already"):
        sink_id_of(one_of_many("new"), known, 3)
    assert sink_id_of(one_of_many("new"), known, 4) == f"spark-{Q}-new"


def test_markers_know_whose_they_are() -> None:
    assert marker(1, "t").is_of("t") and not marker(1, "t").is_of("u") and not marker(1, "t").is_of(None)
    assert marker(1).is_of(None) and not marker(1).is_of("t")
    assert marker(1, "t", old=True).is_of("t") and not marker(1, "t", old=True).is_of("u")
    assert marker(1, old=True).is_of("u"), "an empty batch of an older build says nothing"
    assert Marker.from_bytes(marker(1, "t").to_bytes()) == marker(1, "t")
