"""What each API answers who has no rights, in each of its versions: old ones have fewer fields, and refuse otherwise.

Told to a node of ours; `kafka_door` tells it to a real Apache Kafka and writes its answers into
`kafka_every_version.json`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from broker.api.api_families import load_handlers
from protocol.schema import schema_of
from tests.harness.framing import request_frame
from tests.unit.security.api_answers import Door, prepared, told
from tests.unit.security.api_cases import CASES
from tests.unit.security.case import Case
from tests.unit.security.door_rig import ALICE, CLOSED

RECORDED = Path(__file__).with_name("kafka_every_version.json")


async def answers(door: Door, cases: Iterable[Case] = CASES) -> dict[str, Any]:
    """Case → version → what counts of the answer."""
    found: dict[str, Any] = {}
    topic_id = await prepared(door)
    await door.replace_acls(())
    for case in cases:
        entry = load_handlers()[schema_of(type(case.make(topic_id))).api_key]
        for version in entry.versions:
            if not _can_be_said(case.make(topic_id), version):
                continue
            try:
                heard = told(await door.ask(case.make(topic_id), version, ALICE))
            except CLOSED:
                heard = "closed"
            found.setdefault(case.name, {})[str(version)] = heard
    return found


def _can_be_said(request: Any, version: int) -> bool:
    """Old versions know no null."""
    try:
        request_frame(request, version, 7)
    except (AttributeError, TypeError):
        return False
    return True
