"""The number by which a group sees that its topics have changed, byte by byte as Kafka has it."""

import pytest
from xxhash import xxh3_64_intdigest

from coordinator.groups.consumer.metadata_hash import MetadataHashes, topic_hash
from coordinator.groups.consumer.topics import TopicFacts
from tests.unit.consumer_groups.story import Topics

ID = bytes(range(1, 17))
ID_AS_TWO_NUMBERS = bytes((8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9))


def test_the_bytes_of_a_topic() -> None:
    plain = b"\0" + ID_AS_TWO_NUMBERS + b"t\0\xe9\0" + b"\2\0\0\0" + b"\2\0\0\0"
    first, second = b"\0\0\0\0", b"\1\0\0\0"
    assert topic_hash(TopicFacts("té", ID, 2)) == xxh3_64_intdigest(plain + first + second)
    racks = b"\1\0\0\0" + b"a\0" + b"\1\0\0\0" + b"\2\0\0\0" + b"b\0c\0" + b"\2\0\0\0"
    with_racks = plain + first + racks + second + racks
    assert topic_hash(TopicFacts("té", ID, 2, ("bc", "a"))) == xxh3_64_intdigest(with_racks)


def test_a_name_beyond_the_first_plane_counts_as_two_units() -> None:
    written = b"\0" + ID_AS_TWO_NUMBERS + b"\x3d\xd8\x00\xde" + b"\2\0\0\0" + b"\0\0\0\0"
    assert topic_hash(TopicFacts("\U0001f600", ID, 0)) == xxh3_64_intdigest(written)


def test_the_hash_of_a_group_is_over_those_of_its_topics_by_name_and_has_a_sign() -> None:
    topics = Topics()
    seen = set()
    for number in range(20):
        topics.set(f"t{number}", number)
    hashes = MetadataHashes(topics)
    for number in range(19):
        facts = [topics.by_name(f"t{one}") for one in (number, number + 1)]
        each = [topic_hash(one).to_bytes(8, "little") for one in facts if one is not None]
        in_order = each if f"t{number}" < f"t{number + 1}" else each[::-1]
        found = hashes.of([f"t{number + 1}", f"t{number}", f"t{number}", "nothing"])
        assert found == int.from_bytes(xxh3_64_intdigest(b"".join(in_order)).to_bytes(8, "big"), "big", signed=True)
        seen.add(found < 0)
    assert seen == {False, True}
    assert hashes.of([]) == hashes.of(["nothing"]) == 0


def test_a_topic_is_hashed_once_while_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[TopicFacts] = []

    def counted(topic: TopicFacts) -> int:
        hashed.append(topic)
        return topic_hash(topic)

    monkeypatch.setattr("coordinator.groups.consumer.metadata_hash.topic_hash", counted)
    topics = Topics()
    topics.set("t", 1)
    hashes = MetadataHashes(topics)
    first = hashes.of(["t"])
    assert (hashes.of(["t"]), len(hashed)) == (first, 1)
    topics.set("t", 2)
    second = hashes.of(["t"])
    assert (second != first, len(hashed)) == (True, 2)
    topics.delete("t")
    assert hashes.of(["t"]) == 0
    assert hashes._known == {}, "what is gone is not kept"
