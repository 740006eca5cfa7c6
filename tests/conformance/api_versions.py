"""Which versions an Apache Kafka 4.3.1 serves on a listener of clients, as it said itself, beside ours.

`python -m tests.conformance.api_versions --record` asks one that it starts, and writes `api_versions.json`.
"""

import json
import sys
import tempfile
from pathlib import Path

from protocol.messages.metadata import ApiVersionsRequest
from tallystick.client.blocking import BlockingClient
from tests.harness.apache_kafka import ApacheKafka

RECORD = Path(__file__).with_name("api_versions.json")
RELEASE = "4.3.1"

MORE = {
    71: "Kafka lists it where a plugin that collects metrics is configured, which stands in no setting of this one",
    72: "as 71",
}
"""What we list, with a setting, and the recorded Kafka does not."""
NEITHER = "4–7, 52–54, 56, 58, 59, 62, 63, 67, 70, 73 and 82"
"""Between brokers and controllers."""
SECTION = """### Beside Apache Kafka {release}

The column is what a running Kafka {release} answered to ApiVersions, kept in `tests/conformance/api_versions.json`;
a test holds it against ours: all of them are served, in the same versions.
Listed here, if a setting wants it, and not by that Kafka:

{more}

Keys that neither lists ({neither}) are spoken between brokers and controllers.
"""


def asked(bootstrap: str) -> dict[int, tuple[int, int]]:
    """What a running broker lists."""
    with BlockingClient(bootstrap) as client:
        answer = client.ask(ApiVersionsRequest(client_software_name="tallystick", client_software_version="1"))
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


def recorded() -> dict[int, tuple[int, int]]:
    kept = json.loads(RECORD.read_text())
    assert kept["release"] == RELEASE
    return {int(key): (first, last) for key, (first, last) in kept["versions"].items()}


def section() -> str:
    """Of docs/compatibility.md."""
    more = "\n".join(f"- {key}: {reason}." for key, reason in MORE.items())
    return SECTION.format(release=RELEASE, more=more, neither=NEITHER)


def written(versions: tuple[int, int] | None) -> str:
    if versions is None:
        return "–"
    first, last = versions
    return str(first) if first == last else f"{first}–{last}"


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder), heap="512m")
        try:
            found = asked(kafka.start().bootstrap)
        finally:
            kafka.close()
    lines = ",\n".join(f'    "{key}": [{first}, {last}]' for key, (first, last) in sorted(found.items()))
    RECORD.write_text(f'{{\n  "release": "{RELEASE}",\n  "versions": {{\n{lines}\n  }}\n}}\n')


if __name__ == "__main__":
    assert sys.argv[1:] == ["--record"], __doc__
    record()
