"""Arming fault points: what a line of text means, when a fault strikes, and that every point is in the docs."""

import errno
from pathlib import Path

import pytest

from broker.api.api_families import load_handlers
from broker.faults.control import BadFault, Faults
from broker.faults.points import POINTS, Action, Refusal
from broker.partitions.errors import AppendError
from protocol.errors import ErrorCode

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "faults.md"


class Witness:
    """A victim that writes down what was done to it."""

    def __init__(self) -> None:
        self.suffered: list[str] = []

    def crash(self) -> None:
        self.suffered.append("crash")

    def freeze(self) -> None:
        self.suffered.append("freeze")

    def stand_still(self, milliseconds: int) -> None:
        self.suffered.append(f"still {milliseconds}")


@pytest.fixture(autouse=True)
def known_apis() -> None:
    load_handlers()


def test_a_fault_fires_only_at_its_pass() -> None:
    victim = Witness()
    faults = Faults(victim, "prepare.after-append=crash@3")
    struck_after = []
    for _ in range(5):
        faults.reach("prepare.after-append")
        faults.reach("prepare.after-sync")
        struck_after.append(len(victim.suffered))
    assert struck_after == [0, 0, 1, 1, 1]
    assert faults.hits == {"prepare.after-append": 5, "prepare.after-sync": 5}
    assert not faults.armed


@pytest.mark.parametrize(
    ("place", "passes"),
    [
        ("orders:1", [("orders", 1)]),
        ("orders", [("orders", 0), ("orders", 1), ("orders", 11)]),
        ("orders-1", [("orders-1", 1)]),
    ],
)
def test_a_fault_strikes_where_it_is_to(place: str, passes: list[tuple[str, int]]) -> None:
    victim = Witness()
    faults = Faults(victim, f"marker.after-sync[{place}]=crash@2x*")
    struck = []
    for _ in range(2):
        for topic, partition in (("orders", 0), ("orders", 1), ("orders-1", 1), ("others", 1), ("orders", 11)):
            before = len(victim.suffered)
            faults.reach("marker.after-sync", topic=topic, partition=partition)
            if len(victim.suffered) > before:
                struck.append((topic, partition))
    assert struck == (passes * 2)[1:], "the first pass there does not count, and none elsewhere does"


def test_a_refusal_lasts_for_the_named_number_of_passes() -> None:
    faults = Faults(Witness(), "marker.before=fail:NOT_LEADER_OR_FOLLOWER@2x2")
    refused = []
    for _ in range(5):
        try:
            faults.refuse("marker.before", "orders", 0)
            refused.append(None)
        except AppendError as error:
            refused.append(error.code)
    assert refused == [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, None]


def test_a_full_disk_stays_full_until_it_is_disarmed() -> None:
    faults = Faults(Witness(), "log.before-append=fail:ENOSPC@1x*")
    for _ in range(3):
        with pytest.raises(OSError) as raised:
            faults.refuse_file("log.before-append", "t-0/0.log")
        assert raised.value.errno == errno.ENOSPC
    faults.disarm()
    faults.refuse_file("log.before-append", "t-0/0.log")


def test_several_are_armed_at_once_and_more_later() -> None:
    victim = Witness()
    faults = Faults(victim, "answer.EndTxn=drop, produce.after-sync=delay:50;init.after-sync=freeze")
    faults.arm("produce.after-sync=crash@2")
    dropped = faults.reach("answer.EndTxn", waits=True)
    assert dropped is not None and dropped.action is Action.DROP
    for _ in range(2):
        faults.reach("produce.after-sync")
    faults.reach("init.after-sync")
    assert victim.suffered == ["still 50", "crash", "freeze"]


@pytest.mark.parametrize(
    "text",
    [
        "prepare.after-append",
        "prepare.after-apend=crash",
        "request.Everything=drop",
        "prepare.after-append=fail:NOT_COORDINATOR",
        "prepare.before-append=fail",
        "prepare.before-append=fail:NO_SUCH_ERROR",
        "log.before-append=fail:NOT_COORDINATOR",
        "log.before-append=drop",
        "prepare.after-append=delay:soon",
        "prepare.after-append=crash@0",
        "prepare.after-append=crash:now",
        "request.Produce[orders]=drop",
        "marker.before[]=crash",
        "marker.before[orders:x]=crash",
    ],
)
def test_an_unknown_fault_arms_nothing_of_its_line(text: str) -> None:
    faults = Faults(Witness(), "on")
    with pytest.raises(BadFault):
        faults.arm(f"init.after-sync=crash,{text}")
    assert not faults.armed


def test_every_point_is_documented() -> None:
    text = DOCUMENT.read_text()
    shown: set[str] = set()
    for line in text.splitlines():
        family = ""
        for part in line.split("`"):
            name, _, moment = part.partition(".")
            family = family if not name or not moment else name
            shown.add(f"{family}.{moment}")
    assert [name for name in POINTS if name not in shown] == []
    assert all(point.refusal is not Refusal.NONE for name, point in POINTS.items() if ".before" in name)
