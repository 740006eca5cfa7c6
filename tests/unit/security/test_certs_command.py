"""`tallystick certs dev`: what it makes, and that a second time adds to it."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from tallystick.cli.certs import certs


def run(*arguments: str) -> str:
    done = CliRunner().invoke(certs, ["dev", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_an_authority_vouches_for_a_server_and_clients(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    shown = run(
        "--dir", str(folder), "--host", "broker.example", "--host", "10.0.0.1", "--client", "ute", "--days", "7"
    )
    assert f"{folder}/ute.pem" in shown and "ssl.client.auth=required" in shown
    authority, server, client = (certificate(folder / f"{name}.pem") for name in ("ca", "server", "ute"))
    for one in (server, client):
        one.verify_directly_issued_by(authority)
        assert (one.not_valid_after_utc - one.not_valid_before_utc).days == 7
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one.value) for one in names] == ["broker.example", "10.0.0.1"]
    assert client.subject.rfc4514_string() == "CN=ute"
    for secret in ("ca.key", "server.pem", "ute.pem"):
        assert stat.S_IMODE((folder / secret).stat().st_mode) == 0o600


def test_a_second_time_adds_clients_of_the_same_authority(tmp_path: Path) -> None:
    run("--dir", str(tmp_path), "--client", "ute")
    before = certificate(tmp_path / "ca.pem")
    run("--dir", str(tmp_path), "--client", "uwe")
    assert certificate(tmp_path / "ca.pem") == before
    for name in ("ute", "uwe", "server"):
        certificate(tmp_path / f"{name}.pem").verify_directly_issued_by(before)


@pytest.mark.parametrize("name", ["ca", "server", "../ute", "a/b", ""])
def test_a_client_s_file_stays_in_the_folder(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(certs, ["dev", "--dir", str(tmp_path / "certs"), "--client", name])
    assert done.exit_code == 1 and "is no name for the file" in done.output
    assert not (tmp_path / "certs").exists()
