"""What a story may do to a broker in process, beyond ending it: its fault points, its syncs, its files.

fault marker.before=fail:NOT_LEADER_OR_FOLLOWER@1x*     a fault (docs/faults.md); without a process, of the next one
faults end                                              none of them strikes any more
syncs wait                                              no sync begins from now on
one sync goes through                                   the oldest that waits does, and requests waiting for it go on
one sync reaches the disk                               the oldest is done, but nobody has heard of it yet
syncs go on                                             all do
damage t-0 snapshot at 20                               a bit of the newest file of a partition with that ending
lose t-0 producers                                      the newest such file is gone
damage t-0@3 log at -1, lose t-0@3 log                  the same, of the file that an offset belongs to
lose t-0 snapshot from 5                                every such file from an offset on is gone
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from tests.scenarios.phrases import partition

if TYPE_CHECKING:
    from tests.scenarios.engine import Engine
    from tests.scenarios.places.virtual import Virtual

SETTLED_S = 0.01
"""Longer than it takes until everybody has heard of a sync."""


class Merciless(Random):
    """Of what was not synced a power cut leaves nothing."""

    def randrange(self, *_: int) -> int:  # type: ignore[override]
        return 0


async def meddle(place: "Virtual", engine: "Engine", words: list[str]) -> None:
    """See the head of this file."""
    gate, node = place.broker.gate, place.broker.node
    if words[0] == "fault" and not place.broker.alive:
        place.for_the_next = words[1]
    elif words[0] in ("fault", "faults"):
        assert node is not None and node.faults is not None
        if words[0] == "fault":
            node.faults.arm(words[1])
        else:
            node.faults.disarm()
    elif words == ["syncs", "wait"]:
        gate.is_shut = True
    elif words[:2] == ["one", "sync"]:
        await _let_one_through(place, unheard=words[2:] == ["reaches", "the", "disk"])
    elif words == ["syncs", "go", "on"]:
        gate.is_shut = False
        waiting, gate.waiting = gate.waiting, []
        for sync in waiting:
            sync.loop.call_soon(sync.go_through)
    elif words[0] in ("damage", "lose"):
        _spoil(place, engine, words)
    else:
        raise AssertionError(f"nobody knows how to {' '.join(words)}")


async def _let_one_through(place: "Virtual", *, unheard: bool) -> None:
    waiting = place.broker.gate.waiting
    while not waiting:
        await asyncio.sleep(SETTLED_S)
    sync = waiting[0] if unheard else waiting.pop(0)
    sync.loop.call_soon(sync.reach_the_disk if unheard else sync.go_through)
    await asyncio.sleep(SETTLED_S)


def _spoil(place: "Virtual", engine: "Engine", words: list[str]) -> None:
    what, _, offset = words[1].partition("@")
    topic, index = partition(what)
    folder = f"{engine.names.unique(topic)}-{index}"
    disk = place.broker.disk
    names = [name for name in disk.list(folder) if name.endswith("." + words[2])]
    if "from" in words:
        for name in names:
            if int(name.partition(".")[0]) >= int(words[-1]):
                disk.lose(f"{folder}/{name}")
        return
    path = f"{folder}/{[name for name in names if not offset or int(name.partition('.')[0]) <= int(offset)][-1]}"
    if words[0] == "lose":
        disk.lose(path)
    else:
        disk.damage(path, int(words[4]))
