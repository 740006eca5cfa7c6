"""Numbers that groups have of their own, and the bounds of the broker, which may be younger."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.coordination.consumer_groups.settings import ConfiguredConsumerGroups, GroupsOfOneKind
from broker.coordination.share_groups.record_settings import ConfiguredShareRecords
from broker.coordination.share_groups.settings import ConfiguredShareGroups
from broker.coordination.streams_groups.settings import ConfiguredStreamsGroups


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
