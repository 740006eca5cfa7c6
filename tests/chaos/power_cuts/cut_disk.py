"""A journalling file system in a file, whose power can be cut.

The cut is the kernel's own: EXT4_IOC_SHUTDOWN, which XFS understands as well, without flushing the journal. From then
on nothing reaches the disk; what was not synced is there only as far as the kernel happened to write it. Mounting it
again replays the journal. Root, loop devices and mkfs are needed.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SHUTDOWN = 0x8004587D
"""_IOR('X', 125, __u32)"""
NO_LOG_FLUSH = 2
SIZE_BYTES = 320 << 20
"""The least that mkfs.xfs takes, and more than a round writes."""
BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class FileSystem:
    """How it is made, and how it is mounted."""

    make: tuple[str, ...]
    options: tuple[str, ...] = ()


_EXT4 = ("mkfs.ext4", "-q", "-F")
FILE_SYSTEMS = {
    "ext4-ordered": FileSystem(_EXT4, ("data=ordered",)),
    "ext4-writeback": FileSystem(_EXT4, ("data=writeback",)),
    # Sizes of files are on the disk long before what is in them.
    "ext4-writeback-nodelalloc": FileSystem(_EXT4, ("data=writeback", "nodelalloc", "commit=1")),
    "ext4-ordered-nodelalloc": FileSystem(_EXT4, ("data=ordered", "nodelalloc", "commit=1")),
    "xfs": FileSystem(("mkfs.xfs", "-q", "-f")),
}


class CutDisk:
    """See the head of this file. `image` and the mount point are in `folder`. Not made by the constructor; `close` is
    safe at any time, and leaves the image."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.image = folder / "disk.img"
        self.root = folder / "disk"
        self._kind = FILE_SYSTEMS[kind]
        self._is_mounted = False

    def make(self) -> None:
        self.root.mkdir(parents=True)
        with self.image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        _run(*self._kind.make, str(self.image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", ",".join(("loop", *self._kind.options)), str(self.image), str(self.root))
        self._is_mounted = True

    def cut(self) -> None:
        """Whoever has files open gets EIO from now on."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def come_back(self) -> None:
        """Nobody keeps a file open any more: unmount it, and mount it as it is found on the disk. A process
        that was forked beside `cut` has the folder open until it runs its own program, and the kernel lets go of the
        files of one that was killed a moment after it is gone: until then it is busy."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                _run("umount", str(self.root))
                break
            except subprocess.CalledProcessError as refused:
                if "busy" not in refused.stderr or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._is_mounted = False
        self.mount()

    def close(self) -> None:
        """The loop device goes with the last mount of it."""
        if self._is_mounted:
            self._is_mounted = False
            _run("umount", "--lazy", str(self.root))


def why_not(kind: str) -> str:
    """Why power cannot be cut here; empty where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "power cuts need Linux and root"
    if (tool := FILE_SYSTEMS[kind].make[0]) and shutil.which(tool) is None:
        return f"there is no {tool}"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    with tempfile.TemporaryDirectory() as folder:
        disk = CutDisk(Path(folder), kind)
        try:
            disk.make()
            disk.cut()
            disk.come_back()
        except (subprocess.CalledProcessError, OSError) as refused:
            said = getattr(refused, "stderr", None) or str(refused)
            return f"no {kind} can be mounted and shut down here: {said.strip()}"
        finally:
            disk.close()
    return ""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
