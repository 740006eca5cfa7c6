"""A data folder so deep that the system has little room left for names: topics are refused, the disk does not fail."""

from pathlib import Path
from typing import cast

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import DeleteTopicsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tallystick.process import BrokerProcess
from tests.server.wire import Wire, make_topic, produce

RECORDS = bytes(build_batch([NewRecord(key=None, value=b"x", timestamp_ms=1)]))
PATH_BYTES = 4096
ROOM_BYTES = 200
"""For the names of a folder and of a file in it."""


def deep_folder(folder: Path) -> Path:
    folder = folder.resolve()
    while (left := PATH_BYTES - ROOM_BYTES - len(str(folder))) > 1:
        folder /= "d" * min(left - 1, 100)
    return folder


def test_a_topic_too_long_for_the_folder_is_refused(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path)
    process.data = deep_folder(tmp_path)
    broker = cast(Broker, process)
    longest = ROOM_BYTES - 1 - 64 - len("-99999")
    try:
        for start in range(2):
            process.start()
            with Wire(broker) as wire:
                answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t" * (longest + 1))]), 4)
                assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION  # type: ignore[attr-defined]
            name = str(start) * longest
            make_topic(broker, name)
            with Wire(broker) as wire:
                answer = wire.ask(produce(name, RECORDS), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
                answer = wire.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 4)
                assert answer.responses[0].error_code == 0  # type: ignore[attr-defined]
            assert process.stop() == 0
        log = process.log.read_text()
        assert "Traceback" not in log
        assert "storage failed" not in log
    finally:
        process.close()
