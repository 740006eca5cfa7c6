"""Numbers that groups have of their own, and the bounds of the broker, which may be younger."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.coordination.consumer_groups.settings import ConfiguredConsumerGroups, GroupsOfOneKind
from broker.coordination.share_groups.record_settings import ConfiguredShareRecords
from broker.coordination.share_groups.settings import ConfiguredShareGroups
from broker.coordination.streams_groups.settings import ConfiguredStreamsGroups
from broker.partitions.share.settings import ShareGroupSettings, StartAt


@pytest.mark.parametrize("configured", [ConfiguredConsumerGroups, ConfiguredShareGroups, ConfiguredStreamsGroups])
@pytest.mark.parametrize(
    ("said", "counts"), [(None, 50_000), (45_999, 46_000), (46_000, 46_000), (52_000, 52_000), (52_001, 52_000)]
)
def test_what_a_group_says_counts_within_the_bounds(
    configured: type[GroupsOfOneKind], said: int | None, counts: int
) -> None:
    key, kind = "session.timeout.ms", configured.kind
    config = BrokerConfig(
        {f"group.{kind}.{key}": "50000", f"group.{kind}.min.{key}": "46000", f"group.{kind}.max.{key}": "52000"}
    )
    own = {} if said is None else {f"{kind}.{key}": str(said)}
    groups = configured(config, lambda group_id: own if group_id == "g" else {})
    assert groups.session_timeout_ms("g") == counts
    assert groups.session_timeout_ms("other") == 50_000


@pytest.mark.parametrize(("said", "counts"), [(None, 5), (2, 3), (7, 7), (9, 8)])
def test_so_does_what_it_says_of_its_records(said: int | None, counts: int) -> None:
    config = BrokerConfig({"group.share.min.delivery.count.limit": "3", "group.share.max.delivery.count.limit": "8"})
    own = {} if said is None else {"share.delivery.count.limit": str(said)}
    records = ConfiguredShareRecords(config, lambda group_id: own if group_id == "g" else {})
    assert records.of("g").delivery_count_limit == counts
    assert records.of("other").delivery_count_limit == 5


@pytest.mark.parametrize(("said", "counts"), [(None, 1), (0, 0), (2, 2), (3, 2)])
def test_copies_of_tasks_are_as_many_as_a_group_says_and_the_broker_allows(said: int | None, counts: int) -> None:
    own = {} if said is None else {"streams.num.standby.replicas": str(said)}
    values = {"group.streams.num.standby.replicas": "1", "group.streams.max.standby.replicas": "2"}
    groups = ConfiguredStreamsGroups(BrokerConfig(values), lambda group_id: own if group_id == "g" else {})
    assert (groups.standby_replicas("g"), groups.standby_replicas("other")) == (counts, 1)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, ShareGroupSettings()),
        (
            {
                "share.record.lock.duration.ms": "20000",
                "share.delivery.count.limit": "4",
                "share.partition.max.record.locks": "300",
                "share.isolation.level": "read_committed",
                "share.renew.acknowledge.enable": "FALSE",
                "share.auto.offset.reset": "earliest",
            },
            ShareGroupSettings(20_000, 4, 300, read_committed=True, renew_allowed=False, start_at=StartAt.EARLIEST),
        ),
        (
            {"share.auto.offset.reset": "by_duration:PT1H", "share.renew.acknowledge.enable": "True"},
            ShareGroupSettings(start_at=StartAt.TIMESTAMP, back_ms=3_600_000),
        ),
        ({"share.auto.offset.reset": "latest", "share.isolation.level": "read_uncommitted"}, ShareGroupSettings()),
    ],
)
def test_what_is_said_of_the_records_of_a_share_group(own: dict[str, str], expected: ShareGroupSettings) -> None:
    assert ConfiguredShareRecords(BrokerConfig(), lambda group_id: own).of("g") == expected
