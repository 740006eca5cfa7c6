"""One attack on one broker, beside an honest client: start, attack, hang up, look, restart, look again.

What must hold, on any machine: the process lives; the honest client is never refused and reads what it wrote; when
the attacker has hung up, memory and sockets go back; no traceback in the log; after a restart (`kill -9` of ours) every
acknowledged record and offset is there, and topics, groups and transactions work. How long things took is measured and
not judged here.
"""

import fcntl
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.records.batch import HEADER_SIZE, headers_in
from protocol.records.record import records_of
from protocol.schema import Buffer
from tallystick.process import BrokerFailed, BrokerProcess
from tests.attacks import wire
from tests.attacks.honest import Honest, Seen
from tests.attacks.honest_loops import LOOPS, TOPIC, TRANSACTIONAL_TOPIC, Loop, Refused, committed_offset
from tests.attacks.measures import Stalls, Watch, descriptors, resident_mb, stalls_of
from tests.attacks.registry import Case
from tests.attacks.wire import Hangup, Link
from tests.chaos.forked_broker import Died, ForkedBroker
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.certificates import Certificates
from tests.harness.secure_broker import plain_users

SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "socket.request.max.bytes": str(16 << 20),
}
SETTLE_S = 20.0
"""How long memory and sockets may take to go back after everybody has hung up, before that counts as never."""
TLS_MB = 1 / 16
"""Of each connection that there is at once, beyond what it takes without TLS: OpenSSL's objects and buffers. They leave
holes between what stays, which the next connections use and the allocator does not give back."""
OPENED_WITHIN_S = 30.0
"""How long a log may take to be opened after a restart."""
PIPE_BYTES = 4096


class AttackedBroker(BrokerProcess):
    """Our broker, if wanted with few descriptors and with a standard error that nobody reads."""

    descriptor_limit = 0
    unread_pipe: Path | None = None

    def _command(self, ready: Path) -> list[str]:
        command = super()._command(ready)
        if self.descriptor_limit:
            command = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(self.descriptor_limit), *command]
        if self.unread_pipe is not None:
            command = ["sh", "-c", 'exec "$@" 2> "$0"', str(self.unread_pipe), *command]
        return command


class QuickBroker(ForkedBroker):
    """The same program, forked from a process that has imported it: the short form starts a hundred of them."""

    def start(self) -> bool:
        assert super().start(faults=""), self.log_end()
        return True

    def close(self) -> None:
        self.kill()


@dataclass
class Outcome:
    """What became of one case on one broker."""

    case: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        return not self.problems


