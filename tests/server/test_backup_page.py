"""The commands of `docs/backup.md`, from the first to the last: only places, numbers and times are ours."""

import re
from pathlib import Path

from tallystick import Broker
from tests.harness.confluent import make_topic, write
from tests.harness.source_tree import ROOT
from tests.server.test_backup import typed

PAGE = (ROOT / "docs" / "backup.md").read_text()
STEP = re.compile(r"^\$ (tallystick (?:backup|restore|verify) .*)\n((?:(?!\$|```).*\n)*)", re.MULTILINE)
LOOSE = r"\d{8}T\d{6}Z(?:-\d)?|\d+"


def test_the_page(tmp_path: Path) -> None:
    steps = STEP.findall(PAGE)
    assert len(steps) == PAGE.count("\n$ ") == 8
    with Broker(folder=tmp_path / "broker", http=True) as broker:
        make_topic(broker.bootstrap, "orders")
        write(broker.bootstrap, "orders", [b"x" * 100] * 10)
        ours = {
            "http://127.0.0.1:9644": broker.http_url,
            "/var/lib/tallystick": str(broker.process.data),
            "/var/lib/restored": str(tmp_path / "restored"),
            "/backup/tallystick": str(tmp_path / "kept"),
        }
        for command, shown in steps:
            words = [ours.get(word, word) for word in command.split()[1:]]
            done = typed(*words, status=1 if shown.startswith("tallystick:") else 0)
            said = done.stdout + done.stderr
            wanted = shown
            for theirs, mine in ours.items():
                wanted, said = wanted.replace(theirs, "@"), said.replace(mine, "@")
            assert re.sub(LOOSE, "0", said) == re.sub(LOOSE, "0", wanted)
