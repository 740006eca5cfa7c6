"""TLS over real sockets: certificates that change while the broker runs, clients that do not finish, large answers."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import ApiVersionsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tallystick.process import BrokerFailed, BrokerProcess
from tests.harness.certificates import HOSTS, Certificates
from tests.server.test_many_and_slow import fetch
from tests.server.wire import Wire, make_topic, produce

BROKER, SET, DELETE = 4, 0, 1
KEYSTORE = "listener.name.ssl.ssl.keystore.location"
TRUSTSTORE = "listener.name.ssl.ssl.truststore.location"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def process(tmp_path: Path, certificates: Certificates) -> Iterator[BrokerProcess]:
    made = process_of(tmp_path, certificates)
    try:
        yield made.start()
        assert "Traceback" not in made.log.read_text()
    finally:
        made.close()


def process_of(folder: Path, certificates: Certificates, **more: str) -> BrokerProcess:
    settings = certificates.settings(client_auth="requested") | {
        "tallystick.tls.file.check.interval.ms": "20",
        "tallystick.tls.handshake.timeout.ms": "1000",
    }
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    said = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return BrokerProcess(folder, options=["--listeners", "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", *said])


def listener(process: BrokerProcess, place: int) -> Broker:
    """What `Wire` wants of a broker: the address of its first listener (TLS) or its second."""
    return cast(Broker, SimpleNamespace(bootstrap=process.bootstrap.split(",")[place]))


def encrypted(process: BrokerProcess, certificates: Certificates, name: str | None = None) -> Wire:
    return Wire(listener(process, 0), tls=certificates.client_context(name))


def plain(process: BrokerProcess) -> Wire:
    return Wire(listener(process, 1))


def served(wire: Wire) -> bool:
    return bool(wire.ask(ApiVersionsRequest(), 0).error_code == 0)  # type: ignore[attr-defined]


def serial(process: BrokerProcess, certificates: Certificates) -> str:
    with encrypted(process, certificates) as wire:
        assert isinstance(wire.socket, ssl.SSLSocket)
        shown = wire.socket.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alter(process: BrokerProcess, *changes: tuple[str, str | None]) -> Any:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(
            name=name, config_operation=DELETE if value is None else SET, value=value
        )
        for name, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=configs
    )
    with plain(process) as wire:
        answer: Any = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 0)
        return answer.responses[0]


def test_clients_of_both_listeners_are_served_and_told_of_their_own(
    process: BrokerProcess, certificates: Certificates
) -> None:
    certificates.issue("alice")
    for wire in (encrypted(process, certificates), encrypted(process, certificates, "alice"), plain(process)):
        assert served(wire)


def test_a_large_answer_comes_whole_although_files_cannot_be_sent(
    process: BrokerProcess, certificates: Certificates
) -> None:
    make_topic(listener(process, 1), "large")
    value = os.urandom(900_000)
    records = bytes(build_batch([NewRecord(key=None, value=value, timestamp_ms=1)]))
    with encrypted(process, certificates) as wire:
        for _ in range(5):
            answer: Any = wire.ask(produce("large", records), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        fetched: Any = wire.ask(fetch("large", 0, max_wait_ms=0), 11)
        assert bytes(fetched.responses[0].partitions[0].records).count(value) == 1
        assert served(wire)


def test_a_certificate_that_is_set_anew_is_shown_at_once(process: BrokerProcess, certificates: Certificates) -> None:
    old = encrypted(process, certificates)
    before = serial(process, certificates)
    certificates.issue("next", hosts=HOSTS, common_name="server")
    assert alter(process, (KEYSTORE, str(certificates.path("next")))).error_code == 0
    assert serial(process, certificates) != before
    assert served(old), "a connection keeps what it began with"
    process.stop()
    certificates.path("server").unlink()
    process.start()
    assert serial(process, certificates) != before, "what was set while it ran holds for the next start"
    certificates.issue("server", hosts=HOSTS)
    assert alter(process, (KEYSTORE, None)).error_code == 0


def test_an_authority_that_is_not_trusted_any_more_lets_nobody_in_from_the_answer_on(
    process: BrokerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    certificates.issue("alice")
    other = Certificates(tmp_path / "other")
    for trusted, is_let_in in ((other, False), (certificates, True)) * 3:
        assert alter(process, (TRUSTSTORE, str(trusted.path("ca")))).error_code == 0
        if is_let_in:
            assert served(encrypted(process, certificates, "alice"))
        else:
            with pytest.raises(OSError):
                served(encrypted(process, certificates, "alice"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ((KEYSTORE, "/there/is/none.pem"), "/there/is/none.pem: No such file"),
        ((KEYSTORE, "{another}"), "Keystore DistinguishedName does not match"),
        (("ssl.keystore.location", "{another}"), "only per-listener using the listener prefix"),
        (("listener.name.ssl.ssl.principal.mapping.rules", "DEFAULT"), "Cannot update these configs dynamically"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused_to_whoever_sets_it(
    process: BrokerProcess, certificates: Certificates, change: tuple[str, str], sentence: str
) -> None:
    before = serial(process, certificates)
    another = str(certificates.issue("another", hosts=HOSTS))
    answer = alter(process, (change[0], change[1].format(another=another)))
    assert answer.error_code == 42 and sentence in answer.error_message
    assert serial(process, certificates) == before


def test_a_file_that_changes_is_loaded(process: BrokerProcess, certificates: Certificates) -> None:
    before = serial(process, certificates)
    certificates.issue("server", hosts=HOSTS)
    wait_until(lambda: serial(process, certificates) != before)
    now = serial(process, certificates)
    certificates.path("server").write_text("nothing")
    wait_until(lambda: "those before them stay" in process.log.read_text())
    assert serial(process, certificates) == now


def test_a_client_that_does_not_finish_is_closed(process: BrokerProcess, certificates: Certificates) -> None:
    silent, half = Wire(listener(process, 0)), Wire(listener(process, 0))
    half.send(b"\x16\x03\x01\x02\x00\x01\x00")
    assert silent.closed() and half.closed()
    wait_until(lambda: process.log.read_text().count("takes longer than tallystick.tls.handshake.timeout.ms") == 2)
    assert served(encrypted(process, certificates))


def test_a_client_at_the_wrong_door_gets_one_line(process: BrokerProcess, certificates: Certificates) -> None:
    with pytest.raises((ssl.SSLError, OSError)):
        Wire(listener(process, 1), tls=certificates.client_context())
    with pytest.raises((AssertionError, OSError)):
        served(Wire(listener(process, 0)))
    reasons = ("what it sent is TLS, and this listener speaks without", "what it sent is not TLS")
    wait_until(lambda: [process.log.read_text().count(reason) for reason in reasons] == [1, 1])


def test_a_certificate_that_has_run_out_lets_nobody_in(process: BrokerProcess, certificates: Certificates) -> None:
    certificates.issue("late", ended=True)
    wire: Wire | None = None
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        wire = encrypted(process, certificates, "late")  # TLS 1.3: the client is done before it hears of it
        served(wire)
    wait_until(lambda: "certificate has expired" in process.log.read_text())


def test_who_goes_away_in_the_middle_leaves_nothing(process: BrokerProcess, certificates: Certificates) -> None:
    for _ in range(50):
        wire = encrypted(process, certificates)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wire.socket.close()  # a reset
    wait_until(lambda: sockets(process) <= 4)
    assert served(encrypted(process, certificates))


def sockets(process: BrokerProcess) -> int:
    links = (Path(f"/proc/{process.pid}/fd") / name for name in os.listdir(f"/proc/{process.pid}/fd"))
    return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)


def test_secrets_are_not_described(tmp_path: Path, certificates: Certificates) -> None:
    made = process_of(tmp_path, certificates, **{"ssl.key.password": "geheim"})
    try:
        made.start()
        assert alter(made, ("listener.name.ssl.ssl.key.password", "geheimer")).error_code == 0
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        with plain(made) as wire:
            answer: Any = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        secret = {one.name: one for one in answer.results[0].configs if one.name.endswith("key.password")}
        assert set(secret) == {"ssl.key.password", "listener.name.ssl.ssl.key.password"}
        assert all(one.is_sensitive and one.value is None for one in secret.values())
        assert "geheim" not in str(answer)
        assert "geheim" not in made.log.read_text()
    finally:
        made.close()


def test_a_broker_whose_key_cannot_be_read_says_so_and_ends(tmp_path: Path, certificates: Certificates) -> None:
    certificates.path("server").write_text("nothing")
    made = process_of(tmp_path, certificates)
    try:
        with pytest.raises(BrokerFailed, match="ended with status 2"):
            made.start()
        assert "server.pem: it holds 0 private keys, not one." in made.log_end()
        assert "Traceback" not in made.log_end()
    finally:
        made.close()


def test_half_open_handshakes_are_bounded(tmp_path: Path, certificates: Certificates) -> None:
    made = process_of(tmp_path, certificates, tallystick_tls_handshakes_max="10")
    try:
        made.start()
        waiting = [Wire(listener(made, 0)) for _ in range(30)]
        assert all(wire.closed() for wire in waiting[:20])
        assert served(encrypted(made, certificates)), "who can speak TLS comes in all the same"
    finally:
        made.close()


def test_a_broker_whose_own_certificate_has_run_out_says_so(tmp_path: Path, certificates: Certificates) -> None:
    """Clients that look refuse it; the broker serves, as Kafka does: there is no other way to put in a new one."""
    certificates.issue("server", hosts=HOSTS, ended=True)
    made = process_of(tmp_path, certificates)
    try:
        made.start()
        assert "the certificate has run out, clients will refuse it" in made.log.read_text()
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            encrypted(made, certificates)
        certificates.issue("server", hosts=HOSTS)
        wait_until(lambda: made.log.read_text().count("certificate loaded") == 2)
        assert served(encrypted(made, certificates))
    finally:
        made.close()
