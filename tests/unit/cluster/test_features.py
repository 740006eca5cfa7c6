"""UpdateFeatures: what may change, what a running Kafka 4.3 says otherwise, and what clients get when.

The sentences were recorded from Kafka 4.3.1.
"""

from pathlib import Path
from typing import Any

import pytest

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.metadata import ApiVersionsRequest
from tests.unit.cluster.cluster_rig import handle, with_node

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TV, MV = "transaction.version", "metadata.version"
PREFIX = "The update failed for all features since the following feature had an error: Invalid update version "
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)


def to(level: int, kind: int = UPGRADE, feature: str = TV) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)


async def update(node: Services, *updates: FeatureUpdateKey, version: int = 2, validate_only: bool = False) -> Any:
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    return await handle(node, request, version)


async def finalized(node: Services) -> tuple[int, int]:
    """(epoch, level of transaction.version), as ApiVersions says."""
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = await handle(node, request, 4)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return answer.finalized_features_epoch, levels.get(TV, 0)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (to(1), f"1 for feature {TV}. {NO_DOWNGRADE}"),
        (to(3), f"3 for feature {TV}. Local controller 1 only supports versions 0-2"),
        (to(-1), f"-1 for feature {TV}. A feature version cannot be less than 0."),
        (to(1, feature="foo"), "1 for feature foo. Local controller 1 does not support this feature."),
        (to(0, feature="foo"), "0 for feature foo. Feature foo not found."),
        (to(0, 9), f"0 for feature {TV}. The controller does not support the given upgrade type."),
        (to(0, 0), f"0 for feature {TV}. The controller does not support the given upgrade type."),
        (to(5, SAFE, MV), f"5 for feature {MV}. Local controller 1 only supports versions 7-29"),
        (
            to(28, SAFE, MV),
            "28 for feature metadata.version. Refusing to perform the requested downgrade because it might delete "
            "metadata information.",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_and_in_which_words(wanted: FeatureUpdateKey, sentence: str) -> None:
    async def story(node: Services) -> None:
        for version in (0, 1, 2):
            answer = await update(node, to(2), wanted, version=version)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.INVALID_UPDATE_VERSION,
                PREFIX + sentence,
            )
            assert answer.results == []
        assert (await finalized(node))[1] == 2

    with_node(story, settings={"node.id": "1"})


def test_levels_change_while_running_and_the_epoch_only_grows() -> None:
    """Clients follow the features of the highest epoch they have heard of (KIP-584)."""

    async def story(node: Services) -> None:
        epochs = []
        for wanted, level in [(to(0, SAFE), 0), (to(2), 2), (to(1, UNSAFE), 1), (to(1), 1), (to(2), 2)]:
            answer = await update(node, wanted)
            assert (answer.error_code, answer.error_message) == (0, None)
            epoch, found = await finalized(node)
            assert found == level
            epochs.append(epoch)
            assert epoch == node.cluster.partition.high_watermark - 1, "the offset of the last record, as in Kafka"
        assert epochs == sorted(epochs) and epochs[0] < epochs[1] < epochs[2] == epochs[3] < epochs[4]
        assert (await update(node, to(2, SAFE))).error_code == 0
        refused = await update(node, to(0, SAFE), validate_only=True)
        assert refused.error_code == 0 and (await finalized(node))[1] == 2

    with_node(story)


def test_old_versions_name_each_feature_in_their_answer() -> None:
    async def story(node: Services) -> None:
        for version, kind in ((0, UPGRADE), (1, UPGRADE)):
            answer = await update(node, to(2, kind), version=version)
            assert [(one.feature, one.error_code, one.error_message) for one in answer.results] == [(TV, 0, "NONE")]
        assert (await update(node, to(2))).results == []
        assert (await update(node)).error_code == 0

    with_node(story)


def test_a_disabled_level_stays_off_after_a_restart(tmp_path: Path) -> None:
    """A start finalises what was never decided, not what was decided to be 0."""

    async def lower(node: Services) -> tuple[int, int]:
        await update(node, to(0, SAFE))
        return await finalized(node)

    epoch, level = with_node(lower, folder=tmp_path)
    later_epoch, later_level = with_node(finalized, folder=tmp_path)
    assert (level, later_level) == (0, 0)
    assert later_epoch > epoch
