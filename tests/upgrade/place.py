"""A broker on a data folder that is to be kept, or that was. Topics, groups and ids have the names they are called by:
the folder holds one story.
"""

from pathlib import Path

from protocol.messages.metadata import MetadataRequest
from tallystick.process import BrokerProcess
from tests.harness.archives import unpack_archive
from tests.harness.proxy import free_port
from tests.scenarios.engine import Engine
from tests.scenarios.language import Scenario
from tests.scenarios.places.sockets import Sockets

HERE = Path(__file__).parent
FORMAT = 1
KEPT = HERE / f"format-{FORMAT}.tar.xz"
WRITTEN, READ = HERE / "written.txt", HERE / "read.txt"
ZERO_MS = 1_767_225_600_000
"""What times in the story are counted from: as long as the folder is kept, they are the same."""
HOURS_MS, FOREVER_MS = "3600000", str(2**31 - 1)
USER, PASSWORD = "ursula", "a secret"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "auto.create.topics.enable": "false",
    # Years may lie between the writing and the reading.
    "log.retention.ms": "-1",
    "offsets.retention.minutes": FOREVER_MS,
    "transactional.id.expiration.ms": FOREVER_MS,
    # A slow machine ends no session.
    **{
        f"group.{kind}.{name}": HOURS_MS
        for kind in ("consumer", "share", "streams")
        for name in ("session.timeout.ms", "max.session.timeout.ms")
    },
}
WRITING = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": HOURS_MS,  # what is open stays open
    "log.cleaner.backoff.ms": "100",
}
READING = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


class OnAFolder(Sockets):
    """The broker; `guarded` is its listener for users."""

    def __init__(self, folder: Path, more: dict[str, str]) -> None:
        self.port, guarded = free_port(), free_port()
        self.bootstrap, self.guarded = f"127.0.0.1:{self.port}", f"127.0.0.1:{guarded}"
        listeners = f"PLAINTEXT://{self.bootstrap},SECURE://{self.guarded}"
        options = [part for pair in (SETTINGS | more).items() for part in ("--set", "=".join(pair))]
        super().__init__(BrokerProcess(folder, options=["--listeners", listeners, *options]))
        self.process.is_controlled = True

    async def meddle(self, engine: Engine, words: list[str]) -> None:
        assert words[0] == "fault" and self.process.control is not None
        self.process.control.ask("arm", text=words[1])

    async def _play(self, scenario: Scenario) -> list[list[str]]:
        return await _OfAFolder(self, scenario, suffix="", zero_ms=ZERO_MS).play()


class _OfAFolder(Engine):
    """Knows the topics that are there."""

    async def _prepare(self) -> None:
        await super()._prepare()
        found = await self.ask_console(MetadataRequest(topics=None), 12)
        self.names.topics |= {one.topic_id: one.name for one in found.topics}


def unpack(folder: Path) -> Path:
    """The folder as it was written, as that of a broker whose folder is given."""
    unpack_archive(KEPT, folder)
    return folder / "data"
