"""Arrays that many messages have in common are encoded once for each version, and look as any other."""

from collections.abc import Iterator

import pytest

from protocol.codec import encode_bytes, step_encoder_of
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from protocol.schema import WrittenOnce


def partitions(count: int) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=1,
            leader_epoch=7,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[2],
        )
        for index in range(count)
    ]


def response(*arrays: list[MetadataResponsePartition]) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(name=f"t{number}", topic_id=bytes([number]) * 16, partitions=array)
        for number, array in enumerate(arrays)
    ]
    return MetadataResponse(brokers=[], topics=topics)


def in_steps(message: MetadataResponse, version: int) -> bytes:
    """With a pause wherever there may be one."""

    def steps() -> Iterator[bytes]:
        parts = yield from step_encoder_of(MetadataResponse, version)(message, bytearray(), lambda: True)
        yield b"".join(parts)

    return [step for step in steps() if step is not None][-1]


@pytest.mark.parametrize("version", range(14))
def test_they_look_as_any_other(version: int) -> None:
    plain = [partitions(3), partitions(300), [], partitions(3)]
    once = [WrittenOnce(array) for array in plain]
    wanted = encode_bytes(response(*plain), version)
    for _ in range(2):
        assert encode_bytes(response(*once), version) == wanted
        assert in_steps(response(*once), version) == wanted
    again = [WrittenOnce(array) for array in plain]
    assert in_steps(response(*again), version) == in_steps(response(*again), version) == wanted
    assert [list(array.written) for array in once] == [[version], [version], [], [version]]


def test_each_version_is_written_for_itself() -> None:
    plain, once = partitions(5), WrittenOnce(partitions(5))
    for version in (0, 13, 5, 7, 8, 9, 0, 13):
        assert encode_bytes(response(once, once), version) == encode_bytes(response(plain, plain), version)


def test_what_was_written_is_not_written_again() -> None:
    once = WrittenOnce(partitions(5))
    written = encode_bytes(response(once), 12)
    once.clear()
    once.append(partitions(1)[0])
    assert encode_bytes(response(once), 12)[-30:] == written[-30:], "a promise: it is not changed any more"
