"""What clients stumbled over with other brokers: each is held by a test. Those are here that have no other place."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, infer_broker_version_from_api_versions

from broker.api.api_families import load_handlers
from broker.config.broker_config import BrokerConfig
from protocol.records.batch import read_header
from tests.conformance.quirks import Quirk, quirks
from tests.unit.partition.rig import Rig, plain

RELEASE = (4, 3)
TELEMETRY = (71, 72)


def test_each_is_held_by_tests_that_are_there() -> None:
    assert len(quirks()) == 38
    assert [quirk.says for quirk in quirks() if not quirk.held_by] == []
    assert [named for quirk in quirks() for named in quirk.missing()] == []


def test_what_is_named_and_is_not_there_is_noticed() -> None:
    there = [
        "scenarios/reading.txt: Offsets by time",
        "matrix: gzip",
        "clients/test_groups.py: test_three_members_come_and_go",
    ]
    wrong = [
        "scenarios/reading.txt: Offsets",
        "matrix: zip",
        "clients/test_groups.py: test_three",
        "clients/none.py: test_it",
    ]
    assert Quirk("", there + wrong).missing() == wrong


@pytest.mark.parametrize("epoch", [-1, 0, 77, 2**31 - 1])
def test_the_leader_epoch_of_a_produced_batch_is_replaced(epoch: int) -> None:
    """sarama writes 0, others -1; it is outside the checksum."""
    rig = Rig()
    batch = bytearray(plain(b"v"))
    batch[12:16] = epoch.to_bytes(4, "big", signed=True)
    rig.produce(bytes(batch))
    stored = bytes(rig.log.read(0, 1000, end_offset=1)[0])
    assert read_header(stored).leader_epoch == rig.partition.leader_epoch
    assert stored[16:] == batch[16:]


def test_all_versions_are_those_of_one_release() -> None:
    """kafka-python has a table of what each release of Kafka serves, and guesses a release from some of it.

    It does not list telemetry (KIP-714), which is advertised only where it is wanted.
    """
    served = {entry.api_key: (entry.advertised.start, entry.advertised.stop - 1) for entry in load_handlers().values()}
    assert infer_broker_version_from_api_versions(served) == RELEASE
    kafkas = {int(key): versions for key, versions in BROKER_API_VERSIONS[RELEASE].items()}
    others = {key: versions for key, versions in served.items() if versions != kafkas.get(key)}
    assert others == dict.fromkeys(TELEMETRY, (0, 0))


def test_sessions_may_be_as_short_as_it_is_set() -> None:
    """Suites of clients want a second where the default is six."""
    assert BrokerConfig().get_int("group.min.session.timeout.ms") == 6000
    assert BrokerConfig({"group.min.session.timeout.ms": "1000"}).get_int("group.min.session.timeout.ms") == 1000
