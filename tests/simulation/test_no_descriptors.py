"""A broker over the real disk adapter when the system gives no descriptor: segments roll, logs are compacted, read,
deleted and opened again, nothing is lost, and nobody notices (I49)."""

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

import broker.disk.descriptor_cache
import broker.disk.local_files
import broker.disk.spare_descriptors
from tests.harness.disk import SimulatedDisk
from tests.simulation.adapter import AdapterDisk
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.simulation import live, run
from tests.simulation.test_replaying import PLAN
from tests.simulation.world import World

USERS = (broker.disk.descriptor_cache, broker.disk.local_files, broker.disk.spare_descriptors)


class Scarce:
    """Stands in for the module `os` in `broker.disk`: no more descriptors than `most`."""

    def __init__(self) -> None:
        self.held = 0
        self.most: int | None = None
        self.code = errno.EMFILE
        self.refused = 0
        self.renamed: list[str] = []
        """To which names, while there were no more."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _ask(self) -> None:
        if self.most is not None and self.held >= self.most:
            self.refused += 1
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self._ask()
        descriptor = os.open(path, flags, mode)
        self.held += 1
        return descriptor

    def dup(self, descriptor: int) -> int:
        self._ask()
        copy = os.dup(descriptor)
        self.held += 1
        return copy

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        self.held -= 1

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        if self.most is not None:
            self.renamed.append(target)


@pytest.mark.parametrize("seed", range(3))
def test_nobody_notices_that_there_is_no_descriptor(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, whatever happens meanwhile: a start after a kill and one after a stop, too."""
    scarce = Scarce()
    for user in USERS:
        monkeypatch.setattr(user, "os", scarce)
    random = Random(seed)

    async def come_and_go() -> None:
        while True:
            await asyncio.sleep(random.random() * 0.03)
            scarce.most, scarce.code = scarce.held, random.choice((errno.EMFILE, errno.ENFILE))
            await asyncio.sleep(random.random() * 0.1)
            scarce.most = None

    async def life(world: World, broker: BrokerProcess) -> None:
        broker.disk = cast(SimulatedDisk, AdapterDisk(str(tmp_path / "data")))
        lack = world.loop.create_task(come_and_go())
        await live(world, broker)
        lack.cancel()
        scarce.most = None

    result = run(replace(PLAN, seed=seed), life)
    assert result.violations == []
    assert scarce.refused > 100
    assert {target.rpartition(".")[2] for target in scarce.renamed} >= {"swap", "log", "deleted", "timeindex"}
    assert result.history is not None and len(result.history.ends) > 2
