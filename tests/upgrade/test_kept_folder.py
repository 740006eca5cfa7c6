"""Today's broker on a data folder that was kept as an earlier one wrote it: after an orderly end, as a power cut would
have left it, and out of a backup (users, ACLs and groups of every protocol are in there, too). The answers, to the last
field, are those of the broker that wrote it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.metadata import ApiVersionsRequest
from storage.data_folder import FORMAT_VERSION
from tallystick.client.blocking import BlockingClient
from tests.clients.test_files_without_a_broker import verify
from tests.harness.broker import EXTERNAL, KAFKA
from tests.scenarios.language import read
from tests.server.test_backup import typed
from tests.upgrade.place import FORMAT, KEPT, READ, READING, OnAFolder, unpack
from tests.upgrade.records import check_records

pytestmark = [
    pytest.mark.skipif(KAFKA or bool(EXTERNAL), reason="it is about our files"),
    pytest.mark.xdist_group("kept-folder"),
]
LARGEST_BYTES = 200_000
FEATURES = {
    "group.version": 1,
    "metadata.version": 29,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 1,
}
"""What is finalised in the folder: one of them not as in a new cluster."""


def restored(folder: Path) -> Path:
    """A copy of it that was backed up, and restored in its place."""
    data, backups = unpack(folder), folder / "backups"
    typed("backup", "create", str(backups), "--data-dir", str(data))
    data.rename(folder / "first")
    typed("restore", str(backups), str(data))
    return data


@pytest.fixture(params=["stopped", "cut off", "restored"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OnAFolder]:
    """A broker on a copy, started."""
    data = restored(tmp_path) if request.param == "restored" else unpack(tmp_path)
    if request.param == "cut off":
        (data / ".kafka_cleanshutdown").unlink()
        (data / "tallystick.format").write_text(json.dumps({"version": FORMAT, "boot_id": "another"}) + "\n")
    place = OnAFolder(tmp_path, READING)
    try:
        place.process.start()
        yield place
    finally:
        place.process.close()


def test_there_is_a_folder_of_this_format() -> None:
    """A new number of the format is a reason to keep a folder of it, too."""
    assert FORMAT == FORMAT_VERSION, "python -m tests.upgrade writes one; those of older formats stay"
    assert KEPT.stat().st_size < LARGEST_BYTES


def test_the_folder_is_whole(tmp_path: Path) -> None:
    said = verify("--records", unpack(tmp_path), status=0).stdout
    assert "damage" not in said.replace("no damage", ""), said


def test_everything_in_it_is_found_by_clients(place: OnAFolder) -> None:
    check_records(place.bootstrap, place.guarded)
    with BlockingClient(place.bootstrap) as client:
        told = client.ask(ApiVersionsRequest(client_software_name="reader", client_software_version="1"))
    assert {one.name: one.max_version_level for one in told.finalized_features} == FEATURES
    (scenario,) = read(READ)
    for step, answer in zip(scenario.steps, place.play(scenario), strict=True):
        assert answer == step.answer, f"{READ.name}:{step.line}: {step.text}"
    assert place.process.stop() == 0
    verify("--records", place.process.data, status=0)
