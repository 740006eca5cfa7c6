"""Random stories can be told, and a seed tells the same one every time; the comparison with Kafka needs Kafka."""

import pytest

from tests.scenarios import at_random
from tests.scenarios.places import virtual


@pytest.mark.parametrize("cluster", [0, 2])
def test_a_seed_tells_one_story_and_we_come_to_its_end(cluster: int) -> None:
    """I44: whatever is asked in whatever order, every step is answered, and what was decided comes to its end."""
    for seed in range(15):
        steps = at_random.Author(seed, cluster).story()
        assert steps == at_random.Author(seed, cluster).story()
        assert len(virtual.play(at_random.scenario(seed, cluster, steps), cluster)) == len(steps)


def test_kafka_is_asked_until_it_says_what_we_say() -> None:
    steps = ["alice InitProducerId tx", "alice EndTxn commit"]
    asked = at_random.patiently(steps, [["=> NONE producer_id=P1"], ["=> INVALID_TXN_STATE"]])
    assert asked == ["alice InitProducerId tx until NONE", "alice EndTxn commit"]
