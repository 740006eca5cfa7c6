"""Each client of the matrix tells its stories and sees what the page in docs/compatibility.md says that it sees.

Those of Python always, the others with `make conformance`; one whose toolchain is missing is skipped by name.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.matrix.clients import CLIENTS, Client, Missing
from tests.conformance.matrix.judge import Cell, judge
from tests.conformance.matrix.place import Place
from tests.conformance.matrix.run import tell
from tests.conformance.matrix.seen import KAFKAS, OURS, seen
from tests.conformance.matrix.story import Story, known, stories
from tests.harness.broker import EXTERNAL, KAFKA


def cases() -> list[object]:
    found = []
    for client in CLIENTS.values():
        marks = [] if client.python else [pytest.mark.other_languages]
        found.append(pytest.param(client, marks=marks, id=client.name))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    made = Place(tmp_path_factory.mktemp("matrix"), kafka=KAFKA)
    yield made
    made.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("client", cases())
def test_what_a_client_sees(client: Client, place: Place, tmp_path: Path) -> None:
    try:
        cells = tell(place, client, stories(), tmp_path)
    except Missing as reason:
        pytest.skip(f"{client.name}: {reason}")
    kept = seen(KAFKAS if KAFKA else OURS)[client.name].cells
    other = {
        name: f"{kept[name].mark if name in kept else 'unknown'}, now {cell.mark}: {cell.why}"
        for name, cell in cells.items()
        if name not in kept or cell.mark != kept[name].mark
    }
    assert other == {}, "`python -m tests.conformance.matrix --keep` and `make docs`, if this is right"


def test_each_failure_is_explained_and_no_other() -> None:
    failed = {
        (client, name) for client, of in seen(OURS).items() for name, cell in of.cells.items() if cell.mark == "no"
    }
    assert set(known()) == failed


def test_what_is_seen_with_apache_kafka_is_the_same_or_explained() -> None:
    ours = {(client, name): cell.mark for client, of in seen(OURS).items() for name, cell in of.cells.items()}
    kafkas = {(client, name): cell.mark for client, of in seen(KAFKAS).items() for name, cell in of.cells.items()}
    assert set(known(kafka=True)) == {where for where, mark in kafkas.items() if mark != ours[where]}


@pytest.mark.parametrize("broker", [OURS, KAFKAS])
def test_each_client_has_told_each_story(broker: str) -> None:
    told = {client: set(of.cells) for client, of in seen(broker).items()}
    assert told == {client: {story.name for story in stories()} for client in CLIENTS}


def test_lock_files_name_no_registry_but_the_public_ones() -> None:
    """Those of npm record none (`omit-lockfile-registry-resolved`), Cargo's the index of crates.io."""
    programs = Path(__file__).with_name("matrix") / "programs"
    locks = [path for name in ("package-lock.json", "Cargo.lock", "go.sum") for path in programs.rglob(name)]
    assert len(locks) == 4
    hosts = {found for path in locks for found in re.findall(r"://([^/\"\s]+)", path.read_text())}
    assert hosts == {"github.com"}


STORY = Story(
    name="of a test",
    room="",
    steps=[
        {"do": "produce", "gives": [0, 1]},
        {"do": "read", "gives": [{"value": "v"}]},
        {"do": "finish", "gives": {"error": "fenced"}},
    ],
)
SAW = [[0, 1], [{"key": None, "value": "v", "headers": []}], {"error": "ProducerFencedException: by another"}]


@pytest.mark.parametrize(
    ("observed", "mark"),
    [
        (SAW, "yes"),
        ([[None, None], *SAW[1:]], "yes"),
        ([None, *SAW[1:]], "yes"),
        ([[0, 2], *SAW[1:]], "no"),
        ([[0], *SAW[1:]], "no"),
        ([SAW[0], [], SAW[2]], "no"),
        ([SAW[0], [{"value": "v", "headers": [["a", "1"]]}], SAW[2]], "no"),
        ([*SAW[:2], None], "no"),
        ([*SAW[:2], {"error": "another one"}], "no"),
        ([{"error": "fenced"}], "no"),
        (SAW[:2], "no"),
    ],
)
def test_the_judge(observed: list[object], mark: str) -> None:
    assert judge(STORY, {"observed": observed}).mark == mark
    assert judge(STORY, {"not offered": "why"}) == Cell("absent", "why")
