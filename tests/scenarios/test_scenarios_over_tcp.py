"""The same stories against a real server over TCP, but for those that need virtual time or a power cut. The server
keeps running from one story to the next, and what a story crashes is started again."""

from collections.abc import Callable, Iterator

import pytest

from tests.scenarios import record
from tests.scenarios.language import Scenario, all_scenarios
from tests.scenarios.places.sockets import OurServer

NEEDS = {"time": ("advance", "clock"), "power": ("power",), "faults": record.FAULTS, "disk": record.DISK}


def possible(scenario: Scenario) -> bool:
    """Whether this story can run on a real server. New clusters begin with transaction.version 2."""
    beyond = [word for power, words in NEEDS.items() if power not in OurServer.powers for word in words]
    # Many epochs of a producer take minutes, where nobody can set the stage.
    many = any(" has epoch " in step.text and step.words[:1] != ["wait"] for step in scenario.steps)
    return not many and 2 in scenario.versions and not scenario.is_of_another_broker and not scenario.uses(*beyond)


AT_A_FIRST_START = ("share-groups",)
"""Files whose stories tell of epochs of leaders that nobody has set: 0, as at the first start of a server."""
SCENARIOS = [scenario for scenario in all_scenarios() if possible(scenario)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], OurServer]]:
    """By name, each in a folder of its own."""
    made: dict[str, OurServer] = {}

    def server(name: str) -> OurServer:
        place = made.setdefault(name, OurServer(tmp_path_factory.mktemp("server")))
        if not place.process.running:
            place.process.start()
        return place

    yield server
    for place in made.values():
        place.process.close()


@pytest.mark.xdist_group("scenarios-over-tcp")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_server_answers_as_the_story_says(servers: Callable[[str], OurServer], scenario: Scenario) -> None:
    answers = servers("first start" if scenario.path.stem in AT_A_FIRST_START else "server").play(scenario)
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert answer == step.answer, f"{scenario.path.name}:{step.line}: {step.text}"