class Trial:
    """What an attack has in its hands: the broker, connections that are closed for it, and a place for remarks."""

    def __init__(
        self,
        case: Case,
        sizes: Mapping[str, int],
        folder: Path,
        *,
        kafka: bool = False,
        quick: bool = False,
        tls: bool = False,
        sasl: bool = False,
    ) -> None:
        self.case = case
        self.sizes = sizes
        self.kafka = kafka
        self.folder = folder
        self.outcome = Outcome(case.name)
        self.after_restart: Callable[[Link], None] = lambda _: None
        """What the attack wants to be looked at when the broker is back."""
        self._tls = tls
        self._links: list[Link] = []
        self._pipe: int | None = None
        self._log_read = self._tracebacks = 0
        settings = SETTINGS | dict(case.settings)
        protocols = settings.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
        if sasl:
            settings |= self._guarded()
            protocols = protocols.replace(":PLAINTEXT", ":SASL_PLAINTEXT")
        if tls:
            settings |= self._encrypted()
            protocols = protocols.replace(":PLAINTEXT", ":SSL").replace(":SASL_PLAINTEXT", ":SASL_SSL")
        if sasl or tls:
            settings["listener.security.protocol.map"] = protocols
        forked = quick and not case.descriptor_limit and not case.full_pipe
        self.broker = QuickBroker(folder, settings) if forked else self._make_broker(settings)

    def _encrypted(self) -> dict[str, str]:
        """Listeners speak TLS, whatever their names, and everybody knows."""
        certificates = Certificates(self.folder / "certificates")
        authority = str(certificates.path("ca"))
        os.environ[wire.AUTHORITY] = authority  # for the honest client, a process of its own
        Link.encryption = ssl.create_default_context(cafile=authority)
        return certificates.settings()

    def _guarded(self) -> dict[str, str]:
        """The one listener wants to hear who its clients are, whatever its name, and everybody says it at first."""
        Link.says = name, password = "ute", "secret"
        os.environ[wire.SAYS] = f"{name} {password}"
        users = plain_users({name: password})
        return {"sasl.enabled.mechanisms": "PLAIN", "listener.name.plaintext.plain.sasl.jaas.config": users}

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def guarded(self) -> str:
        """The second listener, of a case that has one."""
        return self.bootstrap.split(",")[1]

    def connect(
        self, *, receive_buffer: int | None = None, seconds: float = wire.PATIENCE_S, guarded: bool = False
    ) -> Link:
        where = self.guarded if guarded else self.bootstrap
        link = Link(where, receive_buffer=receive_buffer, seconds=seconds)
        self._links.append(link)
        return link

    def hang_up(self) -> None:
        for link in self._links:
            link.close()
        self._links.clear()

    def require(self, held: bool, problem: str) -> None:
        """What the attack itself must not see."""
        if not held:
            self.outcome.problems.append(problem)

    def note(self, text: str) -> None:
        self.outcome.notes.append(text)

    def wait_until(self, condition: Callable[[], bool], what: str, *, seconds: float = SETTLE_S) -> None:
        """Look until it is so. That it never is, is a problem."""
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.broker.running:
                return  # The end of the process is a problem of its own.
            if time.monotonic() > deadline:
                self.outcome.problems.append(f"never: {what}")
                return
            time.sleep(0.01)

    def restart(self) -> None:
        """`kill -9` and a new start; Apache Kafka is stopped in order, for it takes a quarter of a minute otherwise."""
        self.hang_up()
        if self.kafka:
            self.broker.stop(seconds=120)
        else:
            self.broker.kill()
        self.broker.start()

    def run(self) -> Outcome:
        try:
            self.broker.start()
            if self.case.prepare is not None:
                self.case.prepare(self, **self.sizes)
                self.hang_up()
            seen = self._attacked()
            if self.broker.running:
                self._look_after(seen)
            else:
                self.outcome.problems.append(f"the broker has ended: {self.broker.log_end(600)}")
        except (BrokerFailed, Died) as error:
            self.outcome.problems.append(f"the broker did not start: {str(error)[:600]}")
        finally:
            self.hang_up()
            self.broker.close()
            if self._pipe is not None:
                os.close(self._pipe)
        return self.outcome

    def _make_broker(self, settings: dict[str, str]) -> BrokerProcess:
        if self.kafka:
            return ApacheKafka(self.folder, settings=settings, heap="1g")
        listeners = settings.pop("listeners", "")
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        options += ["--listeners", listeners] if listeners else []
        broker = AttackedBroker(self.folder, options=options)
        broker.descriptor_limit = self.case.descriptor_limit
        if self.case.full_pipe:
            self.folder.mkdir(parents=True, exist_ok=True)
            broker.unread_pipe = self.folder / "unread"
            os.mkfifo(broker.unread_pipe)
            self._pipe = os.open(broker.unread_pipe, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            _fill(broker.unread_pipe)
        return broker

    def _attacked(self) -> Seen:
        """The attack, with the honest client beside it and the process under watch."""
        honest = Honest(self.bootstrap, f"{self.case.name}-before", self.case.honest)
        log_before = self.tracebacks()
        try:
            pid = self.broker.pid
            watch = Watch(pid)
            stalls = self._stalls()
            began = time.perf_counter()
            self._attack()
            seconds = time.perf_counter() - began
            self.hang_up()
            seen = honest.finish()
        finally:
            honest.close()
        watch.stop()
        figures = self.outcome.figures
        figures |= {"seconds": seconds, "rss_before_mb": watch.before_mb, "rss_peak_mb": watch.peak_mb}
        figures |= {"descriptors_before": watch.before_descriptors, "descriptors_peak": watch.peak_descriptors}
        figures |= {"worst_probe_ms": seen.worst_ms("probe"), "worst_ms": seen.worst_ms()}
        figures |= {"rounds": seen.rounds(), "probe_over_100_ms": seen.long_waits()}
        self.outcome.problems += seen.refused
        if self.broker.running and pid == self.broker.pid:
            self._note_stalls(stalls)
            self._expect_memory_back(watch)
        self.require(self.tracebacks() - log_before <= self.case.expected_tracebacks, self.last_traceback())
        return seen

    def _stalls(self) -> Stalls:
        """Of our own monitor, where its line can be read."""
        return Stalls() if self.kafka or self.case.full_pipe else stalls_of(self.broker.pid, self.broker.log)

    def _note_stalls(self, before: Stalls) -> None:
        if not self.kafka and not self.case.full_pipe:
            after = self._stalls()
            turns = after.turns - before.turns
            worst = after.worst_ms if after.worst_ms > before.worst_ms or not turns else before.worst_ms
            if turns and after.worst_ms > before.worst_ms:
                self.note(f"in the longest turn ran {' > '.join(after.ran.split(' > ')[-4:])}")
            self.outcome.figures |= {
                "turns_over_20_ms": turns,
                "turns_over_100_ms": after.over_100_ms - before.over_100_ms,
                "worst_turn_ms": worst if turns else 0,
            }

    def _attack(self) -> None:
        try:
            self.case.attack(self, **self.sizes)
        except (Hangup, TimeoutError, ConnectionError, AssertionError) as error:
            self.outcome.problems.append(f"the attacker was surprised: {type(error).__name__} {str(error)[:300]}")

    def _expect_memory_back(self, watch: Watch) -> None:
        pid, sockets = self.broker.pid, watch.before_sockets
        most_sockets = sockets - len(self.case.honest) if self.case.honest else sockets
        self.wait_until(lambda: descriptors(pid)[1] <= most_sockets, "the sockets of the attacker are closed")
        if self.kafka:  # A heap is never given back.
            self.outcome.figures |= {"rss_after_mb": resident_mb(pid), "descriptors_after": descriptors(pid)[0]}
            return
        of_tls = self._tls and TLS_MB * (watch.peak_descriptors - watch.before_descriptors)
        kept = self.case.kept_mb + of_tls
        self.wait_until(lambda: resident_mb(pid) <= watch.before_mb + kept, f"memory within {kept:.0f} MB of before")
        self.outcome.figures |= {"rss_after_mb": resident_mb(pid), "descriptors_after": descriptors(pid)[0]}
        if self.case.peak_mb is not None:
            growth = watch.peak_mb - watch.before_mb
            most = self.case.peak_mb + of_tls
            self.require(growth <= most, f"memory grew by {growth:.0f} MB, {most:.0f} allowed")

    def _look_after(self, seen: Seen) -> None:
        """After a restart: what was acknowledged is there, and everything works."""
        self.restart()
        with Link(self.bootstrap) as link:
            self._unless_refused("what was kept", lambda: self._expect_everything_kept(link, seen))
            self._unless_refused("what the attack looks at", lambda: self.after_restart(link))
        for name in self.case.honest:
            loop = LOOPS[name](self.bootstrap, f"{self.case.name}-after")
            self._unless_refused(name, partial(_a_few_rounds, loop))
            loop.link.close()

    def _unless_refused(self, what: str, look: Callable[[], None]) -> None:
        try:
            look()
        except (Refused, Hangup, TimeoutError, ConnectionError, AssertionError) as error:
            self.outcome.problems.append(f"after a restart, {what}: {str(error)[:300]}")

    def _expect_everything_kept(self, link: Link, seen: Seen) -> None:
        self._expect_kept(link, TOPIC, seen.acknowledged("writer"), committed=False)
        self._expect_kept(link, TRANSACTIONAL_TOPIC, seen.acknowledged("transactor"), committed=True)
        if wanted := seen.acknowledged("member").get(0):
            kept = committed_offset(link)
            self.require(kept >= int(wanted), f"the group has offset {kept} after a restart, {wanted} was committed")

    def _expect_kept(self, link: Link, topic: str, wanted: dict[int, str], *, committed: bool) -> None:
        found: dict[int, str] = {}
        offset = min(wanted, default=0)
        while wanted and offset <= max(wanted):
            data = self._fetched(link, wire.fetch(topic, offset, max_wait_ms=500, committed=committed))
            batches = list(headers_in(data))
            if not batches:
                break
            for position, header in batches:
                if not header.is_control and header.size > HEADER_SIZE:
                    found |= {record.offset: str(record.value, "utf-8") for record in records_of(data, position)}
                offset = header.next_offset
        missing = [offset for offset, value in wanted.items() if found.get(offset) != value]
        self.require(
            not missing, f"{len(missing)} of {len(wanted)} acknowledged records of {topic} are lost: {missing[:5]}"
        )

    def _fetched(self, link: Link, request: FetchRequest) -> Buffer:
        """Records. A log that is still being opened is requested again, as clients do."""
        deadline = time.monotonic() + OPENED_WITHIN_S
        while True:
            answered = link.request(request, 11).responses[0].partitions[0]
            if answered.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
                self.require(not answered.error_code, f"Fetch is answered {answered.error_code} after a restart")
                return answered.records or b""

    def tracebacks(self) -> int:
        """How many the log has had so far; only what is new in it is read."""
        if self.kafka or not self.broker.log.exists() or self.broker.log.stat().st_size == self._log_read:
            return self._tracebacks
        with self.broker.log.open("rb") as log:
            log.seek(self._log_read)
            new = log.read()
        self._log_read += len(new)
        self._tracebacks += new.count(b"Traceback (")
        return self._tracebacks

    def last_traceback(self) -> str:
        text = self.broker.log.read_text() if self.broker.log.exists() else ""
        at = text.rfind("Traceback (")
        return f"a traceback in the log: …{text[max(0, at - 200) : at + 2500]}" if at >= 0 else ""


def _fill(pipe: Path) -> None:
    """From the first line on there is no room."""
    end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(end, bytes(PIPE_BYTES))
    os.close(end)


def _a_few_rounds(loop: Loop) -> None:
    loop.prepare()
    for _ in range(3):
        loop.counted_round()
    loop.finish()
