"""Who is not let in costs little, in the log, too."""

from pathlib import Path

from tests.harness.certificates import Certificates
from tests.unit.broker.test_log_writer import Rig
from tests.unit.broker.test_tls_transport import Client, TlsHost, story


def test_who_is_not_let_in_and_comes_back_is_counted(tmp_path: Path) -> None:
    """librdkafka comes back twenty times a second."""
    certificates, rig = Certificates(tmp_path), Rig("tls")
    certificates.issue("late", ended=True)

    async def told() -> None:
        for port in range(100):
            Client(TlsHost(), certificates, "late", port=port).shake()

    try:
        story(told)
        told_of = "handshake failed peer=10.0.0.1:0 listener=SSL reason=\"the client's certificate is refused: "
        first, again = rig.lines()
    finally:
        rig.close()
    assert told_of in first and again.startswith(first) and again.endswith("repeated=99")
