"""No field of a request is the same in all stories, and no version is left out."""

from protocol.messages.groups import HeartbeatRequest
from protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.coverage import stories
from tests.coverage.fields import EXEMPT, Fields, counting, entries, holes, paths_of

SEEDS = 20


def test_every_version_is_asked_and_every_field_varies() -> None:
    """`python -m tests.coverage fields` shows what each has been."""
    with counting() as seen:
        stories.play_all(SEEDS, versions=1)
    assert holes(seen) == []


def test_a_field_that_is_always_the_same_is_a_hole() -> None:
    fields = Fields()
    for member in ("a", "b"):
        fields.see(HeartbeatRequest(group_id="g", generation_id=0, member_id=member), 4)
    found = [hole for hole in holes(fields) if hole.startswith("Heartbeat")]
    assert [hole for hole in found if "version" in hole] == [
        f"Heartbeat: version {version} is never asked" for version in range(4)
    ]
    assert [hole for hole in found if "version" not in hole] == [
        "Heartbeat.group_id: is always 'g'",
        "Heartbeat.generation_id: is always 0",
        "Heartbeat.group_instance_id: is always None",
    ]


def test_a_list_that_never_has_two_entries_is_a_hole() -> None:
    fields = Fields()
    for index in (0, 1):
        partition = DeleteRecordsPartition(partition_index=index, offset=index)
        topic = DeleteRecordsTopic(name=f"t{index}", partitions=[partition])
        fields.see(DeleteRecordsRequest(topics=[topic], timeout_ms=index), 2)
    assert [hole for hole in holes(fields) if hole.startswith("DeleteRecords.")] == [
        "DeleteRecords.topics: has never more than one entry",
        "DeleteRecords.topics.partitions: has never more than one entry",
    ]


def test_exemptions_are_of_what_is_there() -> None:
    known = {entry.name for entry in entries()}
    known |= {f"{entry.name}.{path}" for entry in entries() for path, _ in paths_of(entry.request, entry.versions)}
    assert EXEMPT.keys() <= known
