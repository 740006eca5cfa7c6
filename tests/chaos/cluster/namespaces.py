"""A network of machines, each a network namespace with one way to a router, which loses what it is to lose. Nobody is
told of a loss: no packet comes back for one that went, as where a cable is cut.

Clients, the database and the bucket stay in the namespace of this process and have addresses of their own in the
network. Namespaces have no name and live as long as the processes in them: nothing stays behind, however this process
ends, and several runs do not meet.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Sequence

PROGRAMS = ("ip", "iptables", "iptables-restore", "unshare", "nsenter")
NETWORKS = [f"198.{second}.{third}" for second in (18, 19) for third in range(256)]
"""Those that are for benchmarks of networks (RFC 2544): nobody else has them."""
ROUTER, BUCKET, CLIENTS = 100, 252, 254
DATABASES = 250, 251
"""The last numbers of addresses; those of nodes are their ids."""
EVERYBODY = "0.0.0.0/0"
FORWARDS = "echo 1 > /proc/sys/net/ipv4/ip_forward"
TRIED = f"{FORWARDS} && iptables -w -A FORWARD -s 127.0.0.1 -j DROP && ip link add one type veth peer name other"


def why_not() -> str | None:
    """Why no such network can be had here, in a sentence; None where one can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"network namespaces want {', '.join(missing)} (apt-get install iproute2 iptables util-linux)"
    done = subprocess.run(["unshare", "--net", "sh", "-ec", TRIED], capture_output=True, text=True, check=False)
    return f"network namespaces cannot be had here: {done.stderr.strip()}" if done.returncode else None


class _Namespace:
    """One that lives until it is `close`d, or until this process ends."""

    def __init__(self) -> None:
        self._holding = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends what is in it first.
        )
        assert self._holding.stdout is not None
        assert self._holding.stdout.readline(), "a namespace was not made"

    @property
    def pid(self) -> int:
        return self._holding.pid

    @property
    def prefix(self) -> list[str]:
        """What a command line begins with that is to run in it."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, *commands: str) -> None:
        _run([*self.prefix, "ip", "-batch", "-"], told="\n".join(commands))

    def close(self) -> None:
        self._holding.communicate()


class Network:
    """Machines that have these numbers; `close` it."""

    def __init__(self, machines: Sequence[int]) -> None:
        self._device = f"tally{os.getpid()}"
        self._made: list[_Namespace] = []
        try:
            self._router = self._namespace()
            _run([*self._router.prefix, "sh", "-c", FORWARDS])
            self._prefix = self._claimed()
            self._router.ip(f"address add {self.address(ROUTER)}/32 dev lo")
            self._connect_this_process()
            self._machines = {number: self._connected(number) for number in machines}
        except BaseException:
            self.close()
            raise

    def _namespace(self) -> _Namespace:
        self._made.append(_Namespace())
        return self._made[-1]

    def _claimed(self) -> str:
        """A network that no other run has: of those who want the same route one gets it."""
        _run(
            ["ip", "link", "add", self._device, "type", "veth", "peer", "name", "here", "netns", str(self._router.pid)]
        )
        _run(["ip", "link", "set", self._device, "up"])
        for prefix in random.SystemRandom().sample(NETWORKS, len(NETWORKS)):
            through = ["via", f"{prefix}.{ROUTER}", "dev", self._device, "onlink"]
            done = subprocess.run(["ip", "route", "add", f"{prefix}.0/24", *through], capture_output=True, check=False)
            if not done.returncode:
                return prefix
        raise OSError("no network is free")

    def _connect_this_process(self) -> None:
        here = (CLIENTS, BUCKET, *DATABASES)  # From the first all connections come that are begun here.
        for number in here:
            _run(["ip", "address", "add", f"{self.address(number)}/24", "dev", self._device, "noprefixroute"])
        self._router.ip("link set here up", *(f"route add {self.address(number)}/32 dev here" for number in here))

    def _connected(self, number: int) -> _Namespace:
        machine, way, router = self._namespace(), f"way{number}", self.address(ROUTER)
        machine.ip(
            f"link add eth0 type veth peer name {way} netns {self._router.pid}",
            f"address add {self.address(number)}/32 dev eth0",
            "link set eth0 up",
            f"route add default via {router} dev eth0 onlink",
        )
        self._router.ip(f"link set {way} up", f"route add {self.address(number)}/32 dev {way}")
        return machine

    def address(self, number: int) -> str:
        return f"{self._prefix}.{number}"

    def prefix_of(self, machine: int) -> list[str]:
        """What a command line begins with that is to run on a machine."""
        return self._machines[machine].prefix

    def way(self, number: int, *others: int) -> "Way":
        """Of these others, or of everybody, to one that they ask."""
        return Way(self._router, [self.address(other) for other in others] or [EVERYBODY], self.address(number))

    def close(self) -> None:
        subprocess.run(["ip", "link", "delete", self._device], capture_output=True, check=False)
        while self._made:
            self._made.pop().close()


class Way:
    """A `Link` through a router, on which packets vanish."""

    def __init__(self, router: _Namespace, askers: list[str], asked: str) -> None:
        self._router = router
        self._askers = askers
        self._asked = asked
        self._lost: list[str] = []
        """The rules by which packets are, each as iptables knows it."""

    def shut(self) -> None:
        self.stand_still(requests=True, answers=True)

    def stand_still(self, *, requests: bool, answers: bool) -> None:
        self.mend()
        for asker in self._askers:
            self._lost += [f"FORWARD -s {asker} -d {self._asked} -j DROP"] if requests else []
            self._lost += [f"FORWARD -s {self._asked} -d {asker} -j DROP"] if answers else []
        self._tell(f"-A {rule}" for rule in self._lost)

    def mend(self) -> None:
        lost, self._lost = self._lost, []
        self._tell(f"-D {rule}" for rule in lost)

    def stop(self) -> None:
        self.mend()

    def _tell(self, changes: Iterable[str]) -> None:
        """All at once."""
        if lines := list(changes):
            told = "\n".join(["*filter", *lines, "COMMIT", ""])
            _run([*self._router.prefix, "iptables-restore", "--noflush", "-w"], told=told)


def _run(command: list[str], *, told: str = "") -> None:
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}\n{told}")
